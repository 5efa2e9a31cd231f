"""Loops of a series between which the cores do not meet: the rule that leaves a barrier out, and the check of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trainlib_deployer.check.apart import unmet
from trainlib_deployer.emit.listing import Call, Home, Listing, Operation, Place, Pointer
from trainlib_deployer.emit.shares import apart
from trainlib_deployer.program.expr import Reduction
from trainlib_deployer.program.ir import DType, Part, Shape, View
from trainlib_deployer.program.loop import Loop


def lines(name: str, extents: Shape, strides: Shape, written: str, steps: Shape, reduced: int = 0) -> Call:
    """A loop that reads one tensor and writes another."""
    parallel = extents[: len(extents) - reduced]
    sums = (Reduction("sum", 0, DType.F32),) if reduced else ()
    kind = Loop(extents, reduced, (DType.F32,), (), sums, (), (reduced and 1,), (DType.F32,))
    part = Part(kind, (View(name, extents, strides),), (View(written, parallel, steps),))
    arguments = tuple(("", Pointer(Home(n, "L1", n))) for n in (written, name))
    return Call("loop", "", arguments, part)


def test_cores_that_do_not_meet_have_the_same_lines() -> None:
    """The sums of rows, then rows by their sums: each core's own, where they are shared alike."""
    sums = lines("x", (8, 3, 12), (12, 96, 1), "sums", (1,), reduced=2)
    by_rows = lines("sums", (8, 3, 12), (1, 0, 0), "y", (12, 96, 1))
    places = {n: Place("L1", k * 4096, 4096, 0, 9) for k, n in enumerate(("x", "sums", "y"))}

    def faults(*calls: Call, cores: int = 8, places: dict[str, Place] = places, **more: Any) -> list[str]:
        operation = Operation("op", None, (), (calls,), apart=frozenset({1}), **more)
        return list(unmet(Listing(places, (operation,), (), (), cores)))

    assert faults(sums, by_rows) == [] and apart([(sums, by_rows)], None, places, 8) == {1}
    odd = lines("x", (9, 3, 12), (12, 108, 1), "sums", (1,), reduced=2)
    behind = lines("sums", (9, 3, 12), (1, 0, 0), "y", (12, 108, 1))  # 324 elements, by fours
    turned = lines("sums", (3, 8, 12), (0, 1, 0), "y", (96, 12, 1))
    moved = replace(by_rows, arguments=(by_rows.arguments[0], ("", Pointer(Home("sums", "L1", "sums"), 1))))
    over = {**places, "y": places["x"]}  # a line of the result where there were others
    close = lines("sums", (8, 3, 12), (1, 0, 0), "y", (36, 12, 1))
    for calls, where in (((odd, behind), places), ((sums, turned), places), ((sums, moved), places)):
        assert faults(*calls, places=where) and not apart([calls], None, where, 8), calls
    assert faults(sums, close) == [] and faults(sums, close, places=over) and not apart([(sums, close)], None, over, 8)
    assert faults(sums, by_rows, places=over) == []
    assert faults(sums, by_rows, cores=3) and not apart([(sums, by_rows)], None, places, 3)
    (fault,) = faults(replace(sums, loop=None), by_rows)
    assert "nothing is known" in fault
