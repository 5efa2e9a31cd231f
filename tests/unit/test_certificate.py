"""The check of what was written finds overlaps, early deaths, false bounds and unsafe work in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import nn

from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.check.apart import unmet
from trainlib_deployer.check.certificate import CertificateError, Emitted, check
from trainlib_deployer.check.in_place import gone, in_place, same_ways
from trainlib_deployer.check.streams import missing, overtaken
from trainlib_deployer.emit.addresses import Addresses
from trainlib_deployer.emit.listed import listed
from trainlib_deployer.emit.listing import Call, Home, Move, Operation, Pointer, Stream, Tile, Tiles, Way
from trainlib_deployer.emit.loop_library import LoopLibrary
from trainlib_deployer.plan import layout
from trainlib_deployer.program.expr import Reduction
from trainlib_deployer.program.ir import DType, Part, Program, View
from trainlib_deployer.program.lifetimes import Lifetime, lifetimes
from trainlib_deployer.program.loop import Loop

pytestmark = pytest.mark.slow


def small_net() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Conv2d(2, 5, 3, padding=1), nn.BatchNorm2d(5), nn.ReLU(), nn.Conv2d(5, 3, 3), nn.Tanh(), nn.Flatten()
    )


def deployed(folder: Path, l1: str = "128M") -> Deployment:
    data = [(torch.randn(2, 2, 7, 9), torch.randn(2, 105))]
    return deploy(small_net(), *data[0], data=data, loss=nn.MSELoss(), l1=l1, l2="2M", cores=3, steps=1, out=folder)


def emitted_by(made: Deployment) -> Emitted:
    listing = listed(made.plan, Addresses.of(made.plan), LoopLibrary())
    return Emitted.read(made.folder, listing)


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Emitted:
    return emitted_by(deployed(tmp_path_factory.mktemp("project") / "net"))


def moved(emitted: Emitted, name: str, **changes: Any) -> Emitted:
    """With something at another place."""
    places = dict(emitted.listing.places)
    places[name] = replace(places[name], **changes)
    return replace(emitted, listing=replace(emitted.listing, places=places))


def changed(emitted: Emitted, at: int, **changes: Any) -> Emitted:
    """With another operation at a position."""
    operations = list(emitted.listing.operations)
    operations[at] = replace(operations[at], **changes)
    return replace(emitted, listing=replace(emitted.listing, operations=tuple(operations)))


def wrong(emitted: Emitted) -> str:
    return "\n".join(check(emitted)[1])


def test_what_is_emitted_holds(emitted: Emitted) -> None:
    levels, complaints = check(emitted)
    assert complaints == []
    for name, level in levels.items():
        claimed = emitted.plan["levels"][name]
        assert (level.peak, level.lower_bound) == (claimed["used"], claimed["lower_bound"])
    assert levels["L1"].peak > 10_000


def test_deployments_are_checked(tmp_path: Path) -> None:
    text = (deployed(tmp_path / "net", l1="16k").folder / "plan.json").read_text()
    assert '"checked": true' in text and '"checked": false' not in text


def alive_together(emitted: Emitted) -> tuple[str, str]:
    """Two large tensors of the arena that are in use at one time, at different bytes."""
    large = [b for b in emitted.plan["buffers"] if b["size"] > 1000 and b["role"] == "activation"]
    pairs = [
        (a, b) for a in large for b in large if a["birth"] < b["birth"] < a["death"] and a["offset"] != b["offset"]
    ]
    assert pairs
    first, second = pairs[0]
    names = emitted.plan["tensors"]
    return names[first["name"]]["c_name"], names[second["name"]]["c_name"]


def test_overlap(emitted: Emitted) -> None:
    first, second = alive_together(emitted)
    at = emitted.listing.places[first].offset
    assert f"{first} and {second} both use byte {at}" in wrong(moved(emitted, second, offset=at))
    assert f"{second}: offset {at + 4} is not a multiple of 16" in wrong(moved(emitted, second, offset=at + 4))


def test_another_level(emitted: Emitted) -> None:
    first, _ = alive_together(emitted)
    assert f"{first}: used in L1, planned in L2" in wrong(moved(emitted, first, level="L2"))


def test_false_figures(emitted: Emitted) -> None:
    for what in ("used", "lower_bound"):
        levels = {name: {**level, what: 17} for name, level in emitted.plan["levels"].items()}
        assert "L1: " in wrong(replace(emitted, plan={**emitted.plan, "levels": levels}))


def test_operations_in_another_order(emitted: Emitted) -> None:
    """The first two operations exchanged: what the second reads does not exist yet."""
    first, second, *rest = emitted.listing.operations
    swapped = replace(emitted.listing, operations=(second, first, *rest))
    assert "is read before anything writes it" in wrong(replace(emitted, listing=swapped))


@pytest.mark.parametrize("seed", range(4))
def test_an_early_death_is_caught(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner frees every large activation one operation early."""

    def hasty(program: Program) -> dict[str, Lifetime]:
        lives = lifetimes(program)
        long = sorted(n for n, life in lives.items() if life.death - life.birth > 2 and life.death < len(program.ops))
        name = max(long[seed::4], key=lambda n: program.tensors[n].nbytes)
        return lives | {name: replace(lives[name], death=lives[name].death - 1)}

    monkeypatch.setattr(layout, "lifetimes", hasty)
    with pytest.raises(CertificateError, match=r"used in operations \d+ to \d+, planned for"):
        deployed(tmp_path / "net")
    assert not (tmp_path / "net").exists()


