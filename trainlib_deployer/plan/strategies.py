"""The ways to plan a step, in order: the first that finds a plan is taken.

Stacks and scratch grow with the cores. Where they leave little of a small inner level for tiles, fewer cores may be
faster. On ResNet8 with 16, 12 and 8 kB, 6, 4 and 3 cores take the fewest cycles, by the estimates that choose tiles: as
many as have their stacks in one half. A network without much scratch does better with all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from trainlib_deployer.machine.machine import LEAN_STACK, Machine
from trainlib_deployer.plan.joints import ALIKE
from trainlib_deployer.plan.layout import Item, fits, tensor_items, untiled
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.residents import BESIDE, FEWER, PART, SMALL
from trainlib_deployer.plan.setting import FOR_A_SLIVER, HARDLY_MORE, SLIVER, Candidate, P, Setting, thriftiest
from trainlib_deployer.program.ir import Program

AMPLE = 4  # times the stacks of all cores: with so much room their depth is no concern
PROMISING = 1.03  # times as many cycles before tiles come early, and before loops join: there may be fewer behind it
NEAR = 1.01  # ... before loops join
RIVAL = 1.0025  # ... with what passes by or without it
LEANER = {
    SLIVER: FOR_A_SLIVER,
    64: 1.002,
    32: 1.0025,
    16: 1.004,
}  # such parts of the inner level for so many times the cycles
MANY = 500  # operations: beyond, the fullest moments are not filled to the last byte, and the small may be too many
SLACK = 128  # such a part of the inner level is left by tiles then
MARGINS = (1.0, 0.9, 0.75, 0.5)  # of the bytes left: what the arena may lose to gaps


@dataclass(frozen=True)
class Task:
    """A step and a machine."""

    program: Program
    machine: Machine

    @cached_property
    def direct(self) -> Plan:
        """The plan without tiles, which may not fit."""
        return untiled(self.program, self.machine)

    @cached_property
    def items(self) -> tuple[Item, ...]:
        return tuple(tensor_items(self.program))

    @property
    def hopeless(self) -> bool:
        """Is there no inner level, or more than both levels hold? Of a step with copies whoever wrote it has seen."""
        inner, outer = self.machine.inner, self.machine.outer
        return not inner.size or (not self.program.far and self.direct.outer.used - inner.size > outer.size)

    @property
    def long(self) -> bool:
        return len(self.program.ops) > MANY

    def setting(self, machine: Machine, small: int | None, margin: float = 1.0, passing: int = 0) -> Setting:
        spare = machine.inner.size // SLACK if self.long else 0
        return Setting(self.program, self.items, machine, small, margin, spare=spare, passing=passing)


Strategy = Callable[[Task], Iterator[Candidate]]


def best_layout(program: Program, machine: Machine) -> Plan:
    """The best candidate of the first strategy that has any; without one the plan without tiles, which may not fit."""
    task = Task(program, machine)
    found = () if task.hopeless else (list(strategy(task)) for strategy in STRATEGIES)
    best = next((thriftiest(some) for some in found if some), None)
    return task.direct if best is None else best.plan


def without_tiles(task: Task) -> Iterator[Candidate]:
    """Where all tensors are in the inner level."""
    if not task.program.far and fits(task.direct) and not task.direct.outer.used:
        yield Candidate(task.setting(task.machine, None), task.direct)


def by_all_cores(task: Task) -> Iterator[Candidate]:
    """In tiles, with deep stacks, where those are small beside the inner level."""
    machine = task.machine
    if AMPLE * machine.cores * machine.stack_bytes <= machine.inner.size:
        yield from in_tiles(task, machine)


def by_all_or_half(task: Task) -> Iterator[Candidate]:
    """By all cores, or by as many as have their stacks in one half."""
    for cores in dict.fromkeys((task.machine.cores, in_half(task.machine))):
        yield from by_team(task, cores)


def by_fewer(task: Task) -> Iterator[Candidate]:
    """By the most cores that fit, if one does."""
    half = in_half(task.machine)
    if half == 1:
        return  # it was tried
    least = list(by_team(task, 1))
    more = (list(by_team(task, n)) for n in range(half - 1, 1, -1)) if least else ()
    yield from next((found for found in more if found), least)


STRATEGIES: tuple[Strategy, ...] = (without_tiles, by_all_cores, by_all_or_half, by_fewer)


def in_half(machine: Machine) -> int:
    """Cores whose stacks take no more than half of the inner level."""
    return min(machine.cores, max(machine.inner.size // (2 * LEAN_STACK), 1))


def by_team(task: Task, cores: int) -> Iterator[Candidate]:
    """Everything in the inner level, or else tiles."""
    machine = task.machine.leaner(cores)
    if tensor_bytes(task.direct) + machine.cores * machine.stack_bytes <= machine.inner.size:
        whole = task.setting(machine, None).candidate
        if whole is not None:
            yield whole
            return
    yield from in_tiles(task, machine)


def in_tiles(task: Task, machine: Machine) -> Iterator[Candidate]:
    """With the smallest margin that fits: the best one, with as little of the inner level as takes about as long."""
    found = next((some for margin in MARGINS if (some := of_margin(task, machine, margin)) != []), None)
    if found:
        yield thriftiest([sparing(c) for c in rivals(found)])


def of_margin(task: Task, machine: Machine, margin: float) -> list[Candidate] | None:
    """Of different residents, those that are near the best one with chains, too; None where none is found with any
    larger margin."""
    some = [task.setting(machine, small, margin) for small in SMALL]
    passing = [task.setting(machine, small, margin, PART) for small in BESIDE]
    settings = different([*some, *passing])
    if task.long:
        bare = task.setting(machine, 0, margin, PART)
        settings += [bare] if bare.estimate < min(s.estimate for s in settings) else []
    if all(setting.ways is None for setting in settings):
        return None
    first = promising(settings)
    fewer = task.setting(machine, min(BESIDE), margin, FEWER)
    first += [s for s in promising(different([*settings, fewer])) if s is fewer]
    found = candidates(first) or candidates(s for s in settings if s not in first)
    return found + candidates(s for c in near(found) if (s := c.setting.with_chains) is not None)


def different(settings: Iterable[Setting]) -> list[Setting]:
    """Each set of residents once."""
    found: dict[frozenset[str], Setting] = {}
    for setting in settings:
        found.setdefault(setting.here, setting)
    return list(found.values())


def candidates(settings: Iterable[Setting]) -> list[Candidate]:
    return [found for setting in settings if (found := setting.candidate) is not None]


def promising(settings: Sequence[Setting]) -> list[Setting]:
    """What comes early and what joins may make up for so much; for little where settings differ in what passes by
    alone."""
    least = min(setting.estimate for setting in settings)
    alike = {s.small: min(t.estimate for t in settings if t.small == s.small) for s in settings}
    return [s for s in settings if s.estimate <= min(PROMISING * least, RIVAL * alike[s.small])]


def near(found: Sequence[Candidate]) -> list[Candidate]:
    least = min((c.plan.cycles for c in found), default=0.0)
    return [c for c in found if c.plan.cycles <= NEAR * least]


def rivals(found: Sequence[P]) -> list[P]:
    """The best one, and what hardly takes or moves more: with smaller tiles it may fill the inner level less."""
    best = thriftiest(found).plan
    cycles, moved = HARDLY_MORE * best.cycles, HARDLY_MORE * best.moved
    return [c for c in found if c.plan.cycles <= cycles and c.plan.moved <= moved]


def sparing(best: Candidate) -> Candidate:
    """With smaller and smaller tiles where they are largest, as long as that takes about as long."""
    leanest = best
    for part, times in LEANER.items():
        spare = best.setting.machine.inner.size // part
        if max(leanest.plan.inner.headroom, best.setting.spare) >= spare:
            continue
        leaner = replace(best.setting, spare=spare).candidate
        if leaner is None or leaner.plan.cycles > times * best.plan.cycles:
            break
        if leaner.plan.moved > ALIKE * best.plan.moved:
            break
        leanest = leaner
    return leanest


def tensor_bytes(direct: Plan) -> int:
    """What all tensors take together, at the least."""
    scratch = max((b.size for b in direct.scratch.values()), default=0)
    near = direct.inner
    return direct.outer.used or near.used - near.stacks - scratch
