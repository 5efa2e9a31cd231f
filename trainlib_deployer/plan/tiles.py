"""Tiles: an operation cut into parts that fit L1, and the transfers that carry them there and back.

A family says how an operation may be cut (`cuts`, each tile an operation on windows of the same tensors). Here the
windows become streams: dense copies in L1 with one or two buffers, what moves for each part, and what it costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from typing import NamedTuple

from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.machine.sizes import aligned
from trainlib_deployer.plan.cycles import work_cycles
from trainlib_deployer.plan.passage import Crossing, Move, Passage, Stream
from trainlib_deployer.plan.tile_cost import Cost, cost
from trainlib_deployer.plan.window import Window, alike, same_layout, windows_of
from trainlib_deployer.program.brought import brought, brought_bytes, comes_by_itself
from trainlib_deployer.program.ir import Kind, Part, Program, Role, View, renamed
from trainlib_deployer.program.linked import Linked
from trainlib_deployer.program.series import Series

LANE_BYTES = 104  # what a team keeps of one stream (tl_lane)
INSIDE = -1  # of a result that has no stream of its own yet


class Works:
    """What parts of an operation take: of those that are alike, in whatever ways to cut it, worked out once."""

    def __init__(self) -> None:
        self.known: dict[tuple[object, Machine], float] = {}

    def cycles(self, part: Part, machine: Machine) -> float:
        key = likeness(part), machine
        if key not in self.known:
            self.known[key] = work_cycles(part, machine)
        return self.known[key]


class Tiles:
    """The parts of an operation, and what of them is the same wherever its operands live."""

    def __init__(self, parts: tuple[Part, ...], sizes: tuple[int, ...], works: Works) -> None:
        """`sizes` are the bytes of an element of each operand: reads, then writes."""
        self.parts = parts
        self.sizes = sizes
        self.works = works
        self.crossings: dict[int, Crossing | None] = {}
        self.work_on: dict[Machine, list[float]] = {}
        self.scratch_of: dict[int, int] = {}
        self.local_to: dict[tuple[bool, ...], tuple[Part, ...]] = {}

    @staticmethod
    def of(program: Program, parts: tuple[Part, ...]) -> Tiles:
        return Tiles(parts, element_sizes(program, parts[0]), Works())

    def crossing(self, operand: int) -> Crossing | None:
        """None where a part's window is too scattered for a transfer."""
        if operand not in self.crossings:
            reads = len(self.parts[0].reads)
            views = [p.reads[operand] if operand < reads else p.writes[operand - reads] for p in self.parts]
            windows = alike(windows_of(views, self.sizes[operand]))
            self.crossings[operand] = None if windows is None else Crossing(windows, operand >= reads)
        return self.crossings[operand]

    def local(self, streamed: tuple[bool, ...]) -> tuple[Part, ...]:
        """With these operands as dense arrays; their offsets come from the stream."""
        if streamed not in self.local_to:
            crossings = [self.crossing(i) if far else None for i, far in enumerate(streamed)]
            found = (
                localized(p, [None if c is None else c.windows[k] for c in crossings]) for k, p in enumerate(self.parts)
            )
            self.local_to[streamed] = tuple(found)
        return self.local_to[streamed]

    @cached_property
    def recurs(self) -> bool:
        """Is anything read again after something else?"""
        reads = map(self.crossing, range(len(self.parts[0].reads)))
        return any(c is not None and c.recurring for c in reads)

    @cached_property
    def updated(self) -> dict[int, int]:
        return updated(self.parts)

    def work(self, machine: Machine) -> list[float]:
        """Cycles of each part."""
        if machine not in self.work_on:
            known = {k: self.works.cycles(self.parts[k], machine) for k in set(self.first_alike)}
            self.work_on[machine] = [known[k] for k in self.first_alike]
        return self.work_on[machine]

    def scratch(self, cores: int) -> int:
        """Bytes, of the part that takes the most."""
        if cores not in self.scratch_of:
            self.scratch_of[cores] = max(self.parts[k].kind.scratch(cores) for k in set(self.first_alike))
        return self.scratch_of[cores]

    @cached_property
    def first_alike(self) -> list[int]:
        """For each part the first one that is like it, as most are."""
        first: dict[object, int] = {}
        return [first.setdefault(likeness(p), k) for k, p in enumerate(self.parts)]


