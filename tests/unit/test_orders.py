"""A step with a third memory as rows of tables: which operations keep a function, and what the tables say."""

from __future__ import annotations

from trainlib_deployer.emit.functions import Functions
from trainlib_deployer.emit.listing import (
    ARRIVAL,
    CARRY,
    Call,
    Home,
    Listing,
    Move,
    Operation,
    Place,
    Pointer,
    Recorded,
    Stream,
    Tile,
    Tiles,
    Way,
)
from trainlib_deployer.emit.orders import AWAITS, FIRSTS, IN, RUNS, Orders
from trainlib_deployer.emit.render import rendered
from trainlib_deployer.emit.shared import Shared, shared, streams_shared
from trainlib_deployer.emit.tables import Tables
from trainlib_deployer.ops.carry import ORDERS_AT_HAND
from trainlib_deployer.program.ir import DType


def start(name: str, job: int, offset: int, starts: tuple[str, ...] = ()) -> Operation:
    near, far = Pointer(Home("near", "L2", "U8(L2, near)")), Pointer(Home("far", "L3", "OFFSET_far"))
    numbers = {"offset": offset, "row_bytes": 52, "rows": 3, "pitch": 104, "job": job, "inward": 1}
    fields = (("near", near), ("far", far), ("jobs", "JOBS"), *numbers.items())
    return Operation(name, None, starts, ((Call("tl_carry_start", CARRY, fields),),))


def wait(name: str, job: int, starts: tuple[str, ...] = ()) -> Operation:
    return Operation(name, None, starts, ((Call("tl_carry_await", ARRIVAL, (("jobs", "JOBS"), ("job", job))),),))


def place(offset: int, level: str = "L1") -> Place:
    return Place(level, offset, 64, 0, 9)


def home(name: str, level: str = "L1") -> Home:
    return Home(name, level, f"F32({level}, {name})", DType.F32)


PLACES = {name: place(64 * i) for i, name in enumerate(("x", "y", "z", "lanes", "more", "buffer"))}
PLACES |= {name: place(64 * i, "L2") for i, name in enumerate(("u", "v", "near"))} | {"far": place(4096, "L3")}


def work(name: str, *given: str, count: int = 5) -> Operation:
    """A loop over what lies still."""
    arguments = (*(("", Pointer(home(n))) for n in given), ("", count))
    return Operation(name, None, (), ((Call("loop", "", arguments),),))


def tiled(name: str, far: str, lanes: str = "lanes", offsets: tuple[int, ...] = (0, 7)) -> Operation:
    """A tile comes, and meets what lies `offsets` elements behind x."""
    way = Way(0, 0, tuple(Move(32 * k, 32, 1, 1, 0, True) for k in range(len(offsets))))
    stream = Stream(home(far, "L2"), Home("buffer", "L1", f"TILE({name}, 0)"), 0, False, True, way)
    calls = tuple((Call("loop", "", (("", Tile(0)), ("", Pointer(home("x"), k)))),) for k in offsets)
    return Operation(name, Tiles(Home(lanes, "L1", f"LANES({name})"), False, (stream,)), (), calls)


def step(*operations: Operation) -> Listing:
    return Listing(PLACES, operations, (), ())


def found(*operations: Operation) -> dict[int, Shared]:
    listing = step(*operations)
    return shared(listing, streams_shared(listing), Tables())


def orders(*operations: Operation, alone: tuple[int, ...] = (), persistent: int = 0) -> Orders:
    return Orders(step(*operations), alone, found(*operations), persistent)


def told(made: Orders) -> list[tuple[int, int]]:
    """What each does, and which row."""
    return [(what, row) for what, row, *_ in made.orders]


STEP = (start("a", 0, 0), start("b", 1, 60), work("c"), wait("d", 1), wait("e", 0), start("f", 1, 0), wait("g", 1))


def test_neighbours_are_one_call() -> None:
    whole = ["BRING(0, 6);", "CARRY(a, 0, 2);", "RUN(c);", "CARRY(d, 2, 4);"]
    assert list(orders(*STEP).lines(range(7))) == whole
    assert list(orders(*STEP).lines(range(4, 7))) == ["BRING(3, 3);", "CARRY(e, 0, 3);"]


def test_an_order_has_what_its_copy_says() -> None:
    made = orders(*STEP, persistent=32)
    assert told(made) == [(IN, 0), (IN, 1), (AWAITS, 1), (AWAITS, 0), (IN, 1), (AWAITS, 1)]
    assert made.orders[1] == (IN, 1, 128 - 32, 4096 + 60, 52, 3, 104)
    assert (len(made.data.tobytes()), made.nbytes) == (6 * 24, 0)


def test_what_is_recorded_behind_keeps_its_function() -> None:
    kept = ["CARRY(d, 2, 2);", "RUN(f);", "CARRY(g, 4, 1);"]
    assert list(orders(*STEP, alone=(5,)).lines(range(7)))[3:] == kept


