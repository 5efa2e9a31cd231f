"""Tiles: an operation cut into parts that fit L1, and the transfers that carry them there and back.

A family says how an operation may be cut (`cuts`, each tile an operation on windows of the same tensors). Here the
windows become streams: dense copies in L1 with one or two buffers, what moves for each part, and what it costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, TypeGuard

from trainlib_deployer.machine.targets import Target
from trainlib_deployer.program.ir import Kind, Op, Part, Priced, Program, Role, Shape, View

if TYPE_CHECKING:
    from trainlib_deployer.program.chain import Chain  # whose package imports PyTorch

ALIGNMENT = 16
MOST_STREAMS = 16  # transfers that the DMA tells apart
LANE_BYTES = 104  # what a team keeps of one stream (tl_lane)
MOST_ROWS = 32767
BYTES_PER_CYCLE = 8
TRANSFER_CYCLES = 110  # issue and latency of one transfer
L2_LOAD_CYCLES = 14
INSIDE = -1  # of a result that has no stream of its own yet


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
    shares: int | None = None  # results that take the place of what was read: the stream in whose buffers they lie
    early: bool = False  # its first transfer is started by the operation's host

    @property
    def nbytes(self) -> int:
        """Of L1, beside what other streams take."""
        return self.size * self.buffers if self.shares is None else 0


@dataclass(frozen=True)
class Cost:
    """Cycles, estimated: of the operation, of tiles beside their work, of its transfers, and of those not hidden."""

    cycles: float
    tiles: float
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
    host: int | None = None  # the operation before this one that starts the early streams

    @property
    def cycles(self) -> float:
        return self.cost.cycles

    @property
    def quiet(self) -> float:
        """Cycles of work during which nothing moves."""
        return max(self.cost.cycles - self.cost.tiles - self.cost.transfer, 0.0)

    @property
    def lanes(self) -> int:
        """Bytes of the record of transfers under way."""
        return aligned(len(self.streams) * LANE_BYTES)

    @property
    def nbytes(self) -> int:
        """L1 that the tiles take: buffers, scratch, and the record of the transfers."""
        return sum(s.nbytes for s in self.streams) + aligned(self.scratch) + self.lanes

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
    machine: Target

    @property
    def cores(self) -> int:
        return self.machine.cores


def direct_cycles(op: Op, streamed: list[View], machine: Target) -> float:
    """Reading L2 element by element; packing kernels touch each operand a few times."""
    part = Part(op.kind, op.reads, op.writes)
    touched = sum(v.numel for v in streamed)
    waiting = L2_LOAD_CYCLES * (touched + op.kind.macs() / 4) / busy_cores(part, machine.cores)
    return waiting + work_cycles(part, machine)


def untiled_cycles(op: Op, far: list[View], machine: Target) -> float:
    """Without tiles; `far` are the operands that live in L2."""
    return direct_cycles(op, far, machine) if far else work_cycles(Part(op.kind, op.reads, op.writes), machine)


@dataclass(frozen=True, order=True)
class Glance:
    """Cycles of a tile at a first look: one after the other, or with the next one's transfers behind the work, where
    there is room for second buffers."""

    bare: float
    hidden: float
    second: int

    def cycles(self, spare: int) -> float:
        return self.hidden if self.second <= spare else self.bare

    def times(self, tiles: float) -> Glance:
        return Glance(self.bare * tiles, self.hidden * tiles, self.second)


def glance(program: Program, first: Part, second: Part, room: Room) -> Glance:
    """Judged by the operands that change from the first tile to the second."""
    views = zip((*first.reads, *first.writes), (*second.reads, *second.writes), strict=True)
    moving = [v for v, w in views if v.tensor not in room.resident and v != w and moves(program, v)]
    transfer = sum(dense_bytes(program, v) / BYTES_PER_CYCLE + TRANSFER_CYCLES for v in moving)
    work, tile = work_cycles(first, room.machine), room.machine.costs.tile.tile
    buffers = sum(aligned(dense_bytes(program, v)) for v in moving)
    return Glance(transfer + work + tile, max(transfer, work) + tile, buffers)


def moves(program: Program, view: View) -> bool:
    return program.tensors[view.tensor].role is not Role.INSIDE


def least_bytes(program: Program, part: Part, room: Room) -> int:
    """What a tile needs at the least: one buffer for each streamed operand, its lane, and scratch."""
    source = updated((part,))
    operands = enumerate((*part.reads, *part.writes))
    views = [(i, v) for i, v in operands if v.tensor not in room.resident and moves(program, v)]
    lanes = aligned(len(views) * LANE_BYTES)
    buffers = sum(aligned(dense_bytes(program, v)) for i, v in views if i not in source)
    return buffers + lanes + part.kind.scratch(room.cores)


def dense_bytes(program: Program, view: View) -> int:
    elements = prod(e for e, s in zip(view.shape, view.strides, strict=True) if s)
    return elements * program.tensors[view.tensor].dtype.size


def aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def tiled(program: Program, parts: tuple[Part, ...], room: Room, ahead: bool) -> Tiling | None:
    operands = [(*p.reads, *p.writes) for p in parts]
    reads, source = len(parts[0].reads), updated(parts) if ahead else {}
    streams: list[Stream] = []
    slots: list[int | None] = []
    by_operand: list[Sequence[Window | None]] = []
    for i in range(len(operands[0])):
        views = [o[i] for o in operands]
        tensor = program.tensors[views[0].tensor]
        if tensor.name in room.resident:
            slots.append(None)
            by_operand.append([None] * len(parts))
            continue
        windows = alike([window(v, tensor.dtype.size) for v in views])
        if windows is None:
            return None
        by_operand.append(windows)
        if tensor.role is Role.INSIDE:
            slots.append(INSIDE)
            continue
        count = 1 + ahead + (i in source or i in source.values())
        shares = slots[source[i]] if i in source else None
        slots.append(joined(streams, stream(tensor.name, i >= reads, windows, count, shares)))
    if INSIDE in slots:
        at = slots.index(INSIDE)
        slots[at] = overwritten(parts[0].kind, slots[reads:], streams, by_operand[reads:])
        if slots[at] is None:
            slots[at] = len(streams)
            streams.append(kept_inside(operands[0][at].tensor, by_operand[at]))
    if len(streams) > MOST_STREAMS:
        return None
    local = tuple(localized(p, [w[k] for w in by_operand]) for k, p in enumerate(parts))
    scratch = max(p.kind.scratch(room.cores) for p in parts)
    return Tiling(local, tuple(streams), tuple(slots), scratch, ahead, cost(parts, streams, room.machine, ahead))


def is_priced(kind: Kind) -> TypeGuard[Priced]:
    return hasattr(kind, "cycles")


def is_chain(kind: Kind) -> TypeGuard[Chain]:
    return kind.name == "chain"


def overwritten(
    kind: Kind, slots: list[int | None], streams: list[Stream], windows: list[Sequence[Window | None]]
) -> int | None:
    """The stream in whose tiles a chain's result that stays inside may lie until its one follower writes over it."""
    assert is_chain(kind)
    using = [f for f in kind.followers if -1 in f.reads]
    for write in using[0].writes if len(using) == 1 else ():
        slot = slots[~write]
        if slot is not None and streams[slot].shares is None and same_layout(windows[~write], windows[0]):
            return slot
    return None