def likeness(part: Part) -> tuple[object, ...]:
    """Its kind and shapes: most parts are alike, and then share one kind, or the loops of a series."""
    kind, reads, writes = part
    shared = kind.stages if isinstance(kind, Series) else kind
    return id(shared), tuple([v.shape for v in reads]), tuple([v.shape for v in writes])


def element_sizes(program: Program, part: Part) -> tuple[int, ...]:
    return tuple(program.tensors[v.tensor].dtype.size for v in (*part.reads, *part.writes))


class Lingering(NamedTuple):
    """A result that still leaves while the next operation is worked on, until a call of that, by its number, or all."""

    stream: int
    until: int | None


@dataclass(frozen=True)
class Tiling:
    """An operation in parts. Part k's operand i is stream `of_operand[i]`, or stays where it is (None)."""

    tiles: Tiles  # their tensors are numbers of `names`, if there are any
    streams: tuple[Stream, ...]
    of_operand: tuple[int | None, ...]  # reads, then writes
    scratch: int
    ahead: int  # tiles that come while one is worked on, of a buffer each; 0: one buffer a stream
    cost: Cost
    alignment: int  # of what lies in L1
    host: int | None = None  # the operation before this one that starts the early streams
    names: tuple[str, ...] = ()
    work: str = ""  # what is cut, where measurements choose: not the tensors' names
    lingers: Lingering | None = None
    estimated: Tiling | None = None  # what estimates put first, where measurements chose this one instead
    row: str = ""  # the kernel that its calls take where they may, if not the one that they would

    def named(self, names: tuple[str, ...]) -> Tiling:
        """Of an operation whose tensors had been numbered; the parts are shared with all that are like it."""
        streams = tuple(s._replace(tensor=names[int(s.tensor)]) for s in self.streams)
        return replace(self, streams=streams, names=names)

    @property
    def count(self) -> int:
        return len(self.tiles.parts)

    @property
    def parts(self) -> tuple[Part, ...]:
        """As seen in L1."""
        local = self.tiles.local(tuple(slot is not None for slot in self.of_operand))
        if not self.names:
            return local
        names = {str(i): name for i, name in enumerate(self.names)}
        return tuple(Part(p.kind, renamed(p.reads, names), renamed(p.writes, names)) for p in local)

    @property
    def cycles(self) -> float:
        return self.cost.cycles

    @cached_property
    def way(self) -> str:
        """The tiles, and their kernel if it is another one, in few words, others for each way to cut an operation."""
        shapes = (v.shape for v in (*self.tiles.parts[0].reads, *self.tiles.parts[0].writes))
        order = digest(self.tiles.parts[:2])[:4]
        ahead = (" one by one", "", " two ahead")[self.ahead]
        row = f" by {self.row}" if self.row else ""
        return f"{self.count} x {' '.join('x'.join(map(str, shape)) for shape in shapes)} {order}{ahead}{row}"

    @property
    def measured_as(self) -> tuple[str, str] | None:
        """What is cut, and how."""
        return (self.work, self.way) if self.work else None

    @property
    def quiet(self) -> float:
        """Cycles of work during which nothing moves."""
        return max(self.cost.cycles - self.cost.tiles - self.cost.transfer, 0.0)

    @cached_property
    def lanes(self) -> int:
        """Bytes of the record of transfers under way."""
        return lanes(self.streams, self.alignment)

    @cached_property
    def nbytes(self) -> int:
        """L1 that the tiles take: buffers, scratch, and the record of the transfers."""
        return nbytes(self.streams, self.scratch, self.alignment)

    @property
    def flights(self) -> int:
        """Transfers under way at once, at the most."""
        return flights(self.streams, self.ahead)

    @property
    def moved(self) -> int:
        streamed = sum(m.window.nbytes for s in self.streams for m in s.moves if m.moves)
        return streamed + sum(brought_bytes(p.kind) for p in self.tiles.parts)

    @property
    def early_moved(self) -> int:
        """Bytes that are on their way before the operation begins."""
        return sum(s.moves[0].window.nbytes for s in self.streams if s.early)


