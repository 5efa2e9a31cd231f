"""The transfers of a tiled operation: a stream has one pitch, whatever its tiles look like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from math import prod

import pytest

from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.ops.conv_shape import ConvShape
from trainlib_deployer.ops.matmul import Cut, MatMul
from trainlib_deployer.plan.cycles import work_cycles
from trainlib_deployer.plan.glance import Glance, Look
from trainlib_deployer.plan.passage import Passage, Stream
from trainlib_deployer.plan.tile_cost import queued
from trainlib_deployer.plan.tiles import Room, Tiles, Tiling, draft
from trainlib_deployer.plan.window import Window, alike, window
from trainlib_deployer.program.cuts import (
    MOST_TILES,
    even_ranges,
    outer_cuts,
    ranges,
    tapered,
    tapered_boxes,
    there_and_back,
)
from trainlib_deployer.program.expr import Instr
from trainlib_deployer.program.ir import DType, Op, Part, Program, Role, Tensor, View
from trainlib_deployer.program.loop import Loop

DEPTHWISE = ConvShape(3, 9, 1, 2, 17, 19, 8, 6, 3, 2, (2, 3), (1, 0), (2, 1))


def operation(direction: str) -> tuple[Program, Op]:
    """A depthwise convolution of three images with an odd number of channels, or its input gradient."""
    s = DEPTHWISE
    shapes = {"x": (s.n, s.groups, s.h, s.w), "w": (s.groups * s.co, 1, s.kh, s.kw), "y": (s.n, 18, s.ho, s.wo)}
    tensors = {n: Tensor(n, shape, DType.F32, Role.ACTIVATION) for n, shape in shapes.items()}
    x, w, y = (View.whole(t) for t in tensors.values())
    reads, writes = ((x, w), (y,)) if direction == "fw" else ((y, w), (x,))
    return Program("net", tensors), Op("conv", Conv(direction, s), reads, writes, "forward", "conv")


def tiled(program: Program, tiles: Tiles, room: Room, ahead: int, keep: bool = False) -> Tiling | None:
    found = draft(program, tiles, room, ahead, keep)
    return None if found is None else found.tiling


def tilings(program: Program, op: Op) -> list[Tiling]:
    kind = op.kind
    assert isinstance(kind, Conv)
    found = []
    for cuts in kind.cuts():
        if 1 < len(cuts) <= MOST_TILES:
            parts: tuple[Part, ...] = tuple(kind.part(c, op.reads, op.writes) for c in cuts)
            found.append(tiled(program, Tiles.of(program, parts), Room(frozenset(), 1 << 20, resolve(cores=2)), True))
    return [t for t in found if t is not None]


def pitches(one: Stream) -> tuple[set[int], set[int]]:
    found = [m.window for m in one.moves]
    return {w.pitch for w in found if w.rows > 1}, {w.plane_pitch for w in found if w.planes > 1}


@pytest.mark.parametrize("direction", ["fw", "bw_x"])
def test_a_last_tile_of_one_channel_has_the_pitches_of_the_others(direction: str) -> None:
    found = tilings(*operation(direction))
    assert len(found) > 20
    for tiling in found:
        for s in tiling.streams:
            rows, planes = pitches(s)
            assert len(rows) <= 1 and len(planes) <= 1, f"{s.tensor} in {len(tiling.parts)} tiles"


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


ROWS, COLUMNS = 11, 9
SCALED = (Instr("mul", (0, 1), DType.F32),)


def updates(*views: View, written: View, rows: int) -> tuple[Program, tuple[Part, ...]]:
    """Tiles of so many rows of a loop."""
    kind = Loop(written.shape, 0, (DType.F32,) * len(views), SCALED, (), (), (len(views),), (DType.F32,))
    tensors = {n: Tensor(n, (2 * ROWS, COLUMNS), DType.F32, Role.ACTIVATION) for n in ("w", "g")}
    cuts = [(r, (0, COLUMNS)) for r in ranges(ROWS, rows)]
    return Program("net", tensors), tuple(kind.part(c, views, (written,)) for c in cuts)


def rows_of(tensor: str, first: int = 0) -> View:
    return View(tensor, (ROWS, COLUMNS), (COLUMNS, 1), first * COLUMNS)


ROOM = Room(frozenset(), 1 << 20, resolve(cores=2))


def test_what_is_updated_in_place_comes_and_leaves_in_the_same_three_buffers() -> None:
    program, parts = updates(rows_of("w"), rows_of("g"), written=rows_of("w"), rows=2)
    found = tiled(program, Tiles.of(program, parts), ROOM, True)
    assert found is not None
    assert found.of_operand == (0, 1, 2)
    old, gradient, new = found.streams
    assert (old.shares, gradient.shares, new.shares) == (None, None, 0)
    assert (old.buffers, gradient.buffers) == (3, 2)
    assert [m.buffer for m in old.moves] == [m.buffer for m in new.moves] == [0, 1, 2, 0, 1, 2]
    assert all(m.moves for m in (*old.moves, *new.moves))
    assert found.moved == (2 + 1) * 4 * ROWS * COLUMNS
    assert found.nbytes == (3 + 2) * ROOM.machine.aligned(4 * 2 * COLUMNS) + found.lanes


def test_one_tile_has_one_buffer_for_both_ways() -> None:
    program, parts = updates(rows_of("w"), rows_of("g"), written=rows_of("w"), rows=ROWS)
    found = tiled(program, Tiles.of(program, parts), ROOM, True)
    assert found is not None
    assert (
        found.nbytes
        == 2 * ROOM.machine.aligned(4 * ROWS * COLUMNS) + found.lanes
        == Look.at(program, parts[0], ROOM).least(parts[0])
    )


def test_one_after_the_other_results_have_a_buffer_of_their_own() -> None:
    """What the next tile reads would else come while this one leaves."""
    program, parts = updates(rows_of("w"), rows_of("g"), written=rows_of("w"), rows=2)
    found = tiled(program, Tiles.of(program, parts), ROOM, False)
    assert found is not None
    assert [(s.shares, s.buffers) for s in found.streams] == [(None, 1)] * 3


@pytest.mark.parametrize("read", [rows_of("w", 1), View("w", (ROWS, COLUMNS), (COLUMNS, 2))])
def test_other_elements_of_what_is_written_are_another_stream(read: View) -> None:
    program, parts = updates(read, rows_of("g"), written=rows_of("w"), rows=2)
    found = tiled(program, Tiles.of(program, parts), ROOM, True)
    assert found is not None
    assert [s.shares for s in found.streams] == [None] * 3
    twice = updates(rows_of("w"), rows_of("w", ROWS), written=rows_of("w"), rows=2)
    found = tiled(twice[0], Tiles.of(*twice), ROOM, True)
    assert found is not None
    assert [s.shares for s in found.streams] == [None] * 3


def test_long_sums_are_cut_into_even_shares_of_whole_blocks() -> None:
    assert even_ranges(784, 192, 64) == [(0, 192), (192, 384), (384, 576), (576, 704), (704, 784)]
    assert even_ranges(130, 64, 64) == [(0, 64), (64, 128), (128, 130)]
    assert even_ranges(37, 64, 64) == [(0, 37)]
    for extent, size in ((1000, 320), (784, 448), (65, 64), (640, 640)):
        found = even_ranges(extent, size, 64)
        assert len(found) == len(ranges(extent, size))
        assert [hi for _, hi in found] == [lo for lo, _ in found[1:]] + [extent]
        assert all(lo % 64 == 0 and 0 < hi - lo <= size for lo, hi in found)


def test_first_and_last_tiles_that_nothing_hides_may_be_half_as_long() -> None:
    assert tapered(ranges(1024, 256), 32) == [(0, 128), (128, 384), (384, 640), (640, 896), (896, 1024)]
    assert tapered(ranges(37, 10)) == [(0, 5), (5, 15), (15, 25), (25, 35), (35, 37)]
    assert tapered(ranges(64, 32), 32) is None and tapered(ranges(7, 1)) is None
    for extent, size, grain in ((1000, 320, 32), (113, 37, 1), (784, 392, 32), (97, 96, 5)):
        found = tapered(ranges(extent, size), grain)
        assert found is not None
        assert [hi for _, hi in found] == [lo for lo, _ in found[1:]] + [extent] and found[0][0] == 0
        assert found[0][1] % grain == 0 and 0 < found[0][1] < size
        assert all(0 < hi - lo <= size for lo, hi in found)


def test_boxes_that_cut_one_dimension_alone_are_tapered() -> None:
    rows = [[(0, 4), (0, 9)], [(4, 7), (0, 9)]]
    assert tapered_boxes([tuple(b) for b in rows], 32) == [((0, 2), (0, 9)), ((2, 6), (0, 9)), ((6, 7), (0, 9))]
    assert tapered_boxes([((0, 1), (0, 64)), ((0, 1), (64, 90))], 8) == [
        ((0, 1), (0, 32)),
        ((0, 1), (32, 90)),
    ]
    assert tapered_boxes([((r, r + 1), c) for r in range(3) for c in ((0, 64), (64, 90))], 8) is None
    for boxes in outer_cuts((5, 3, 40)):
        found = tapered_boxes(boxes, 4)
        if found is not None:
            assert sum(prod(hi - lo for lo, hi in b) for b in found) == 5 * 3 * 40
            assert max(prod(hi - lo for lo, hi in b) for b in found) <= prod(hi - lo for lo, hi in boxes[0])


def priced(heights: Sequence[int], back: float, ahead: bool = True) -> Tiling:
    """An update in tiles of so many rows; 1,000 cycles until a transfer flows, so none hides."""
    program, parts = updates(rows_of("w"), rows_of("g"), written=rows_of("w"), rows=ROWS)
    kind, cuts = parts[0].kind, list(pairwise((0, *accumulate(heights))))
    assert isinstance(kind, Loop)
    tiles = tuple(kind.part((r, (0, COLUMNS)), parts[0].reads, parts[0].writes) for r in cuts)
    link = replace(ROOM.machine.link, issue=1000, bytes_per_cycle=1, row=0, short_row=0, back=back)
    machine = replace(ROOM.machine, links=(link, *ROOM.machine.links[1:]))
    found = tiled(program, Tiles.of(program, tiles), replace(ROOM, machine=machine), ahead)
    assert found is not None
    return found


def test_transfers_in_both_directions_flow_at_once_where_the_link_says_so() -> None:
    """Three tiles one by one: two reads in and one result out of each, two of these times beside each other."""
    row = 4 * COLUMNS
    apart, together = (priced((4, 4, 3), back, ahead=False).cost for back in (1.0, 0.0))
    assert apart.exposed == 9 * 1000 + 3 * ROWS * row
    assert apart.exposed - together.exposed == 2 * 1000 + 8 * row


def test_what_comes_for_the_first_tile_and_leaves_from_the_last_is_never_hidden() -> None:
    row, costs = 4 * COLUMNS, ROOM.machine.costs.tile
    found = priced((2, 7, 2), 0.0)
    ends = 2 * (1000 + 2 * row) + 1000 + 2 * row
    beside = [costs.idle + 2 * (1000 + 7 * row), costs.idle + 2 * (1000 + 2 * row), 1000 + 7 * row]
    work = [work_cycles(p, ROOM.machine) + costs.tile for p in found.tiles.parts]
    hidden = sum(max(b - w, 0) for b, w in zip(beside, work, strict=True))
    assert found.cost.exposed == pytest.approx(ends + hidden)


def test_what_was_asked_for_before_comes_behind_the_last_one_at_once() -> None:
    """Four tiles whose transfers take ten cycles and whose work three: the link waits for nobody. One that takes longer
    than the work on two tiles begins when its buffer is free."""
    assert queued([3.0] * 4, [10.0] * 4 + [0.0], 1, 5.0) == 10 + 3 * (5 + 10) + 3
    assert queued([3.0] * 4, [10.0] * 4 + [0.0], 2, 5.0) == 4 * 10 + 3
    assert queued([20.0, 20.0, 3.0], [10.0, 1.0, 60.0, 0.0], 2, 5.0) == 10 + 5 + 60 + 3
    assert queued([20.0, 20.0], [10.0, 0.0, 0.0], 1, 5.0) == 10 + 40


def test_two_tiles_ahead_take_a_buffer_more_but_for_results_of_their_own() -> None:
    program, parts = updates(rows_of("w"), rows_of("g"), written=rows_of("w"), rows=2)
    found = tiled(program, Tiles.of(program, parts), ROOM, 2)
    assert found is not None
    old, gradient, new = found.streams
    assert (old.buffers, gradient.buffers, new.shares) == (4, 3, 0)
    assert [m.buffer for m in old.moves] == [m.buffer for m in new.moves] == [0, 1, 2, 3, 0, 1]
    assert found.flights == 2 + 2 + 1
    program, parts = updates(rows_of("w", 1), rows_of("g"), written=rows_of("w"), rows=2)
    found = tiled(program, Tiles.of(program, parts), ROOM, 2)
    assert found is not None
    assert [s.buffers for s in found.streams] == [3, 3, 2]


@pytest.mark.parametrize(("rows", "buffers"), [(2, 3), (-(-ROWS // 2), 2)])
def test_a_look_at_two_tiles_knows_whether_transfers_can_hide(rows: int, buffers: int) -> None:
    """Of two tiles alone no third buffer is written over."""
    program, parts = updates(rows_of("w"), rows_of("g"), written=rows_of("w"), rows=rows)
    work = work_cycles(parts[0], ROOM.machine)
    seen = Glance(Look.at(program, parts[0], ROOM), parts, lambda: (work, len(parts)))
    full = tiled(program, Tiles.of(program, parts), ROOM, True)
    assert seen.twice - seen.least == buffers * ROOM.machine.aligned(4 * rows * COLUMNS)
    assert full is not None and seen.twice == full.nbytes
    hidden, bare = seen.cycles_of
    assert seen.cycles(seen.twice) == hidden
    assert hidden < bare == seen.cycles(seen.twice - 1)


def windows(letters: str) -> list[Window]:
    """A window for each letter, the same object for the same one."""
    known = {c: Window(100 * i, 12, 1, 0, 1, 0, (1,)) for i, c in enumerate(sorted(set(letters)))}
    return [known[c] for c in letters]


@pytest.mark.parametrize(
    ("letters", "buffers", "moves", "count"),
    [
        ("ABCABC", "000000", "111111", 1),
        ("ABAB", "0101", "1100", 2),
        ("AABB", "0011", "1010", 2),
        ("ABCABC", "010101", "111111", 2),
        ("ABCCBA", "010010", "111001", 2),
        ("ABCCBA", "012210", "111000", 3),
        ("ABCABC", "012012", "111000", 4),
    ],
)
def test_what_a_buffer_holds_does_not_come_again(letters: str, buffers: str, moves: str, count: int) -> None:
    made = Passage(windows(letters), count, False)
    assert "".join(str(m.buffer) for m in made.moves) == buffers
    assert "".join(str(int(m.moves)) for m in made.moves) == moves
    held = dict[int, Window]()
    for move, wanted in zip(made.moves, windows(letters), strict=True):
        held |= {move.buffer: move.window} if move.moves else {}
        assert held[move.buffer] == wanted


def test_what_is_read_again_stays_where_there_is_room() -> None:
    """Two blocks of rows for each of three of columns: the rows that were read come once, or turn by turn."""
    kind = MatMul(1, 16, 24, 32)
    shapes = {"a": (1, 16, 32), "b": (1, 32, 24), "c": (1, 16, 24)}
    tensors = {n: Tensor(n, shape, DType.F32, Role.ACTIVATION) for n, shape in shapes.items()}
    a, b, c = (View.whole(t) for t in tensors.values())
    pairs = there_and_back(ranges(24, 8), ranges(16, 8))
    cuts = [Cut((0, 1), rows, columns, (0, 32)) for columns, rows in pairs]
    assert [cut.rows[0] for cut in cuts] == [0, 8, 8, 0, 0, 8]
    program, parts = Program("net", tensors), tuple(kind.part(cut, (a, b), (c,)) for cut in cuts)
    tiles = Tiles.of(program, parts)
    assert tiles.recurs and [c.recurring for c in map(tiles.crossing, range(2)) if c is not None] == [2, 0]
    moved = {keep: tiled(program, tiles, ROOM, False, keep) for keep in (False, True)}
    assert [t and [s.buffers for s in t.streams] for t in moved.values()] == [[1, 1, 1], [2, 1, 1]]
    half, others = 8 * 32 * 4, (32 * 24 + 16 * 24) * 4
    assert [t and t.moved for t in moved.values()] == [4 * half + others, 2 * half + others]


def test_windows_that_overlap_come_as_one_piece() -> None:
    """Of an image of 9 rows of 6 pixels what 5 x 2 taps meet by a stride of 2: all that lies between the first and the
    last one, each where it lay."""
    view = View("x", (2, 5, 2, 3, 2), (54, 6, 1, 12, 2), 7)
    found = window(view, 2)
    assert found == Window(14, 2 * (54 + 24 + 1 + 24 + 2 + 1), 1, 0, 1, 0, view.strides)


def test_what_lies_far_apart_does_not_come_with_what_is_between() -> None:
    """Every other column of every other row of some planes of some images is fewer elements than lie between."""
    assert window(View("x", (2, 3, 5, 4), (1000, 100, 20, 2)), 4) is None
