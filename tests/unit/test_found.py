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
from trainlib_deployer.emit.listing import Stream, Tiles
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
    """Nobody says that it is there; another tensor lies there; it stays there for one more tile, or on a border."""
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
            with_stream(emitted, at - 1, number, replace(result, way=replace(result.way, moves=(move, move)))),
        ]
        functions = (range(at), range(at, len(emitted.listing.operations)))
        mistakes.append(replace(emitted, listing=replace(emitted.listing, functions=functions)))
        assert all(fault in missing(planted.listing) for planted in mistakes)


def test_a_buffer_that_dies_before_its_tile_is_found_is_caught(emitted: Emitted) -> None:
    for at, _, _, s in finders(emitted):
        assert f"{s.buffer.name}: used in operations" in wrong(moved(emitted, s.buffer.name, death=at))
