"""Program and machine to Plan, or the message that says why there is none."""

from __future__ import annotations

from trainlib_deployer.advice.fit import does_not_fit
from trainlib_deployer.far.carried import least_far
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.plan.account import accounted
from trainlib_deployer.plan.layout import fits
from trainlib_deployer.plan.least import leanest
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.strategies import best_layout
from trainlib_deployer.program.ir import Program


def plan(program: Program, target: Machine) -> Plan:
    chosen = best_layout(program, target)
    if not fits(chosen):
        raise does_not_fit(program, target, least_plan)
    return accounted(chosen)


def least_plan(program: Program, target: Machine) -> Plan:
    """The one that needs the least, with a third memory if there is one."""
    found = leanest(program, target)
    if target.far is None or found.outer.fits or target.outer.reserved >= target.outer.size:
        return found
    return leanest(least_far(program, target), target)
