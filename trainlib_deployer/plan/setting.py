"""Settings, and the candidates that follow from them.

A setting is what is decided before anything has a place. From it follow, each worked out once and only when asked for,
who lives in the inner level, the bytes left there at each operation, and how each operation runs beside that: its
kernel, perhaps a leaner one, and its tiles. Offsets come last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Protocol, TypeVar

from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.plan.chains import chained
from trainlib_deployer.plan.early import bring_early
from trainlib_deployer.plan.found import found_there
from trainlib_deployer.plan.joints import ALIKE
from trainlib_deployer.plan.layout import Item, arranged, fits, tensor_items
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.residents import always, occupied, outer_bytes, residents
from trainlib_deployer.plan.tiles import Room
from trainlib_deployer.plan.ways import Way, fastest, may_fit
from trainlib_deployer.program.ir import Program

SLIVER, FOR_A_SLIVER = 256, 1.002  # such a part of the inner level may take so many times the cycles
LITTLE = 32  # a plan that is over by no more than such a part of the inner level may fit with smaller tiles
HARDLY_MORE = 1.004  # times the cycles, or bytes moved: for that the inner level may be filled less


@dataclass(frozen=True)
class Setting:
    """A step, a machine, and what is decided of the two."""

    program: Program
    items: tuple[Item, ...]  # what comes and goes in it
    machine: Machine  # with the team that works
    small: int | None  # bytes of a tensor that lives in the inner level, beside tiles of the others; None: all do
    margin: float = 1.0  # of the bytes left: the arena may lose the others to gaps
    chains: bool = False  # do loops of the step follow other operations tile by tile?
    spare: int = 0  # bytes of the inner level that tiles leave
    passing: int = 0  # tensors that few operations in a row need live there, too: of such a part of it at most

    @cached_property
    def here(self) -> frozenset[str]:
        """Tensors that live in the inner level."""
        if self.small is None:
            return frozenset(self.program.tensors)
        return residents(self.program, self.items, self.small, self.machine, self.passing)

    @cached_property
    def left(self) -> list[int]:
        """Bytes of the inner level at each operation, beside stacks and what lives there."""
        machine = self.machine
        free = machine.inner.size - machine.inner.reserved
        free -= machine.aligned(always(self.program, self.here, machine))
        used = occupied(self.items, self.here, max(len(self.program.ops), 1), machine)
        return [int(self.margin * (free - self.spare - u)) for u in used]

    @cached_property
    def rooms(self) -> list[Room]:
        return [Room(self.here, capacity, self.machine) for capacity in self.left]

    @cached_property
    def ways(self) -> list[Way] | None:
        """How each operation runs; None where one does not fit, or what stays outside does not."""
        machine, program = self.machine, self.program
        if min(self.left) < 0 or outer_bytes(program, self.items, self.here, machine) > machine.outer.size:
            return None
        steps = list(zip(program.ops, self.rooms, strict=False))
        if not all(may_fit(program, op, room) for op, room in steps):
            return None
        out = []
        for op, room in steps:
            way = fastest(program, op, room)
            if way is None:
                return None
            out.append(way)
        return out

    @property
    def estimate(self) -> float:
        """Cycles of its operations, before any tile comes early; infinite where there are no ways."""
        return inf if self.ways is None else sum(w.cycles for w in self.ways)

    @property
    def with_chains(self) -> Setting | None:
        """The same, where loops follow other operations tile by tile; None where none gains by it."""
        if self.ways is None:
            return None
        joint = chained(self.program, self.here, self.left, self.machine, self.ways)
        if joint is self.program:
            return None
        return replace(self, program=joint, items=tuple(tensor_items(joint)), chains=True)

    @property
    def candidate(self) -> Candidate | None:
        """With tiles that come early if that fits, else without; None where neither does."""
        tried = (False,) if self.small is None else (True, False)
        made = (found for early in tried for found in self.plans(early))
        setting, plan = next(((s, p) for s, p in made if p is None or fits(p)), (self, None))
        return None if plan is None else Candidate(setting, plan)

    def plans(self, early: bool) -> Iterator[tuple[Setting, Plan | None]]:
        """Of a long step a second one, with as much less for tiles as the first one has too little room by, twice."""
        plan = self.plan(early)
        yield self, plan
        over = 0 if plan is None else -plan.inner.headroom
        if self.spare and 0 < over <= self.machine.inner.size // LITTLE:
            slim = replace(self, spare=self.spare + 2 * over)
            yield slim, slim.plan(early)

    def plan(self, early: bool) -> Plan | None:
        """With a place for everything, whether or not that fits; None where there are no ways."""
        if self.small is None:
            return arranged(self.program, self.machine, self.items, self.here, {})
        if self.ways is None:
            return None
        program = replace(self.program, ops=[w.op for w in self.ways])
        tilings = {at: w.tiling for at, w in enumerate(self.ways) if w.tiling is not None}
        if early:
            tilings = bring_early(program, found_there(program, tilings, self.rooms), self.rooms)
        return arranged(program, self.machine, self.items, self.here, tilings)


@dataclass(frozen=True)
class Candidate:
    """A plan that fits, and the setting that it follows from."""

    setting: Setting
    plan: Plan


class Planned(Protocol):
    """What stands for a plan."""

    @property
    def plan(self) -> Plan: ...


P = TypeVar("P", bound=Planned)


def thriftiest(candidates: Sequence[P]) -> P:
    """Of those that take about the fewest cycles, and then move about the fewest bytes, the one that fills the inner
    level least; but for a sliver of that by few cycles alone."""
    least = min(c.plan.cycles for c in candidates)
    alike = [c for c in candidates if c.plan.cycles <= ALIKE * least]
    moved = min(c.plan.moved for c in alike)
    thrifty = [c for c in alike if c.plan.moved <= HARDLY_MORE * moved]
    used = min(c.plan.inner.used + c.plan.inner.size // SLIVER for c in thrifty)
    near = [c for c in thrifty if c.plan.inner.used <= used]
    cycles = FOR_A_SLIVER * min(c.plan.cycles for c in near)
    return min(
        (c for c in near if c.plan.cycles <= cycles), key=lambda c: (c.plan.inner.used, c.plan.moved, c.plan.cycles)
    )


def fewest(candidates: Iterable[P]) -> P | None:
    """The one whose step takes the fewest cycles, as estimated."""
    return min(candidates, key=lambda c: c.plan.cycles, default=None)
