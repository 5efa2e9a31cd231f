"""Tiles: an operation cut into parts that fit L1, and the transfers that carry them there and back.

A family says how an operation may be cut (`splits`: lists of parts, each an operation on windows of the same
tensors). Here the
windows become streams: dense copies in L1 with one or two buffers, what moves for each part, and what it costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from trainlib_deployer.ir import Op, Part, Program, Shape, View

ALIGNMENT = 16
MOST_STREAMS = 20
LANE_BYTES = 208  # what a team keeps of one stream (tl_lane)
MOST_ROWS = 32767
BYTES_PER_CYCLE = 8
TRANSFER_CYCLES = 110  # issue and latency of one transfer
TILE_CYCLES = 120  # two barriers and the bookkeeping of core 0
L2_LOAD_CYCLES = 14


@dataclass(frozen=True)
class Window:
    """A rectangular piece of a tensor, in bytes: planes x rows x row_bytes; `dense` are its strides once copied."""

    offset: int
    row_bytes: int
    rows: int
    pitch: int
    planes: int
    plane_pitch: int
    dense: Shape

    @property
    def nbytes(self) -> int:
        return self.planes * self.rows * self.row_bytes


@dataclass(frozen=True)
class Move:
    """What one part takes of one stream."""

    window: Window
    buffer: int
    moves: bool


@dataclass(frozen=True)
class Stream:
    """An operand on its way: its tensor, its buffer's size, and a move for each part."""

    tensor: str
    writes: bool
    size: int  # of one buffer, aligned
    buffers: int
    moves: tuple[Move, ...]


@dataclass(frozen=True)
class Cost:
    """Cycles, estimated: of the operation, of its transfers, and of those that no work hides."""

    cycles: float
    transfer: float
    exposed: float


@dataclass(frozen=True)
class Tiling:
    """An operation in parts. Part k's operand i is stream `of_operand[i]`, or stays where it is (None)."""

    parts: tuple[Part, ...]  # as seen in L1
    streams: tuple[Stream, ...]
    of_operand: tuple[int | None, ...]  # reads, then writes
    scratch: int
    ahead: bool  # two buffers a stream: the next tile comes while one is worked on
    cost: Cost

    @property
    def cycles(self) -> float:
        return self.cost.cycles

    @property
    def lanes(self) -> int:
        """Bytes of the record of transfers under way."""
        return aligned(len(self.streams) * LANE_BYTES)

    @property
    def nbytes(self) -> int:
        """L1 that the tiles take: buffers, scratch, and the record of the transfers."""
        return sum(s.size * s.buffers for s in self.streams) + aligned(self.scratch) + self.lanes

    @property
    def moved(self) -> int:
        return sum(m.window.nbytes for s in self.streams for m in s.moves if m.moves)


def window(view: View, size: int) -> Window | None:
    """The transfer that brings a view, or None where it is too scattered for one."""
    if any(s < 0 for s in view.strides):
        return None
    order = sorted((d for d, e in enumerate(view.shape) if e > 1 and view.strides[d]), key=lambda d: -view.strides[d])
    dense, step = [0] * len(view.shape), 1
    runs: list[list[int]] = []  # innermost first: extent, stride
    for d in reversed(order):
        dense[d] = step
        step *= view.shape[d]
        if runs and view.strides[d] == runs[-1][0] * runs[-1][1]:
            runs[-1][0] *= view.shape[d]
        else:
            runs.append([view.shape[d], view.strides[d]])
    if not runs or runs[0][1] != 1:
        runs.insert(0, [1, 1])
    if len(runs) > 3:
        return None
    runs += [[1, 0]] * (3 - len(runs))
    (run, _), (rows, pitch), (planes, plane_pitch) = runs
    if rows > MOST_ROWS or planes > MOST_ROWS:
        return None
    return Window(view.offset * size, run * size, rows, pitch * size, planes, plane_pitch * size, tuple(dense))


@dataclass(frozen=True)
class Room:
    """What tiling may assume: the tensors that live in L1 already, the bytes left, the team."""

    resident: frozenset[str]
    capacity: int
    cores: int


def direct_cycles(op: Op, streamed: list[View], cores: int) -> float:
    """Reading L2 element by element; packing kernels touch each operand a few times."""
    part = Part(op.kind, op.reads, op.writes)
    touched = sum(v.numel for v in streamed)
    return L2_LOAD_CYCLES * (touched + op.kind.macs() / 4) / busy_cores(part, cores) + work_cycles(part, cores)


def glance(program: Program, first: Part, second: Part, room: Room) -> float:
    """Cycles of a tile, judged by the operands that change from the first to the second."""
    views = zip((*first.reads, *first.writes), (*second.reads, *second.writes), strict=True)
    moving = [v for v, w in views if v.tensor not in room.resident and v != w]
    transfer = sum(dense_bytes(program, v) / BYTES_PER_CYCLE + TRANSFER_CYCLES for v in moving)
    return max(transfer, work_cycles(first, room.cores)) + TILE_CYCLES


def least_bytes(program: Program, part: Part, room: Room) -> int:
    """What a tile needs at the least: one buffer for each streamed operand, its lane, and scratch."""
    views = [v for v in (*part.reads, *part.writes) if v.tensor not in room.resident]
    lanes = aligned(len(views) * LANE_BYTES)
    return sum(aligned(dense_bytes(program, v)) for v in views) + lanes + part.kind.scratch(room.cores)


