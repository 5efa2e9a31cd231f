"""Program and machine to Plan, or the message that says why there is none.

A step that does not fit as it is may fit when it is changed: with activations computed twice instead of kept, or with
tensors behind the outer memory. Each change leads to a step that is planned like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from trainlib_deployer.advice.fit import Far, does_not_fit
from trainlib_deployer.far.carried import least_far, planned_far
from trainlib_deployer.far.words import far_words
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.passes import for_machine
from trainlib_deployer.passes.half_saved import half_saved, halves
from trainlib_deployer.passes.within_budget import added_macs, within_budget
from trainlib_deployer.plan.account import accounted
from trainlib_deployer.plan.layout import INNER, OUTER, fits, layout, untiled
from trainlib_deployer.plan.least import leanest
from trainlib_deployer.plan.plan import LevelPlan, Plan
from trainlib_deployer.plan.setting import fewest
from trainlib_deployer.plan.smaller import Recomputed
from trainlib_deployer.plan.strategies import best_layout
from trainlib_deployer.program.ir import Program

Say = Callable[[str], None]


@dataclass(frozen=True)
class Changed:
    """The plan of a step that was changed to fit, and how, in words."""

    plan: Plan
    how: str

    @property
    def words(self) -> str:
        return f"{self.how}; about {self.plan.cycles:,.0f} cycles a step"


def fitted(program: Program, target: Machine, say: Say, far: Far | None = None) -> Plan:
    """Of the step as it is, or of the change that takes the fewest cycles; `far` tells the message what a third memory
    would make fit."""
    tried = CHANGES if home(untiled(program, target)).headroom < 0 else ()
    found = [c for change in tried if (c := change(program, target)) is not None]
    best = fewest(found)
    if best is None:
        return plan(program, target, far)
    say(f"it fits with {best.words}")
    for other in found:
        if other is not best:
            say(f"so it does with {other.words}")
    return accounted(best.plan)


def plan(program: Program, target: Machine, far: Far | None = None) -> Plan:
    chosen = best_layout(for_machine(program, target), target)
    if not fits(chosen):
        raise does_not_fit(program, target, least_plan, far)
    return accounted(chosen)


def least_plan(program: Program, target: Machine) -> Plan:
    """The one that needs the least, with a third memory if there is one."""
    found = leanest(program, target)
    if target.far is None or found.outer.fits or target.outer.reserved >= target.outer.size:
        return found
    return leanest(least_far(program, target), target)


def with_recomputation(program: Program, target: Machine) -> Changed | None:
    smaller = smaller_to_fit(program, target)
    chosen = None if smaller is None else best_layout(smaller, target)
    if smaller is None or chosen is None or not fits(chosen):
        return None
    added, less = len(smaller.ops) - len(program.ops), bytes_less(program, smaller, target)
    done = Recomputed(added, added_macs(smaller), less)
    how = f"{added} operations done twice: {less:,} bytes less, {done.macs:,} more multiply-adds a step"
    return Changed(replace(chosen, recomputed=done), how)


def with_far(program: Program, target: Machine) -> Changed | None:
    found = planned_far(program, target, best_layout)
    return None if found is None else Changed(found, far_words(found))


def offer_halves(program: Program, taken: Plan, say: Say) -> None:
    """What half precision would take where a step was changed to fit. It changes results, so nobody chooses it."""
    changed, already = taken.program.far or taken.recomputed.operations, taken.saved.tensors or halves(program)
    kept = half_saved(program) if changed and not already else program
    found = best_layout(kept, taken.target) if halves(kept) and not already else None
    if found is not None and fits(found):
        count = len(halves(kept))
        say(f"so it would with {Changed(found, f'--saved fp16, 11 bits of {count:,} tensors that are kept').words}")


CHANGES: tuple[Callable[[Program, Machine], Changed | None], ...] = (with_recomputation, with_far)


def home(direct: Plan) -> LevelPlan:
    """The level that all tensors of a plan without tiles live in."""
    return direct.outer if direct.target.outer.size else direct.inner


def smaller_to_fit(program: Program, target: Machine) -> Program | None:
    """With so many operations run twice that it fits, or as little is missing as can be; None where it fits as it is,
    or nothing helps."""
    level = home(untiled(program, target))
    if not 0 < -level.headroom < level.arena:
        return None
    smaller = within_budget(program, level.arena + level.headroom)
    return None if smaller is program else smaller


def bytes_less(program: Program, smaller: Program, target: Machine) -> int:
    """Where both steps are planned alike: without tiles, in the level that the first one needs."""
    level = OUTER if untiled(program, target).outer.used else INNER
    before, after = (layout(p, target, level).levels[target.memories[level].name].used for p in (program, smaller))
    return before - after
