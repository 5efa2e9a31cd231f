"""Tiles that lie where the operation before left them: which do, and what the check says where they do not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.unit.test_certificate import changed, emitted_by, moved, wrong
from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.check.certificate import Emitted
from trainlib_deployer.check.streams import missing
from trainlib_deployer.emit.listing import Left, Operation, Stream, Tiles
from trainlib_deployer.plan.found import root
from trainlib_deployer.program.segments import segments

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Results of convolutions and of what follows them are one tile each; the first normalisation works in place."""
    torch.manual_seed(7)
    layers = (nn.Conv2d(2, 7, 3, padding=1), nn.BatchNorm2d(7), nn.ReLU(), nn.Conv2d(7, 11, 3, stride=2), nn.ReLU6())
    net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(11 * 6 * 5, 31))
    data = [(torch.randn(2, 2, 14, 11), torch.randn(2, 31))]
    folder = tmp_path_factory.mktemp("found") / "net"
    options = {"loss": nn.MSELoss(), "steps": 1, "cores": 5, "l1": "40k", "l2": "1M"}
    return deploy(net, *data[0], data=data, out=folder, **options)


@pytest.fixture(scope="module")
def emitted(made: Deployment) -> Emitted:
    return emitted_by(made)


def finders(emitted: Emitted) -> list[tuple[int, Tiles, int, Stream]]:
    tiled = [(at, o.tiles) for at, o in enumerate(emitted.listing.operations) if o.tiles is not None]
    return [(at, tiles, k, s) for at, tiles in tiled for k, s in enumerate(tiles.streams) if s.found]


def with_stream(emitted: Emitted, at: int, number: int, stream: Stream) -> Emitted:
    tiles = emitted.listing.operations[at].tiles
    assert tiles is not None
    streams = (*tiles.streams[:number], stream, *tiles.streams[number + 1 :])
    return changed(emitted, at, tiles=replace(tiles, streams=streams))


def test_what_one_operation_made_the_next_one_finds(made: Deployment) -> None:
    tilings, found = made.plan.tilings, 0
    function = {at: name for name, its in segments(made.plan.program).items() for at in its}
    for at, tiling in tilings.items():
        for k, s in enumerate(tiling.streams):
            if s.found is not None:
                result, found = tilings[at - 1].streams[s.found], found + 1
                assert (result.tensor, result.writes, s.writes, s.early) == (s.tensor, True, False, False)
                assert function[at] == function[at - 1] and not any(m.moves for m in s.moves)
                where, number = root(tilings, (at, k))
                buffer = next(b for b in made.plan.buffers if b.name == f"tile {where}.{number}")
                assert buffer.birth < at < buffer.death and buffer.size >= result.size
                assert not any(b.name == f"tile {at}.{k}" for b in made.plan.buffers)
    assert found >= 3


def test_a_found_tile_is_not_brought_and_costs_nothing(made: Deployment) -> None:
    moved_bytes = [f.moved for f in made.plan.account.figures]
    for at, tiling in made.plan.tilings.items():
        brought = sum(m.window.nbytes for s in tiling.streams for m in s.moves if m.moves and not s.early)
        started = sum(made.plan.tilings[g].early_moved for g in made.plan.guests.get(at, ()))
        early = sum(m.window.nbytes for s in tiling.streams if s.early for m in s.moves[1:] if m.moves)
        assert moved_bytes[at] == brought + started + early
        assert tiling.cost.exposed > -1 and tiling.cost.transfer > -1