def test_no_more_orders_are_brought_than_there_is_room_for() -> None:
    """All orders of an operation come together."""
    many = (start("a0", 0, 0), *(wait(f"a{k}", 0) if k % 2 else start(f"a{k}", 0, 0) for k in range(1, 299)))
    last = start("b", 0, 0), wait("c", 0, ("h", "i"))
    made = orders(*many, *last, tiled("h", "u"), tiled("i", "u", "more"))
    room = ORDERS_AT_HAND
    assert room == 128 and len(made.orders) >= 299 + 1 + 3
    assert list(made.lines(range(301))) == [
        f"BRING(0, {room});",
        f"CARRY(a0, 0, {room});",
        f"BRING({room}, {room});",
        f"CARRY(a{room}, 0, {room});",
        f"BRING({2 * room}, {303 - 2 * room});",
        f"CARRY(a{2 * room}, 0, {303 - 2 * room});",
    ]
    assert list(made.lines(range(127 + 46, 301)))[:3] == ["BRING(173, 128);", "CARRY(a173, 0, 127);", "BRING(300, 3);"]


def test_a_copy_starts_first_tiles_by_orders_of_their_own() -> None:
    """Equal tables are one: those of h and i, in the same lanes."""
    more = (wait("a", 0, ("h",)), start("b", 0, 0), wait("c", 0, ("i", "k")))
    made = orders(start("s", 0, 0), *more, tiled("h", "u"), tiled("i", "u"), tiled("k", "u", "more"))
    assert made.first_tiles.texts == ("{streams_h, LANES(h), 0x1}", "{streams_h, LANES(k), 0x1}")
    begun, ended = (IN, 0), (AWAITS, 0)
    assert told(made)[:7] == [begun, (FIRSTS, 0), ended, begun, (FIRSTS, 0), (FIRSTS, 1), ended]
    assert list(made.lines(range(4))) == ["BRING(0, 7);", "CARRY(s, 0, 7);"]


# ---- functions that operations share


def test_what_differs_in_places_alone_is_one_function() -> None:
    one, other, longer = work("one", "x", "y"), work("other", "y", "z"), work("longer", "x", "y", count=6)
    same = work("same", "x", "y")
    made = found(one, other, longer, same)
    assert {at: (s.function, s.table) for at, s in made.items()} == {
        0: ("like_one", "places_one"),
        1: ("like_one", "places_other"),
        3: ("like_one", "places_one"),
    }
    assert made[1].general.lines == ("loop(p[0], p[1], 5);",)
    assert made[1].table_text.splitlines()[1:-1] == ["    F32(L1, y),", "    F32(L1, z),"]
    run = orders(one, other, longer, same)
    assert run.functions.texts == ("{like_one, places_one}", "{like_one, places_other}")
    assert told(run) == [(RUNS, 0), (RUNS, 1), (RUNS, 0)]
    assert list(run.lines(range(4))) == ["BRING(0, 3);", "CARRY(one, 0, 2);", "RUN(longer);", "CARRY(same, 2, 1);"]


def test_one_tensor_twice_is_another_function_than_two() -> None:
    assert found(work("one", "x", "x"), work("other", "y", "z")) == {}


def test_what_moves_from_tile_to_tile_does_so_from_a_place_on() -> None:
    made = found(tiled("one", "u"), tiled("other", "v"), tiled("apart", "u", offsets=(0, 9)))
    assert sorted(made) == [0, 1]
    lines = "\n".join(made[0].general.lines)
    assert "OPEN(&t, p[0], p[1], shape);" in lines
    assert "loop(AT(0), (float *)p[2] + (t.tile < 1 ? 0 : 7));" in lines
    assert [p.text for p in made[1].general.places] == ["(void *)streams_other", "LANES(other)", "F32(L1, x)"]


def test_what_is_the_same_for_all_tiles_is_in_the_place() -> None:
    made = found(tiled("one", "u", offsets=(3, 3)), tiled("other", "v", offsets=(8, 8)))
    assert [s.general.places[2].text for s in made.values()] == ["F32(L1, x) + 3", "F32(L1, x) + 8"]
    assert [s.general.places[2].key for s in made.values()] == [("L1", 12), ("L1", 32)]


def test_gradients_that_are_only_recorded() -> None:
    def recording(name: str, offset: int) -> Operation:
        return Operation(name, None, (), ((Call("loop", "", (("", Recorded(offset)),)),),))

    made = found(recording("one", 0), recording("other", 96))
    assert [s.general.places[0].text for s in made.values()] == ["RECORD(0)", "RECORD(96)"]


def test_a_function_stands_in_the_text_whoever_wrote_its_table() -> None:
    """Fault: where the first operation of a function hands it the table of another one, nobody wrote it."""
    listing = step(work("a", "x"), work("b", "x"), work("c", "x", count=7), work("d", "x", count=7))
    share = shared(listing, {}, Tables())
    assert {s.key for s in share.values()} == {("like_a", "places_a"), ("like_c", "places_a")}
    functions = Functions(listing, {}, share, Tables())
    plain = {"ordered": True, "comment": "", "lines": [], "traces": []}
    written = [
        {"name": op.name, "tables": functions.before(at), "shared": functions.function(at), **plain}
        for at, op in enumerate(listing.operations)
    ]
    text = rendered("net_operations.c.j2", {"operations": written})
    assert [text.count(f"void {name}(void *const *p)") for name in ("like_a", "like_c")] == [1, 1]
    assert text.count("places_a[] = {") == 1