def shared_by(emitted: Emitted) -> tuple[int, str, str]:
    """An operation that works in place: what it reads the last of, and what it writes there."""
    tensors = emitted.plan["tensors"]
    for b in emitted.plan["buffers"]:
        if b["aliases"]:
            old, new = (tensors[name]["c_name"] for name in (b["name"], b["aliases"][0]))
            step = range(len(emitted.listing.operations))
            return next(at for at in step if new in {h.name for h in emitted.listing.used(at)}), old, new
    raise AssertionError("the net is meant to work in place somewhere")


def with_view(call: Call, index: int, change: Callable[[View], View]) -> Call:
    """With another view of one operand of its loop: writes first, then reads."""
    loop = call.loop
    assert loop is not None
    views = [*loop.writes, *loop.reads]
    views[index] = change(views[index])
    count = len(loop.writes)
    return replace(call, loop=loop._replace(writes=tuple(views[:count]), reads=tuple(views[count:])))


def test_work_in_place_must_be_elementwise(emitted: Emitted) -> None:
    """The same bytes in a loop that reads other elements than it writes are refused."""
    at, old, new = shared_by(emitted)
    ((call,),) = emitted.listing.operations[at].calls
    pointers = [a.home.name if isinstance(a, Pointer) else "" for _, a in call.arguments]
    source, target = pointers.index(old), pointers.index(new)
    further = list(call.arguments)
    further[source] = ("", Pointer(cast(Pointer, further[source][1]).home, 1))
    twice = list(call.arguments)
    twice[target] = twice[source]
    mistakes = [
        replace(call, arguments=tuple(further)),
        replace(call, arguments=tuple(twice)),
        replace(call, loop=None),
        with_view(call, source, lambda v: v._replace(strides=tuple(2 * s for s in v.strides))),
        with_view(call, source, lambda v: v._replace(strides=(0,) * len(v.strides))),
    ]
    operation = emitted.listing.operations[at]
    assert in_place(operation, old, new)
    assert not any(in_place(replace(operation, calls=((mistake,),)), old, new) for mistake in mistakes)
    assert "both use byte" in wrong(changed(emitted, at, calls=((mistakes[0],),)))


def test_a_reduction_in_place_is_refused(emitted: Emitted) -> None:
    at, old, new = shared_by(emitted)
    operation = emitted.listing.operations[at]
    assert in_place(operation, old, new)
    ((call,),) = operation.calls
    assert call.loop is not None and isinstance(call.loop.kind, Loop)
    folding = replace(call.loop.kind, reductions=(Reduction("sum", 0, DType.F32),))
    assert not in_place(replace(operation, calls=((replace(call, loop=call.loop._replace(kind=folding)),),)), old, new)


