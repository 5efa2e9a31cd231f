"""The transfers of a tiled operation: a stream has one pitch, whatever its tiles look like."""

from __future__ import annotations

import pytest

from trainlib_deployer.ir import DType, Op, Part, Program, Role, Tensor, View
from trainlib_deployer.ops.conv import Conv, ConvShape
from trainlib_deployer.ops.cuts import MOST_TILES
from trainlib_deployer.plan.tiles import Room, Stream, Tiling, Window, alike, tiled

DEPTHWISE = ConvShape(3, 9, 1, 2, 17, 19, 8, 6, 3, 2, (2, 3), (1, 0), (2, 1))


def operation(direction: str) -> tuple[Program, Op]:
    """A depthwise convolution of three images with an odd number of channels, or its input gradient."""
    s = DEPTHWISE
    shapes = {"x": (s.n, s.groups, s.h, s.w), "w": (s.groups * s.co, 1, s.kh, s.kw), "y": (s.n, 18, s.ho, s.wo)}
    tensors = {n: Tensor(n, shape, DType.F32, Role.ACTIVATION) for n, shape in shapes.items()}
    x, w, y = (View.whole(t) for t in tensors.values())
    reads, writes = ((x, w), (y,)) if direction == "fw" else ((y, w), (x,))
    return Program("net", tensors), Op("conv", Conv(direction, s), reads, writes, "forward", "conv")


def tilings(program: Program, op: Op) -> list[Tiling]:
    kind = op.kind
    assert isinstance(kind, Conv)
    found = []
    for cuts in kind.cuts():
        if 1 < len(cuts) <= MOST_TILES:
            parts: tuple[Part, ...] = tuple(kind.part(c, op.reads, op.writes) for c in cuts)
            found.append(tiled(program, parts, Room(frozenset(), 1 << 20, 2), True))
    return [t for t in found if t is not None]


def pitches(stream: Stream) -> tuple[set[int], set[int]]:
    windows = [m.window for m in stream.moves]
    return {w.pitch for w in windows if w.rows > 1}, {w.plane_pitch for w in windows if w.planes > 1}


@pytest.mark.parametrize("direction", ["fw", "bw_x"])
def test_a_last_tile_of_one_channel_has_the_pitches_of_the_others(direction: str) -> None:
    found = tilings(*operation(direction))
    assert len(found) > 20
    for tiling in found:
        for stream in tiling.streams:
            rows, planes = pitches(stream)
            assert len(rows) <= 1 and len(planes) <= 1, f"{stream.tensor} in {len(tiling.parts)} tiles"


def test_far_rows_become_planes() -> None:
    deep = Window(0, 12, 2, 100, 3, 1000, (2, 1))
    flat = Window(200, 12, 3, 1000, 1, 0, (1,))
    seen = alike([deep, flat])
    assert seen is not None
    assert seen[0] == deep
    assert (seen[1].rows, seen[1].planes, seen[1].plane_pitch) == (1, 3, 1000)
    assert seen[1].nbytes == flat.nbytes


def test_more_pitches_than_a_stream_has_cannot_be_streamed() -> None:
    rows = [Window(0, 12, 2, pitch, 1, 0, (1,)) for pitch in (100, 200, 300)]
    assert alike(rows) is None
    assert alike([Window(0, 12, 2, 100, 2, 900, (1,)), Window(0, 12, 2, 100, 2, 800, (1,))]) is None
    assert alike([rows[0], None]) is None