def dense_bytes(program: Program, view: View) -> int:
    elements = prod(e for e, s in zip(view.shape, view.strides, strict=True) if s)
    return elements * program.tensors[view.tensor].dtype.size


def aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def tiled(program: Program, parts: tuple[Part, ...], room: Room, ahead: bool) -> Tiling | None:
    operands = [(*p.reads, *p.writes) for p in parts]
    reads = len(parts[0].reads)
    streams: list[Stream] = []
    slots: list[int | None] = []
    for i in range(len(operands[0])):
        views = [o[i] for o in operands]
        if views[0].tensor in room.resident:
            slots.append(None)
            continue
        size = program.tensors[views[0].tensor].dtype.size
        windows = alike([window(v, size) for v in views])
        if windows is None:
            return None
        slots.append(len(streams))
        streams.append(stream(views[0].tensor, i >= reads, windows, ahead))
    if len(streams) > MOST_STREAMS:
        return None
    by_operand = windows_of(streams, slots)
    local = tuple(localized(p, [w[k] for w in by_operand]) for k, p in enumerate(parts))
    scratch = max(p.kind.scratch(room.cores) for p in parts)
    return Tiling(local, tuple(streams), tuple(slots), scratch, ahead, cost(parts, streams, room.cores, ahead))


def alike(windows: Sequence[Window | None]) -> list[Window] | None:
    """The same transfers with one pitch and one plane pitch for all, as a stream has them; None where there is no such
    pair. The last channel of an image has rows where others have planes."""
    known = [w for w in windows if w is not None]
    if len(known) < len(windows):
        return None
    deep = {(w.pitch, w.plane_pitch) for w in known if w.planes > 1 and w.rows > 1}
    pitches = list(dict.fromkeys((*(p for pair in deep for p in pair), *(w.pitch for w in known if w.rows > 1))))
    if len(deep) > 1 or len(pitches) > 2:
        return None
    return [as_planes(w) if w.rows > 1 and w.pitch != pitches[0] else w for w in known]


def as_planes(w: Window) -> Window:
    """Rows far apart, taken as planes of one row."""
    return replace(w, rows=1, planes=w.rows, plane_pitch=w.pitch)


def windows_of(streams: list[Stream], slots: list[int | None]) -> list[list[Window | None]]:
    count = len(streams[0].moves) if streams else 0
    return [[None] * count if s is None else [m.window for m in streams[s].moves] for s in slots]


def stream(tensor: str, writes: bool, windows: list[Window], ahead: bool) -> Stream:
    """Reads move when their window changes; results leave before it changes."""
    moves: list[Move] = []
    buffer = 0
    for k, w in enumerate(windows):
        fresh = k == 0 or w != windows[k - 1]
        if fresh and k and ahead:
            buffer ^= 1
        last = k + 1 == len(windows) or w != windows[k + 1]
        moves.append(Move(w, buffer, last if writes else fresh))
    buffers = 2 if any(m.buffer for m in moves) else 1
    return Stream(tensor, writes, aligned(max(w.nbytes for w in windows)), buffers, tuple(moves))


def localized(part: Part, windows: list[Window | None]) -> Part:
    """The part with its streamed operands as dense arrays; their offsets come from the stream."""
    views = [
        v if w is None else View(v.tensor, v.shape, w.dense)
        for v, w in zip((*part.reads, *part.writes), windows, strict=True)
    ]
    return replace(part, reads=tuple(views[: len(part.reads)]), writes=tuple(views[len(part.reads) :]))


def cost(parts: tuple[Part, ...], streams: list[Stream], cores: int, ahead: bool) -> Cost:
    """With two buffers, transfers hide behind the work of the part before; the first and the last do not."""
    transfer = [0.0] * len(parts)
    for s in streams:
        for k, m in enumerate(s.moves):
            if m.moves:
                scattered = m.window.rows * m.window.planes * (8 if m.window.row_bytes < 16 else 2)
                transfer[k] += m.window.nbytes / BYTES_PER_CYCLE + TRANSFER_CYCLES * m.window.planes + scattered
    work = [work_cycles(p, cores) for p in parts]
    bare = sum(work) + TILE_CYCLES * len(parts)
    exposed = sum(transfer)
    if ahead:
        exposed = transfer[0] + sum(max(t - w, 0.0) for w, t in zip(work, [*transfer[1:], 0.0], strict=True))
    return Cost(bare + exposed, sum(transfer), exposed)


def work_cycles(part: Part, cores: int) -> float:
    """As the family says, or some instructions an element."""
    if hasattr(part.kind, "cycles"):
        return float(part.kind.cycles(cores))
    elements = max(v.numel for v in (*part.reads, *part.writes))
    return (part.kind.macs() * 1.3 + 8 * elements) / busy_cores(part, cores) + 50


def busy_cores(part: Part, cores: int) -> float:
    """Work is split over results: single ones of a fold, tiles of 16 of a kernel."""
    cores = min(getattr(part.kind, "team", 0) or cores, cores)
    results = sum(v.numel for v in part.writes)
    units = results if part.kind.name == "reduce" else results / 16
    rounds = -(-units // cores) if units > cores else 1
    return max(1.0, min(units / rounds, cores))