@dataclass(frozen=True)
class Room:
    """What tiling may assume: the tensors that live in L1 already, the bytes left, the team."""

    resident: frozenset[str]
    capacity: int
    machine: Machine

    @property
    def cores(self) -> int:
        return self.machine.cores


def digest(value: object) -> str:
    """Of nested records, the same on every machine."""
    return sha256(repr(value).encode()).hexdigest()[:24]


class Draft:
    """A tiling, worked out as far as to tell what room it takes: of those that are too large nobody asks for more."""

    def __init__(self, tiles: Tiles, room: Room, ahead: int, streams: list[Stream], slots: list[int | None]) -> None:
        self.tiles, self.machine, self.ahead, self.streams, self.slots = tiles, room.machine, ahead, streams, slots
        self.passages: dict[int, Passage] = {}  # of streams, by their number, whose moves are made in the end

    @cached_property
    def nbytes(self) -> int:
        return nbytes(self.streams, self.tiles.scratch(self.machine.cores), self.machine.alignment)

    @cached_property
    def tiling(self) -> Tiling:
        count, machine, streams = len(self.tiles.parts), self.machine, list(self.streams)
        came, gone = [0.0] * count, [0.0] * count
        for at, passage in self.passages.items():
            streams[at] = streams[at]._replace(moves=passage.moves)
            moved = gone if passage.writes else came
            for k, cycles in enumerate(passage.cycles(machine)):
                moved[k] += cycles
        spent = cost(self.tiles.work(machine), came, gone, machine, self.ahead)
        scratch = self.tiles.scratch(machine.cores)
        return Tiling(self.tiles, tuple(streams), tuple(self.slots), scratch, self.ahead, spent, machine.alignment)


def nbytes(streams: Sequence[Stream], scratch: int, alignment: int) -> int:
    return sum(s.nbytes for s in streams) + aligned(scratch, alignment) + lanes(streams, alignment)


def lanes(streams: Sequence[Stream], alignment: int) -> int:
    return aligned(len(streams) * LANE_BYTES, alignment)


def flights(streams: Sequence[Stream], ahead: int) -> int:
    return sum(1 if s.writes else max(ahead, 1) for s in streams)


def draft(program: Program, tiles: Tiles, room: Room, ahead: int, keep: bool = False) -> Draft | None:
    """With the next tiles coming while one is worked on, or one by one; `keep`: what is read again has stayed."""
    parts, machine = tiles.parts, room.machine
    operands = (*parts[0].reads, *parts[0].writes)
    reads, inside = len(parts[0].reads), {i for i, v in enumerate(operands) if is_inside(program, v)}
    shared = ahead > 0 or parts[0].kind.over_itself
    source = {w: r for w, r in tiles.updated.items() if shared and w not in inside}
    overlaid = {operands[r].tensor for r in source.values()}
    streams: list[Stream] = []
    slots: list[int | None] = []
    found = Draft(tiles, room, ahead, streams, slots)
    inner = made_inside(parts[0].kind, reads)
    by_operand: list[Sequence[Window | None]] = []
    for i, view in enumerate(operands):
        tensor = program.tensors[view.tensor]
        if tensor.name in room.resident or comes_by_itself(parts[0].kind, i):
            slots.append(None)
            by_operand.append([None] * len(parts))
            continue
        crossing = tiles.crossing(i)
        if crossing is None:
            return None
        by_operand.append(crossing.windows)
        if i in inside or i in inner:
            slots.append(INSIDE)
            continue
        goes_on = i in source or (i < reads and tensor.name in overlaid)
        count = 1 + (ahead if i < reads or goes_on else min(ahead, 1)) + goes_on
        if keep and i < reads:
            count = max(count, crossing.recurring)
        shares = slots[source[i]] if i in source else None
        passage, size = crossing.passage(count), aligned(crossing.largest, machine.alignment)
        at = None if i >= reads else brought_already(found, tensor.name, passage)
        if at is None:
            at = len(streams)
            streams.append(Stream(tensor.name, i >= reads, size, passage.buffers, (), shares))
            found.passages[at] = passage
        slots.append(at)
    for i in (i for i, slot in enumerate(slots) if slot == INSIDE and i >= reads):
        over = slots[tiles.updated[i]] if i in tiles.updated else None
        if over is None:
            over = overwritten(parts[0], i - reads, slots, streams, by_operand)
        if over is None:
            over = len(streams)
            streams.append(kept_inside(operands[i].tensor, by_operand[i], machine.alignment))
        slots[i] = over
    for i, made in inner.items():
        if slots[i] is not None and not same_bytes(by_operand[i], by_operand[reads + made]):
            return None
        slots[i] = slots[reads + made]
    under_way = flights(streams, ahead) + (brought(parts[0].kind) is not None)
    return found if under_way <= machine.link.channels else None