def test_a_product_writes_where_it_begins() -> None:
    """It adds to each element of what lies there; of what it multiplies, it reads elements again."""

    def product(init: str = "old", c: str = "new", a: str = "x", past: int = 0, **changed: int) -> Operation:
        places = {"a": (a, 0), "b": ("y", 0), "init": (init, past), "c": (c, 0)}
        given = {name: Pointer(Home(home, "L2", home), offset) for name, (home, offset) in places.items()}
        steps = {f"{one}_{dim}": step for one in "ci" for dim, step in zip("bmn", (0, 7, 1), strict=True)}
        call = Call("tl_matmul_rows", "tl_matmul", tuple({**given, **steps, **changed}.items()))
        return Operation("op", None, (), ((call,),))

    assert in_place(product(), "old", "new")
    mistakes = [product("new", "old"), product(a="old"), product(a="new"), product(init="z", a="old")]
    mistakes += [product(past=7), product(i_m=1), product(i_n=0), product(c_b=1)]
    assert not any(in_place(mistake, "old", "new") for mistake in mistakes)
    assert not in_place(replace(product(), meets=False), "old", "new")


def test_loops_in_a_row_may_read_what_a_later_one_overwrites(emitted: Emitted) -> None:
    """But none behind it, and none at other places."""
    at, old, new = shared_by(emitted)
    operation = emitted.listing.operations[at]
    ((call,),) = operation.calls
    assert call.loop is not None and isinstance(call.loop.kind, Loop)
    reads = [k for k, (_, a) in enumerate(call.arguments) if isinstance(a, Pointer) and a.home.name == old]
    scratch = Pointer(Home("scratch", "L1", ""))
    folding = replace(call.loop.kind, reductions=(Reduction("sum", 0, DType.F32),))
    arguments = tuple(("", scratch) if k < len(call.loop.writes) else a for k, a in enumerate(call.arguments))
    summing = replace(call, loop=call.loop._replace(kind=folding), arguments=arguments)
    elsewhere = with_view(summing, reads[0], lambda v: v._replace(offset=0, strides=tuple(2 * s for s in v.strides)))
    assert in_place(replace(operation, calls=((summing, call),)), old, new)
    for calls in ((call, summing), (elsewhere, call), (call, call), (summing,)):
        assert not in_place(replace(operation, calls=(calls,)), old, new), calls


def test_calls_that_do_not_meet_are_strangers(emitted: Emitted) -> None:
    """None touches what another writes; nothing is in place, in tiles, or a kernel that nothing is known of."""
    at, old, new = shared_by(emitted)
    operation = emitted.listing.operations[at]
    ((call,),) = operation.calls

    def at_work(*calls: Call, **more: Any) -> list[str]:
        operations = (replace(operation, calls=(calls,), meets=False, **more),)
        return list(unmet(replace(emitted.listing, operations=operations)))

    def on(*names: str) -> Call:
        known = [Pointer(Home(name, "L1", name)) for name in names]
        return replace(call, arguments=tuple(zip(("",) * len(known), known, strict=True)))

    assert call.loop is not None and len((*call.loop.writes, *call.loop.reads)) == 2
    assert at_work(on("a", "b")) == at_work(on("a", "a"), on("b", "c"), on("d", "c")) == []
    for calls in ((on("a", "b"), on("b", "c")), (on("b", "c"), on("a", "b")), (on("b", "a"), on("b", "c"))):
        assert at_work(*calls) == ["operation 0: the cores do not meet, but b is written"]
    tile = replace(call, arguments=(("", Tile(0)), ("", Tile(1))))
    for unknown in (replace(on("a", "b"), loop=None), tile):
        (fault,) = at_work(unknown, on("c", "d"))
        assert "nothing is known" in fault
    assert "nothing is known" in at_work(on("a", "b"), tiles=Tiles(Home("lanes", "L1", ""), False, ()))[0]
    assert in_place(operation, old, new) and not in_place(replace(operation, meets=False), old, new)
    assert f"operation {at}: the cores do not meet" in wrong(changed(emitted, at, calls=((call, call),), meets=False))


def test_tiles_in_one_buffer_take_turns() -> None:
    """Streams 0 and 1 share one. What comes in the first is read before the second one is written, or by the same loop,
    byte by byte; so is what is written over in the same stream."""

    def loop(reads: int, writes: int, size: DType = DType.F32, step: int = 1) -> Call:
        kind = Loop((35,), 0, (DType.F32,), (), (), (), (0,), (size,))
        part = Part(kind, (View("x", (35,), (step,)),), (View("y", (35,), (1,)),))
        return Call("loop", "", (("", Tile(writes)), ("", Tile(reads))), part)

    summing = loop(0, 2)
    buffers = ("a", "a", "b")
    for calls in ((loop(0, 1),), (summing, loop(0, 1)), (loop(0, 1), loop(1, 2)), (loop(2, 1),), (loop(2, 2),)):
        assert list(gone(calls, buffers)) == []
    turned = (loop(0, 1, step=2),), (loop(2, 2, step=2),)
    for calls in (*turned, (loop(0, 1, DType.F16),), (loop(0, 1), summing), (loop(2, 1), loop(0, 2))):
        (fault,) = gone(calls, buffers)
        assert fault.startswith("stream ")