def test_a_tile_that_nothing_left_there_is_caught(emitted: Emitted) -> None:
    """Nobody says that it is there; another tensor lies there, or other bytes, or rows that are further apart; it stays
    there for one more tile; or it is on a border."""
    assert wrong(emitted) == ""
    for at, _, k, s in finders(emitted):
        fault = f"operation {at}, tile 0 of stream {k}: its buffer holds something else"
        before = emitted.listing.operations[at - 1].tiles
        assert before is not None
        number = next(i for i, o in enumerate(before.streams) if o.leaves and o.home == s.home)
        result = before.streams[number]
        assert result.home is not None
        other = replace(result.home, name="another")
        (move,) = result.way.moves
        further = replace(result.way, moves=(replace(move, offset=move.offset + 16),))
        mistakes = [
            with_stream(emitted, at, k, replace(s, found=False)),
            with_stream(emitted, at - 1, number, replace(result, home=other)),
            with_stream(emitted, at - 1, number, replace(result, way=further)),
            with_stream(emitted, at - 1, number, replace(result, way=replace(result.way, pitch=result.way.pitch + 4))),
            with_stream(emitted, at - 1, number, replace(result, way=replace(result.way, moves=(move, move)))),
        ]
        functions = (range(at), range(at, len(emitted.listing.operations)))
        mistakes.append(replace(emitted, listing=replace(emitted.listing, functions=functions)))
        assert all(fault in missing(planted.listing) for planted in mistakes)


def test_a_buffer_that_dies_before_its_tile_is_found_is_caught(emitted: Emitted) -> None:
    for at, _, _, s in finders(emitted):
        assert f"{s.buffer.name}: used in operations" in wrong(moved(emitted, s.buffer.name, death=at))


def lingering(emitted: Emitted) -> list[tuple[int, Operation, Left]]:
    """Operations that await what the one before has left under way."""
    return [(at, o, o.left) for at, o in enumerate(emitted.listing.operations) if o.left is not None]


def test_what_is_found_still_leaves_meanwhile(made: Deployment, emitted: Emitted) -> None:
    tilings = made.plan.tilings
    found = [(at, t.lingers) for at, t in tilings.items() if t.lingers is not None]
    assert len(found) >= 2
    assert {which.until is None for _, which in found} == {True, False}
    for at, which in found:
        assert which.stream in [s.found for s in tilings[at + 1].streams]
        lanes = next(b for b in made.plan.buffers if b.name == f"lanes {at}")
        assert lanes.death == at + 2
    assert [at for at, _, _ in lingering(emitted)] == [at + 1 for at, _ in found]
    assert not {tilings[at].streams[w.stream].tensor for at, w in found} & {*made.plan.program.shown}


def test_what_is_not_awaited_in_time_is_caught(emitted: Emitted) -> None:
    """Nobody awaits it; another stream is awaited; it is, when another result lies there."""
    for at, operation, left in lingering(emitted):
        lost = f"operation {at - 1}: what it leaves under way is not what the next one awaits"
        assert lost in wrong(changed(emitted, at, left=None))
        assert lost in wrong(changed(emitted, at, left=replace(left, stream=left.stream + 1)))
        if left.before is not None:
            for later in (left.before + 1, None):
                planted = wrong(changed(emitted, at, left=replace(left, before=later)))
                assert f"operation {at} writes where " in planted
        tiles = operation.tiles
        assert tiles is not None
        twice = changed(emitted, at, calls=operation.calls * 2)
        assert f"operation {at} writes where " in wrong(twice)


def test_what_is_under_way_is_left_alone(emitted: Emitted) -> None:
    """Nothing reads or writes it in the outer level, and it is there when a function ends."""
    names = {t["c_name"]: n for n, t in emitted.plan["tensors"].items()}
    for at, operation, left in lingering(emitted):
        before = emitted.listing.operations[at - 1].tiles
        assert before is not None and operation.tiles is not None
        s = before.streams[left.stream]
        assert s.home is not None
        fault = f"operation {at} touches {s.home.name}, which is under way"
        ops = [dict(op) for op in emitted.plan["ops"]]
        ops[at]["writes"] = [*ops[at]["writes"], names[s.home.name]]
        assert fault in wrong(replace(emitted, plan={**emitted.plan, "ops": ops}))
        number = next(k for k, t in enumerate(operation.tiles.streams) if t.found)
        found = operation.tiles.streams[number]
        moves = tuple(replace(m, moves=True) for m in found.way.moves)
        assert fault in wrong(with_stream(emitted, at, number, replace(found, way=replace(found.way, moves=moves))))
        functions = (range(at), range(at, len(emitted.listing.operations)))
        planted = replace(emitted, listing=replace(emitted.listing, functions=functions))
        assert f"operation {at - 1}: stream {left.stream} lingers over the end of a function" in wrong(planted)