def is_inside(program: Program, view: View) -> bool:
    return program.tensors[view.tensor].role is Role.INSIDE


def made_inside(kind: Kind, reads: int) -> dict[int, int]:
    """Operands that a link before has made, and as which result."""
    found = {i: kind.made_by(i) for i in range(reads)} if isinstance(kind, Linked) else {}
    return {i: made for i, made in found.items() if made is not None}


def overwritten(
    part: Part, write: int, slots: list[int | None], streams: list[Stream], windows: list[Sequence[Window | None]]
) -> int | None:
    """The stream in whose tiles a result that stays inside may lie until another one is written over it."""
    assert isinstance(part.kind, Linked)
    reads = len(part.reads)
    for other, its in part.kind.over(write).items():
        slot = slots[reads + other]
        free = slot is not None and slot != INSIDE and slots[reads:].count(slot) == 1 and streams[slot].shares is None
        if free and all(same_layout(windows[reads + other], windows[i]) for i in (reads + write, *its)):
            return slot
    return None


def brought_already(draft: Draft, tensor: str, wanted: Passage) -> int | None:
    """The stream that brings the same."""
    reading = (i for i, s in enumerate(draft.streams) if s.tensor == tensor and not s.writes)
    return next((i for i in reading if same_bytes(draft.passages[i].windows, wanted.windows)), None)


def same_bytes(one: Sequence[Window | None], other: Sequence[Window | None]) -> bool:
    """The same windows, in whatever shape they are seen."""
    pairs = zip(one, other, strict=True)
    return all(a is b or (a and b and a[:-1] == b[:-1]) for a, b in pairs)


def updated(parts: tuple[Part, ...]) -> dict[int, int]:
    """Operands that a loop writes where it has read them, element by element: the one written to the one read."""
    first, out = parts[0], dict[int, int]()
    if isinstance(first.kind, Series):
        found = first.kind.in_place_of(first.reads, first.writes)
        return {len(first.reads) + write: read for write, read in found.items()}
    if not first.kind.in_place:
        return {}
    for w, view in enumerate(first.writes):
        users = [r for r, v in enumerate(first.reads) if v.tensor == view.tensor]
        alone = sum(v.tensor == view.tensor for v in first.writes) == 1
        if not users or not alone or any(p.reads[r] != p.writes[w] for p in parts for r in users):
            continue
        if first.kind.over_itself or all(a.writes[w] != b.writes[w] for a, b in pairwise(parts)):
            out[len(first.reads) + w] = users[0]
    return out


def kept_inside(tensor: str, windows: Sequence[Window | None], alignment: int) -> Stream:
    """A buffer for what never leaves L1: made and used up before the next tile."""
    known = [w for w in windows if w is not None]
    moves = tuple(Move(w, 0, False) for w in known)
    return Stream(tensor, True, aligned(max(w.nbytes for w in known), alignment), 1, moves)


def localized(part: Part, windows: list[Window | None]) -> Part:
    views = [
        v if w is None else View(v.tensor, v.shape, w.dense)
        for v, w in zip((*part.reads, *part.writes), windows, strict=True)
    ]
    return Part(part.kind, tuple(views[: len(part.reads)]), tuple(views[len(part.reads) :]))
