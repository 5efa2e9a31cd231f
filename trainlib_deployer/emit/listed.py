"""From the plan to the listing: what was decided, in the names of C. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from trainlib_deployer.emit.addresses import Addresses
from trainlib_deployer.emit.listing import (
    Argument,
    Call,
    Home,
    Left,
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
from trainlib_deployer.emit.loop_library import LoopLibrary
from trainlib_deployer.emit.loops import flat
from trainlib_deployer.emit.shares import apart
from trainlib_deployer.kernels.row import Row
from trainlib_deployer.plan.links import Link
from trainlib_deployer.plan.passage import Stream as PlannedStream
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.tiles import Tiling
from trainlib_deployer.program.call import Operand
from trainlib_deployer.program.ir import Kind, Part, View
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.segments import segments
from trainlib_deployer.program.series import Series
from trainlib_deployer.program.together import Together

PASS_ON, MOST_PASSED = "tl_pass_on", 128  # words that one core copies
TOKEN, SCRATCH = "@", "@scratch"  # what a row is handed in place of pointers


def listed(plan: Plan, at: Addresses, library: LoopLibrary) -> Listing:
    lister = Lister(at, library)
    operations = []
    known, cores = dict(places(plan, at)), plan.target.cores
    for position, op in enumerate(plan.program.ops):
        starts = tuple(at.operations[g] for g in plan.guests.get(position, ()))
        found = lister.operation(position, plan.calls[position], plan.tilings.get(position), starts)
        if isinstance(op.kind, Together):
            found = replace(found, meets=False)
        elif isinstance(op.kind, Series) and not plan.program.far:
            found = replace(found, apart=apart(found.calls, found.tiles, known, cores))
        operations.append(found)
    functions = tuple(segments(plan.program).values())
    shown = tuple(at.home(t) for t in plan.program.shown)
    return Listing(known, tuple(operations), functions, shown, cores)


def places(plan: Plan, at: Addresses) -> Iterator[tuple[str, Place]]:
    for b in plan.buffers:
        for name in (b.name, *b.aliases):
            yield at.name(name), Place(b.level, b.offset, b.size, b.birth, b.death)


@dataclass(frozen=True)
class Lister:
    at: Addresses
    library: LoopLibrary

    def operation(
        self, position: int, by_tile: Sequence[tuple[Link, ...]], tiling: Tiling | None, starts: tuple[str, ...] = ()
    ) -> Operation:
        known: dict[int, tuple[Call, ...]] = {}  # equal tiles are one object
        calls = []
        for tile in by_tile:
            if id(tile) not in known:
                known[id(tile)] = tuple(self.call(position, link, k) for k, link in enumerate(tile))
            calls.append(known[id(tile)])
        tiles = None if tiling is None else self.tiles(tiling, position)
        return Operation(self.at.operations[position], tiles, starts, tuple(calls), left=self.left(position))

    def left(self, position: int) -> Left | None:
        """By the operation before."""
        before = self.at.plan.tilings.get(position - 1)
        if before is None or before.lingers is None:
            return None
        return Left(self.at.lanes(position - 1), before.lingers.stream, before.lingers.until)

    def call(self, position: int, link: Link, number: int) -> Call:
        part, reads = link.part, len(link.part.reads)
        views = (*part.reads, *part.writes)
        given = [self.argument(v, s) for v, s in zip(views, link.slots, strict=True)]
        if isinstance(self.at.plan.program.ops[position].kind, Together) and self.few_outside(part, given):
            source, target = given
            return Call(PASS_ON, "", (("", target), ("", source), ("", 4 * views[0].numel), ("", number)), part)
        if isinstance(part.kind, Loop):
            types = (*part.kind.inputs, *part.kind.outputs)
            placed = zip(given, views, types, strict=True)
            given = [replace(a, past=v.offset * t.size) if isinstance(a, Tile) else a for a, v, t in placed]
            return self.loop_call(part.kind, part, [*given[reads:], *given[:reads]])
        assert link.row is not None, f"{part.kind} is neither a loop nor has it a kernel"
        tokens = [Operand(f"{TOKEN}{i}", v) for i, v in enumerate(views)]
        home = self.at.scratch(position)
        known: dict[str, Argument] = {f"{TOKEN}{i}": a for i, a in enumerate(given)}
        known[SCRATCH] = 0 if home is None else Pointer(home)
        return Call(link.row.symbol, link.row.struct, tuple(fields(link.row, part, tokens, known)))

    def few_outside(self, part: Part, given: list[Argument]) -> bool:
        """A copy of few words within the outer memory: one core's work, another one's for each."""
        kind, views = part.kind, (*part.reads, *part.writes)
        assert isinstance(kind, Loop)
        words = all(d.size == 4 for d in (*kind.inputs, *kind.outputs)) and kind.inputs == kind.outputs
        plain = words and not (kind.body or kind.reductions or kind.post) and all(v.contiguous for v in views)
        outer = self.at.plan.outer.name
        outside = (isinstance(a, Pointer) and a.home.level == outer != self.at.near for a in given)
        return plain and len(given) == 2 and views[0].numel <= MOST_PASSED and all(outside)

    def loop_call(self, kind: Loop, part: Part, given: list[Argument]) -> Call:
        name = self.library.function(kind, part.reads, part.writes)
        if flat(kind, part.reads, part.writes):
            given.append(kind.extents[0])
        return Call(name, "", tuple(("", a) for a in given), part)

    def argument(self, view: View, slot: int | None) -> Argument:
        if slot is not None:
            return Tile(slot)
        if self.at.recorded(view.tensor):
            return Recorded(view.offset)
        return Pointer(self.at.home(view.tensor), view.offset)

    def tiles(self, tiling: Tiling, position: int) -> Tiles:
        streams = tuple(self.stream(tiling, k, position) for k in range(len(tiling.streams)))
        leaving = [s.leaves for s in streams]
        assert leaving == sorted(leaving), "what leaves comes last"
        lingers = None if tiling.lingers is None else tiling.lingers.stream
        return Tiles(self.at.lanes(position), tiling.ahead, streams, lingers)

    def stream(self, tiling: Tiling, number: int, position: int) -> Stream:
        s, place = tiling.streams[number], self.at.plan.buffer_of(position, number)
        second: int | Home = s.size if s.buffers > 1 else 0
        if self.at.plan.tilings[place[0]].streams[place[1]].apart:
            second = self.at.buffer(*place, "second")
        found = s.found is not None
        home = self.at.home(s.tensor) if found or any(m.moves for m in s.moves) else None
        return Stream(home, self.at.buffer(*place), second, s.writes, s.early, way(s), found)


def way(s: PlannedStream) -> Way:
    first = s.moves[0].window
    pitch = next((m.window.pitch for m in s.moves if m.window.rows > 1), first.pitch)
    plane_pitch = next((m.window.plane_pitch for m in s.moves if m.window.planes > 1), first.plane_pitch)
    moves = (
        Move(m.window.offset, m.window.row_bytes, m.window.rows, m.window.planes, m.buffer, m.moves) for m in s.moves
    )
    return Way(pitch, plane_pitch, tuple(moves))


def fields(
    row: Row[Kind], part: Part, tokens: list[Operand], known: dict[str, Argument]
) -> Iterator[tuple[str, Argument]]:
    """Of the row's struct, with what the tokens stand for."""
    reads = len(part.reads)
    for name, value in row.call(part.kind, tokens[:reads], tokens[reads:], SCRATCH).fields:
        number = isinstance(value, int) or value.lstrip("-").isdigit()
        yield name, int(value) if number else known.get(str(value), value)