def test_tiles_in_place_are_the_same_bytes_and_each_its_own() -> None:
    """Or fewer are read: of a kth value, one row of each sorted image."""
    moves = tuple(Move(256 * k, 64, 3, 1, k % 2, True) for k in range(4))
    way, home = Way(1024, 0, moves), [Home(name, "L2", "") for name in ("old", "new")]
    read = Stream(home[0], Home("tile_a_0", "L1", ""), 192, False, False, way)
    written = replace(read, home=home[1], buffer=Home("tile_a_1", "L1", ""), leaves=True)
    tiles = Tiles(Home("lanes_a", "L1", ""), True, (read, written))
    assert same_ways(tiles, "old", "new")
    wider = replace(way, moves=tuple(replace(m, row_bytes=260) for m in moves))
    for first, second in ((wider, wider), (way, wider), (way, replace(way, pitch=2048))):
        streams = (replace(read, way=first), replace(written, way=second))
        assert not same_ways(replace(tiles, streams=streams), "old", "new")
    assert not same_ways(replace(tiles, streams=(replace(read, leaves=True), written)), "old", "new")
    first_row = replace(way, moves=tuple(replace(m, rows=1, row_bytes=60) for m in moves))
    assert same_ways(replace(tiles, streams=(replace(read, way=first_row), written)), "old", "new")
    next_one = replace(first_row, moves=(*first_row.moves[1:], first_row.moves[0]))
    for astray in (next_one, replace(first_row, moves=first_row.moves[:3])):
        assert not same_ways(replace(tiles, streams=(replace(read, way=astray), written)), "old", "new")


@pytest.fixture(scope="module")
def streamed(tmp_path_factory: pytest.TempPathFactory) -> Emitted:
    """A step in tiles, some of which come early."""
    torch.manual_seed(5)
    net = nn.Sequential(nn.Linear(60, 90), nn.Tanh(), nn.Linear(90, 110), nn.Tanh(), nn.Linear(110, 30))
    data = [(torch.randn(2, 60), torch.randn(2, 30))]
    folder = tmp_path_factory.mktemp("streamed") / "net"
    return emitted_by(
        deploy(net, *data[0], data=data, loss=nn.MSELoss(), l1="20k", l2="2M", cores=3, steps=1, out=folder)
    )


def hosts(emitted: Emitted) -> list[tuple[int, int, str]]:
    """Operations that start the first tile of another, that one, and the source of its first early stream."""
    listing = emitted.listing
    return [
        (at, listing.positions[name], next(s.home.name for s in listing.tiles_of(name).streams if s.early and s.home))
        for at, operation in enumerate(listing.operations)
        for name in operation.starts
    ]


def test_what_comes_early_is_not_written_meanwhile(streamed: Emitted) -> None:
    assert wrong(streamed) == ""
    assert len(hosts(streamed)) >= 3
    names = {t["c_name"]: n for n, t in streamed.plan["tensors"].items()}
    for host, guest, source in hosts(streamed):
        for at in range(host, guest):
            ops = [dict(op) for op in streamed.plan["ops"]]
            ops[at]["writes"] = [*ops[at]["writes"], names[source]]
            planted = replace(streamed, plan={**streamed.plan, "ops": ops})
            assert f"operation {at} writes {source}, which comes early for operation {guest}" in wrong(planted)


def test_what_comes_early_shares_no_byte_with_what_is_written(streamed: Emitted) -> None:
    """The host's result moved to where the source lies."""
    tensors = streamed.plan["tensors"]
    for host, guest, source in hosts(streamed):
        place = streamed.listing.places[source]
        result = tensors[streamed.plan["ops"][host]["writes"][0]]["c_name"]
        found = wrong(moved(streamed, result, offset=place.offset + 16, level=place.level))
        assert f"operation {host} writes {source}, which comes early for operation {guest}" in found


