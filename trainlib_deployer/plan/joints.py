"""A step whose operations are joined, two at a time, where that is estimated to pay."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.plan.best_tiling import Choice
from trainlib_deployer.plan.tiles import Room, Tiling
from trainlib_deployer.plan.ways import Way
from trainlib_deployer.program.ir import Op, Program, Tensor, readers, writers
from trainlib_deployer.program.places import Places
from trainlib_deployer.program.segments import segments

ALIKE = 1.01  # times as many cycles, no estimate tells apart
UNLIKELY = 1.08  # times as many at a first look: what is worked out in full hardly ever pays


@dataclass(frozen=True)
class Joint:
    """Two operations as one, and the tensors that change their role by it."""

    op: Op
    tensors: dict[str, Tensor]


@dataclass(frozen=True)
class Results:
    """Tensors that a step hands over, and those of gradients."""

    shown: frozenset[str]
    gradients: frozenset[str]

    @staticmethod
    def of(program: Program) -> Results:
        return Results(frozenset(program.shown), frozenset(t for _, t in program.gradients))


@dataclass(frozen=True)
class Run:
    """An operation that others may join: where it is, the room there, and what those in it take on their own."""

    at: int
    room: int
    cycles: float  # ... or together, where that is less
    moved: int  # bytes


@dataclass(frozen=True)
class Attempt:
    """What has been joined, and what was there before."""

    run: Run
    pays: bool
    first: tuple[Op, int]
    second: tuple[Op, int]
    tensors: dict[str, Tensor]


@dataclass(frozen=True)
class Draft:
    """Positions are those of the step as it was; where an operation has joined another there is none."""

    origin: Program
    ops: list[Op | None]
    now: Program  # with the roles that tensors have by now
    places: Places
    read_at: dict[str, list[int]]
    written_at: dict[str, list[int]]
    borders: tuple[int, ...]  # nothing crosses
    results: Results
    resident: frozenset[str]
    left: list[int]
    machine: Machine
    ways: list[Way]
    apart: frozenset[int]  # places where none may meet

    @staticmethod
    def of(
        program: Program,
        resident: frozenset[str],
        left: list[int],
        machine: Machine,
        ways: list[Way],
        apart: frozenset[int],
    ) -> Draft:
        now = replace(program, tensors=dict(program.tensors))
        borders = tuple(found.start for found in segments(program).values())
        places, read_at, written_at = Places.of(program), readers(program), writers(program)
        ops: list[Op | None] = [*program.ops]
        uses = (places, read_at, written_at)
        return Draft(program, ops, now, *uses, borders, Results.of(program), resident, left, machine, ways, apart)

    @property
    def program(self) -> Program:
        """What has become of it."""
        if None not in self.ops:
            return self.origin
        return self.now.with_ops([op for op in self.ops if op is not None])

    @property
    def left_over(self) -> list[int]:
        """Places of its operations."""
        return [at for at, op in enumerate(self.ops) if op is not None]

    def alone(self, at: int) -> Run:
        return Run(at, self.left[at], self.ways[at].cycles, self.ways[at].moved)

    def tried(self, run: Run, other_at: int, joint: Joint | None) -> Run | None:
        """With the operation there in it, if it may be moved and pays."""
        found = self.attempt(run, other_at, joint, UNLIKELY)
        if found is not None and not found.pays:
            self.undo(found)
        return found.run if found is not None and found.pays else None

    def attempt(self, run: Run, other_at: int, joint: Joint | None, most: float = inf) -> Attempt | None:
        """With the operation there in it, if it may be moved, whether or not it pays; it is not worked out where at a
        first look it takes more than `most` times as long."""
        first, other = self.ops[run.at], self.ops[other_at]
        if joint is None or first is None or other is None:
            return None
        place = meeting_point(self.places, (first, run.at), (other, other_at))
        if place is None or place in self.apart:
            return None
        room, alone = min(run.room, self.left[other_at]), self.ways[other_at]
        cycles, moved = run.cycles + alone.cycles, run.moved + alone.moved
        beside = Room(self.resident - {*joint.tensors}, room, self.machine)
        choice = Choice.of(self.with_only(joint), joint.op, beside)
        if choice is None or choice.prospects.at_first(room) > most * cycles:
            return None
        found = choice.within(room)
        if found is None:
            return None
        better = pays(found, cycles, moved)
        wider = Run(place, room, *((found.cycles, found.moved) if better else (cycles, moved)))
        before = {name: self.now.tensors[name] for name in joint.tensors if name in self.now.tensors}
        self.ops[run.at] = self.ops[other_at] = None
        self.ops[place] = joint.op
        self.places.move(first, run.at, place)
        self.places.move(other, other_at, place)
        self.now.tensors.update(joint.tensors)
        return Attempt(wider, better, (first, run.at), (other, other_at), before)

    def undo(self, attempt: Attempt) -> None:
        """The last one."""
        (first, at), (other, other_at) = attempt.first, attempt.second
        self.places.move(other, attempt.run.at, other_at)
        self.places.move(first, attempt.run.at, at)
        self.places.move(other, other_at, other_at)  # where both were there
        self.ops[attempt.run.at] = None
        self.ops[at], self.ops[other_at] = first, other
        self.now.tensors.update(attempt.tensors)

    def with_only(self, joint: Joint) -> Program:
        """As far as the tiles of the joint operation are concerned."""
        names = {v.tensor for v in (*joint.op.reads, *joint.op.writes)}
        return Program("", {n: joint.tensors.get(n) or self.now.tensors[n] for n in names})


def pays(joint: Tiling, cycles: float, moved: int) -> bool:
    """Against what its operations take on their own."""
    return joint.cycles < cycles or (joint.cycles < ALIKE * cycles and joint.moved < moved)


def meeting_point(places: Places, first: tuple[Op, int], second: tuple[Op, int]) -> int | None:
    """Where one of the two can move to the other, past what lies between."""
    (one, at), (other, later) = first, second
    if not places.conflict(other, at, later):
        return at
    return None if places.conflict(one, at, later) else later