def same_layout(one: Sequence[Window | None], other: Sequence[Window | None]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(a is not None and b is not None and (a.dense, a.nbytes) == (b.dense, b.nbytes) for a, b in pairs)


def joined(streams: list[Stream], made: Stream) -> int:
    """Where the stream is among the others; what one brings already is not brought again."""
    for i, s in enumerate(streams):
        if not s.writes and not made.writes and s.tensor == made.tensor and same_bytes(s, made):
            return i
    streams.append(made)
    return len(streams) - 1


def same_bytes(one: Stream, other: Stream) -> bool:
    """The same windows, in whatever shape they are seen."""
    pairs = zip(one.moves, other.moves, strict=True)
    return all(replace(m.window, dense=()) == replace(n.window, dense=()) for m, n in pairs)


def updated(parts: tuple[Part, ...]) -> dict[int, int]:
    """Operands that a loop writes where it has read them, element by element: the one written to the one read."""
    first, out = parts[0], {}
    if first.kind.name not in ("map", "chain"):
        return {}
    for w, view in enumerate(first.writes):
        users = [r for r, v in enumerate(first.reads) if v.tensor == view.tensor]
        alone = sum(v.tensor == view.tensor for v in first.writes) == 1
        if not users or not alone or any(p.reads[r] != p.writes[w] for p in parts for r in users):
            continue
        if all(a.writes[w] != b.writes[w] for a, b in pairwise(parts)):
            out[len(first.reads) + w] = users[0]
    return out


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


def stream(tensor: str, writes: bool, windows: list[Window], count: int, shares: int | None) -> Stream:
    """Reads move when their window changes; results leave before it changes. Of `count` buffers each window takes the
    next."""
    moves: list[Move] = []
    buffer = 0
    for k, w in enumerate(windows):
        fresh = k == 0 or w != windows[k - 1]
        if fresh and k:
            buffer = (buffer + 1) % count
        last = k + 1 == len(windows) or w != windows[k + 1]
        moves.append(Move(w, buffer, last if writes else fresh))
    buffers = 1 + max(m.buffer for m in moves)
    return Stream(tensor, writes, aligned(max(w.nbytes for w in windows)), buffers, tuple(moves), shares)


def kept_inside(tensor: str, windows: Sequence[Window | None]) -> Stream:
    """A buffer for what never leaves L1: made and used up before the next tile."""
    known = [w for w in windows if w is not None]
    moves = tuple(Move(w, 0, False) for w in known)
    return Stream(tensor, True, aligned(max(w.nbytes for w in known)), 1, moves)


def localized(part: Part, windows: list[Window | None]) -> Part:
    """The part with its streamed operands as dense arrays; their offsets come from the stream."""
    views = [
        v if w is None else View(v.tensor, v.shape, w.dense)
        for v, w in zip((*part.reads, *part.writes), windows, strict=True)
    ]
    return replace(part, reads=tuple(views[: len(part.reads)]), writes=tuple(views[len(part.reads) :]))


def cost(parts: tuple[Part, ...], streams: list[Stream], machine: Target, ahead: bool) -> Cost:
    """With two buffers, transfers hide behind the work of the part before; the first and the last do not."""
    transfer = [0.0] * len(parts)
    for s in streams:
        for k, m in enumerate(s.moves):
            if m.moves:
                transfer[k] += transfer_cycles(m.window)
    work = [work_cycles(p, machine) for p in parts]
    tiles = machine.costs.tile.tile * len(parts)
    bare = sum(work) + tiles
    exposed = sum(transfer)
    if ahead:
        exposed = transfer[0] + sum(max(t - w, 0.0) for w, t in zip(work, [*transfer[1:], 0.0], strict=True))
    return Cost(bare + exposed, tiles, sum(transfer), exposed)


def transfer_cycles(w: Window) -> float:
    scattered = w.rows * w.planes * (8 if w.row_bytes < 16 else 2)
    return w.nbytes / BYTES_PER_CYCLE + TRANSFER_CYCLES * w.planes + scattered


def work_cycles(part: Part, machine: Target) -> float:
    """As the family says, or some instructions an element."""
    cores, costs = machine.cores, machine.costs
    if is_chain(part.kind):
        links = [Part(*link) for link in part.kind.links(part.reads, part.writes)]
        return sum(work_cycles(link, machine) for link in links) + costs.tile.link * (len(links) - 1)
    if is_priced(part.kind):
        return float(part.kind.cycles(cores, costs))
    elements, c = max(v.numel for v in (*part.reads, *part.writes)), costs.loop
    return (part.kind.macs() * c.mac + c.element * elements) / busy_cores(part, cores) + c.start


def busy_cores(part: Part, cores: int) -> float:
    """Work is split over results: single ones of a fold, fours of a loop, tiles of 16 of a kernel."""
    cores = min(getattr(part.kind, "team", 0) or cores, cores)
    units = sum(v.numel for v in part.writes) / {"reduce": 1, "map": 4}.get(part.kind.name, 16)
    rounds = -(-units // cores) if units > cores else 1
    return max(1.0, min(units / rounds, cores))