def test_a_tile_that_comes_early_is_started_once(streamed: Emitted) -> None:
    host, guest, _ = hosts(streamed)[0]
    starts = streamed.listing.operations[host].starts
    for others in ((), starts * 2):
        assert f"operation {guest}: stream" in wrong(changed(streamed, host, starts=others))


def test_no_function_ends_with_a_tile_on_its_way(streamed: Emitted) -> None:
    host, guest, _ = hosts(streamed)[-1]
    functions = (range(guest), range(guest, len(streamed.listing.operations)))
    planted = replace(streamed, listing=replace(streamed.listing, functions=functions))
    assert f"operation {host} starts transfers of operation {guest}, which does not run behind it" in wrong(planted)


def test_a_tile_outside_of_its_buffers_is_caught(streamed: Emitted) -> None:
    tiled = [(at, o.tiles) for at, o in enumerate(streamed.listing.operations) if o.tiles is not None]
    for at, tiles in tiled:
        for k, s in enumerate(tiles.streams):
            further = [replace(s.way.moves[0], row_bytes=s.way.moves[0].row_bytes + 4096), *s.way.moves[1:]]
            wide = [replace(m, buffer=7 if m.buffer else 0) for m in s.way.moves]
            mistakes = [replace(s, way=replace(s.way, moves=tuple(further)))]
            if any(m.buffer for m in s.way.moves):
                mistakes += [replace(s, way=replace(s.way, moves=tuple(wide))), replace(s, second=1)]
            for mistake in mistakes:
                streams = (*tiles.streams[:k], mistake, *tiles.streams[k + 1 :])
                planted = changed(streamed, at, tiles=replace(tiles, streams=streams))
                assert f"of stream {k}: outside of its buffers" in wrong(planted)


def test_a_tile_that_is_read_before_it_came_is_caught(streamed: Emitted) -> None:
    tiled = [(at, o.tiles) for at, o in enumerate(streamed.listing.operations) if o.tiles is not None]
    read = [(at, tiles, k, s) for at, tiles in tiled for k, s in enumerate(tiles.streams) if s.home and not s.leaves]
    assert len(read) > 20
    for at, tiles, k, s in read:
        for tile in (i for i, m in enumerate(s.way.moves) if m.moves):
            moves = [replace(m, moves=m.moves and i != tile) for i, m in enumerate(s.way.moves)]
            mistake = replace(s, way=replace(s.way, moves=tuple(moves)))
            streams = (*tiles.streams[:k], mistake, *tiles.streams[k + 1 :])
            planted = changed(streamed, at, tiles=replace(tiles, streams=streams))
            fault = f"operation {at}, tile {tile} of stream {k}: its buffer holds something else"
            assert next(missing(planted.listing)) == fault
    assert fault in wrong(planted)


def test_a_tile_that_comes_over_another_is_caught(streamed: Emitted) -> None:
    """With one tile more on its way than there are buffers for, and with the buffer of the one before."""
    tiled = [(at, o.tiles) for at, o in enumerate(streamed.listing.operations) if o.tiles is not None]
    longest = [(at, tiles) for at, tiles in tiled if tiles.ahead and len(tiles.streams[0].way.moves) > 4]
    assert longest
    for at, tiles in longest:
        deeper = changed(streamed, at, tiles=replace(tiles, ahead=tiles.ahead + 2))
        assert any(words.startswith(f"operation {at}, ") for words in overtaken(deeper.listing))
    for at, tiles in tiled:
        for k, s in enumerate(tiles.streams if tiles.ahead else ()):
            pairs = enumerate(zip(s.way.moves, s.way.moves[1:], strict=False), 1)
            for tile in (i for i, (a, b) in pairs if s.home and b.moves and a.buffer != b.buffer):
                held = s.way.moves[tile - 1].buffer
                moves = [replace(m, buffer=held) if i == tile else m for i, m in enumerate(s.way.moves)]
                mistake = replace(s, way=replace(s.way, moves=tuple(moves)))
                streams = (*tiles.streams[:k], mistake, *tiles.streams[k + 1 :])
                planted = changed(streamed, at, tiles=replace(tiles, streams=streams))
                fault = f"operation {at}, tile {tile} of stream {k}: its buffer is still worked on"
                assert fault in [*overtaken(planted.listing)]
    assert fault in wrong(planted)
