"""The cheapest tiles of an operation.

Its cuts are worked out once for all operations that are alike but for the names of their tensors: layers of one shape,
and those of variants of a network.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import inf

from trainlib_deployer.ops.carry import Transfer
from trainlib_deployer.plan.cycles import direct_cycles
from trainlib_deployer.plan.glance import Glance, Look
from trainlib_deployer.plan.other_rows import by_other_rows
from trainlib_deployer.plan.tiles import Draft, Room, Tiles, Tiling, Works, digest, draft
from trainlib_deployer.program.cuts import MOST_TILES, Parts
from trainlib_deployer.program.ir import Kind, Leading, Op, Part, Program, Splittable, Tensor, View, renamed
from trainlib_deployer.program.linked import Linked
from trainlib_deployer.program.together import Together

LOOK_AT = 5  # cuts of an operation that are worked out in full ...
HOPELESS = 4 / 3  # ... but for those that at a first look take so many times the cycles of the best one
TAPERED = 2  # of those, the best ones with a smaller first and last tile, too
SURELY = 1 + 1e-6  # times as long, for numbers that are rounded
MEASURE = 8  # cuts that measurements may choose among
REMEMBERED = 4096  # operations


@dataclass(frozen=True)
class Work:
    """An operation as far as its tiles are concerned, wherever its operands live. Tensors are numbered."""

    kind: Kind
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    tensors: tuple[Tensor, ...]


@dataclass(frozen=True)
class Job:
    """Work on a machine, but for the bytes that tiles may take."""

    work: Work
    room: Room  # of no capacity, with the operands that live in L1

    @staticmethod
    def of(program: Program, op: Op, room: Room) -> Job:
        numbers = {name: str(i) for i, name in enumerate(names_in(op))}
        reads, writes = renamed(op.reads, numbers), renamed(op.writes, numbers)
        known = ((numbers[n], program.tensors[n]) for n in numbers)
        tensors = tuple(numbered(number, t.shape, t.dtype, t.role) for number, t in known)
        resident = frozenset(number for name, number in numbers.items() if name in room.resident)
        return Job(Work(op.kind, reads, writes, tensors), Room(resident, 0, room.machine))


def names_in(op: Op) -> tuple[str, ...]:
    """In the order of their numbers."""
    return tuple(dict.fromkeys(v.tensor for v in (*op.reads, *op.writes)))


class First:
    """The first tile of some ways to cut an operation, whatever the machine."""

    def __init__(self, part: Part, whole: Part) -> None:
        self.part, self.whole = part, whole

    @cached_property
    def alike(self) -> float:
        """How many tiles like it there are; the last ones may be smaller. Sums are cut by their terms, other work by
        its results: tiles with halos do more than their share of it."""
        part, whole = self.part, self.whole
        written, total = (sum(v.numel for v in p.writes) for p in (part, whole))
        return max(whole.kind.macs() / max(part.kind.macs(), 1), total / max(written, 1))


class Cutting:
    """One way to cut an operation, whatever the machine and wherever its operands live."""

    def __init__(self, parts: Sequence[Part], sizes: tuple[int, ...], first: First, works: Works) -> None:
        self.parts, self.sizes, self.first, self.works = parts, sizes, first, works

    @cached_property
    def tiles(self) -> Tiles:
        return Tiles(tuple(self.parts), self.sizes, self.works)

    @cached_property
    def thinner(self) -> Tiles | None:
        """With less in the first tile and in the last one."""
        found = self.parts.tapered() if isinstance(self.parts, Parts) else None
        return None if found is None or len(found) > MOST_TILES else Tiles(tuple(found), self.sizes, self.works)

    def glance(self, look: Look) -> Glance:
        first = self.first
        return Glance(look, self.parts, lambda: (self.works.cycles(first.part, look.machine), first.alike))


class Cuttings:
    """All ways to cut an operation."""

    def __init__(self, work: Work) -> None:
        sizes = {t.name: t.dtype.size for t in work.tensors}
        of_operands = tuple(sizes[v.tensor] for v in (*work.reads, *work.writes))
        whole = Part(work.kind, work.reads, work.writes)
        works = Works()
        self.whole = Tiles((whole,), of_operands, works)
        self.ways: list[Cutting] = []
        firsts: dict[int, First] = {}
        for parts in work.kind.ways(work.reads, work.writes) if isinstance(work.kind, Splittable) else ():
            if 1 < len(parts) <= MOST_TILES:
                first = firsts.setdefault(id(parts[0]), First(parts[0], whole))
                self.ways.append(Cutting(parts, of_operands, first, works))


class Prospects:
    """What the ways to cut an operation take on a machine, whatever the room."""

    def __init__(self, job: Job) -> None:
        self.program = Program("", {t.name: t for t in job.work.tensors})
        self.job = job
        self.cuttings = cuttings(job.work)
        whole = self.cuttings.whole.parts[0]
        look = Look.at(self.program, whole, job.room)
        self.least = look.least(whole)
        self.ways = [way.glance(look) for way in self.cuttings.ways]
        self.known: dict[tuple[int, int, bool, bool], Draft | None] = {}
        self.chosen: dict[int, Tiling | None] = {}  # by the capacity
        self.named: dict[tuple[int, tuple[str, ...]], Tiling] = {}  # by the capacity and the tensors

    def candidates(self, capacity: int, most: int = LOOK_AT) -> list[tuple[float, int]]:
        """The whole operation (-1), and the cuts that look best, of those that may fit, with cycles at a first look."""
        whole = [(0.0, -1)] if self.least <= capacity else []
        promising = [(way.cycles(capacity), i) for i, way in enumerate(self.ways) if way.least <= capacity]
        return whole + sorted(promising)[:most]

    def at_first(self, capacity: int) -> float:
        """Cycles of the best one at a first look; 0 where the whole operation may fit."""
        if self.least <= capacity:
            return 0.0
        return min((way.cycles(capacity) for way in self.ways if way.least <= capacity), default=inf)

    def looked_at(self, capacity: int) -> Iterator[tuple[Tiling, int]]:
        """Of these the ones that fit, as long as the next may be better; without those whose work alone takes longer
        than the best ones do."""
        best: list[float] = []
        for cycles, i in self.candidates(capacity):
            if best and cycles > HOPELESS * best[0]:
                return
            if len(best) == TAPERED and self.bare(i) > SURELY * best[-1] and not self.measured:
                continue
            found = self.fitting(i, capacity)
            if found is not None:
                best = sorted((*best, found.cycles))[:TAPERED]
                yield found, i

    def bare(self, index: int) -> float:
        """Cycles of the work alone: however well its transfers hide, it takes no less."""
        machine, tiles = self.job.room.machine, self.cuttings.ways[index].tiles
        return sum(tiles.work(machine)) + machine.costs.tile.tile * len(tiles.parts)

    @cached_property
    def measured(self) -> bool:
        """May measurements put another way first than estimates do?"""
        tuned = self.job.room.machine.tuned
        return tuned is not None and tuned.asks(self.digest)

    @property
    def fewest(self) -> int:
        """Bytes that some tiles may do with."""
        return min((self.least, *(way.least for way in self.ways)))

    def cheapest(self, capacity: int) -> Tiling | None:
        """Of all ways that fit."""
        if capacity not in self.chosen:
            found = sorted(self.looked_at(capacity), key=lambda way: way[0].cycles)
            more = (*self.tapered(found, capacity), *self.deeper(found, capacity))
            ways = sorted([*(t for t, _ in found), *more], key=lambda t: t.cycles)
            self.chosen[capacity] = self.best(self.with_others(ways, capacity))
        return self.chosen[capacity]

    def tapered(self, found: Sequence[tuple[Tiling, int]], capacity: int) -> Iterator[Tiling]:
        """The best ones with a smaller first and last tile, where that may be better: it hides half of what is exposed
        at the most, and is a tile more."""
        more = self.job.room.machine.costs.tile.tile
        hopeful = (i for t, i in found[:TAPERED] if t.cycles - t.cost.exposed / 2 + more < found[0][0].cycles)
        yield from (t for i in hopeful if (t := self.tiling(i, capacity, 1, tapered=True)) is not None)

    def deeper(self, found: Sequence[tuple[Tiling, int]], capacity: int) -> Iterator[Tiling]:
        """With two tiles coming while one is worked on, where that may be better than the best one."""
        hopeful = (i for t, i in found if t.ahead and t.count > 2 and t.cycles - t.cost.exposed < found[0][0].cycles)
        yield from (t for i in hopeful if (t := self.tiling(i, capacity, 2)) is not None)

    def with_others(self, ways: Sequence[Tiling], capacity: int) -> Sequence[Tiling]:
        """With what estimates leave out and measurements may know, behind the best estimate the most promising first:
        more cuts, each with less in the first tile, with two tiles coming or none, and other kernels."""
        if not ways or not self.measured:
            return ways
        cuts = [i for _, i in self.candidates(capacity, MEASURE) if i >= 0]
        cut = (self.fitting(i, capacity) for i in cuts)
        ways_to = ((1, True), (2, False), (0, False))
        varied = (self.tiling(i, capacity, ahead, tapered=thin) for i in cuts for ahead, thin in ways_to)
        rows = by_other_rows(ways[0], self.job.room.machine)
        there = [t for t in (*rows, *cut, *varied) if t is not None and t.nbytes <= capacity]
        hopeful = [t for t in there if t.cycles <= HOPELESS * ways[0].cycles]
        first, *rest = {t.way: t for t in (*ways, *hopeful)}.values()
        return [first, *sorted(rest, key=lambda t: t.cycles)]

    def with_names(self, capacity: int, names: tuple[str, ...]) -> Tiling:
        """The cheapest one, which there is, of an operation with these tensors; others ask for the same one again."""
        key = capacity, names
        if key not in self.named:
            best = self.cheapest(capacity)
            assert best is not None
            self.named[key] = best.named(names)
        return self.named[key]

    def best(self, found: Sequence[Tiling]) -> Tiling | None:
        """Of the most promising first: that one, or what measurements say."""
        tuned = self.job.room.machine.tuned
        if not found or tuned is None:
            return found[0] if found else None
        at, share = tuned.chosen(self.digest, found)
        cost = replace(found[at].cost, cycles=share * found[0].cycles)
        return replace(found[at], cost=cost, work=self.digest, estimated=found[0] if at else None)

    @cached_property
    def direct(self) -> float:
        """Cycles without tiles."""
        whole, room = self.cuttings.whole.parts[0], self.job.room
        streamed = [v for v in (*whole.reads, *whole.writes) if v.tensor not in room.resident]
        return direct_cycles(whole, streamed, room.machine)

    @cached_property
    def digest(self) -> str:
        """Of what is cut, for so many cores of whatever machine."""
        return digest((self.job.work, sorted(self.job.room.resident), self.job.room.cores))

    def fitting(self, index: int, capacity: int) -> Tiling | None:
        """With two buffers a stream, and more for what is read again, as far as there is room for them."""
        twice = index < 0 or self.ways[index].twice <= capacity
        ways = ((ahead, keep) for ahead in (1, 0)[not twice :] for keep in (True, False))
        return next((t for way in ways if (t := self.tiling(index, capacity, *way)) is not None), None)

    def tiling(self, index: int, capacity: int, ahead: int, keep: bool = False, tapered: bool = False) -> Tiling | None:
        """None where it does not fit."""
        found = self.draft(index, ahead, keep, tapered)
        return found.tiling if found is not None and found.nbytes <= capacity else None

    def draft(self, index: int, ahead: int, keep: bool = False, tapered: bool = False) -> Draft | None:
        tiles = self.tiles(index, tapered)
        keep = keep and tiles is not None and tiles.recurs
        key = index, ahead, keep, tapered
        if key not in self.known:
            self.known[key] = draft(self.program, tiles, self.job.room, ahead, keep) if tiles is not None else None
        return self.known[key]

    def tiles(self, index: int, tapered: bool) -> Tiles | None:
        if index < 0:
            return None if tapered else self.cuttings.whole
        return self.cuttings.ways[index].thinner if tapered else self.cuttings.ways[index].tiles


numbered = lru_cache(maxsize=REMEMBERED)(Tensor)
cuttings = lru_cache(maxsize=REMEMBERED)(Cuttings)
prospects = lru_cache(maxsize=REMEMBERED)(Prospects)


class Choice:
    """How an operation may run out of L1 beside what lives there, whatever room that leaves."""

    def __init__(self, program: Program, op: Op, room: Room) -> None:
        self.kind, self.cores = op.kind, room.cores
        self.names = names_in(op)
        self.prospects = prospects(Job.of(program, op, room))

    @staticmethod
    def of(program: Program, op: Op, room: Room) -> Choice | None:
        """None where it has no tiles."""
        streams = any(v.tensor not in room.resident for v in (*op.reads, *op.writes))
        if not streams or isinstance(op.kind, Transfer | Together) or goes_on(op, room):
            return None
        return Choice(program, op, room)

    def within(self, capacity: int) -> Tiling | None:
        """The cheapest way; None where it better reads L2 directly, or must.

        Where the scratch of the whole does not fit, there is no way but tiles; nor is there for a chain."""
        best = self.prospects.cheapest(capacity)
        if best is None:
            return None
        must = isinstance(self.kind, Linked) or self.kind.scratch(self.cores) > capacity
        return self.prospects.with_names(capacity, self.names) if must or best.cycles < self.prospects.direct else None

    def whole(self, capacity: int) -> Tiling | None:
        """As one tile, if that fits."""
        found = self.prospects.fitting(-1, capacity) if self.prospects.least <= capacity else None
        return None if found is None else found.named(self.names)


def best_tiling(program: Program, op: Op, room: Room) -> Tiling | None:
    """The cheapest way to run `op` out of L1, if there is one that pays."""
    choice = Choice.of(program, op, room)
    return None if choice is None else choice.within(room.capacity)


def goes_on(op: Op, room: Room) -> bool:
    """It adds to what lies outside: a tile's results only leave, they never come."""
    adds = isinstance(op.kind, Leading) and op.kind.accumulate
    return adds and any(v.tensor not in room.resident for v in op.writes)
