"""Copies as rows of a table: which operations keep a function, and what the table says."""

from __future__ import annotations

from trainlib_deployer.emit.listing import ARRIVAL, CARRY, Call, Home, Listing, Operation, Pointer
from trainlib_deployer.emit.orders import AWAITS, Orders


def start(name: str, job: int, offset: int, starts: tuple[str, ...] = ()) -> Operation:
    near, far = Pointer(Home("near", "L2", "U8(L2, near)")), Pointer(Home("far", "L3", "OFFSET_far"))
    numbers = {"offset": offset, "row_bytes": 52, "rows": 3, "pitch": 104, "job": job, "inward": 1}
    fields = (("near", near), ("far", far), ("jobs", "JOBS"), *numbers.items())
    return Operation(name, None, starts, ((Call("tl_carry_start", CARRY, fields),),))


def wait(name: str, job: int) -> Operation:
    return Operation(name, None, (), ((Call("tl_carry_await", ARRIVAL, (("jobs", "JOBS"), ("job", job))),),))


def work(name: str) -> Operation:
    return Operation(name, None, (), ((Call("loop", "", ()),),))


def orders(*operations: Operation, alone: tuple[int, ...] = ()) -> Orders:
    return Orders(Listing({}, operations, (), ()), alone)


STEP = (start("a", 0, 0), start("b", 1, 60), work("c"), wait("d", 1), wait("e", 0), start("f", 1, 0), wait("g", 1))


def test_neighbours_are_one_call() -> None:
    assert list(orders(*STEP).lines(range(7))) == ["CARRY(a, 0, 2);", "RUN(c);", "CARRY(d, 2, 4);"]
    assert list(orders(*STEP).lines(range(4, 7))) == ["CARRY(e, 3, 3);"]


def test_a_row_has_what_its_copy_says() -> None:
    found = orders(*STEP)
    here = ".near = U8(L2, near), .far = OFFSET_far, .jobs = JOBS"
    assert (
        found.copies[1] == f"{{{here}, .offset = 60, .row_bytes = 52, .rows = 3, .pitch = 104, .job = 1, .inward = 1}}"
    )
    assert len(found.copies) == 3
    assert found.orders == [0, 1, 1 | AWAITS, 0 | AWAITS, 2, 2 | AWAITS]
    assert "".join(found.text) == "0, 1, 32769, 32768, 2, 32770,"


def test_a_row_that_is_there_is_used_again() -> None:
    again = orders(*STEP, start("h", 1, 60), wait("i", 1))
    assert len(again.copies) == 3 and again.orders[-2:] == [1, 1 | AWAITS]
    assert again.nbytes == 3 * 36 + 8 * 2


def test_what_starts_tiles_or_is_recorded_behind_keeps_its_function() -> None:
    with_guest = (start("a", 0, 0, ("c",)), *STEP[1:])
    assert list(orders(*with_guest).lines(range(4))) == ["RUN(a);", "CARRY(b, 0, 1);", "RUN(c);", "CARRY(d, 1, 1);"]
    assert list(orders(*STEP, alone=(5,)).lines(range(7)))[2:] == ["CARRY(d, 2, 2);", "RUN(f);", "CARRY(g, 4, 1);"]
