"""The ways to plan a step, in order: the first that finds a plan is taken.

Stacks and scratch grow with the cores. Where they leave little of a small inner level for tiles, fewer cores may be
faster. On ResNet8 with 16, 12 and 8 kB, 6, 4 and 3 cores take the fewest cycles, by the estimates that choose tiles: as
many as have their stacks in one half. A network without much scratch does better with all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trainlib_deployer.machine.machine import LEAN_STACK, Machine
from trainlib_deployer.plan.layout import INNER, fits, layout, untiled
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.tiled import cycles, tiled_layout
from trainlib_deployer.program.ir import Program

AMPLE = 4  # times the stacks of all cores: with so much room their depth is no concern


@dataclass(frozen=True)
class Task:
    """A step, a machine, and the plan without tiles."""

    program: Program
    machine: Machine
    direct: Plan


Strategy = Callable[[Task], Plan | None]


def best_layout(program: Program, machine: Machine) -> Plan:
    """What the first strategy that has an answer finds; it may not fit."""
    task = Task(program, machine, untiled(program, machine))
    found = (strategy(task) for strategy in STRATEGIES)
    return next((plan for plan in found if plan is not None), task.direct)


def without_tiles(task: Task) -> Plan | None:
    """Where all fits the inner level, where there is none, or where nothing that moves into it would help."""
    machine, direct = task.machine, task.direct
    hopeless = direct.outer.used - machine.inner.size > machine.outer.size
    if hopeless or not machine.inner.size or (fits(direct) and not direct.outer.used):
        return direct
    return None


def by_all_cores(task: Task) -> Plan | None:
    """In tiles, with deep stacks, where those are small beside the inner level."""
    machine = task.machine
    if AMPLE * machine.cores * machine.stack_bytes > machine.inner.size:
        return None
    return tiled_layout(task.program, machine)


def by_all_or_half(task: Task) -> Plan | None:
    """In tiles, by all cores or by as many as have their stacks in one half, whichever takes fewer cycles."""
    plans = (with_team(task, n) for n in {in_half(task.machine), task.machine.cores})
    return min((p for p in plans if p is not None), key=cycles, default=None)


def by_fewer(task: Task) -> Plan | None:
    """In tiles, by the most cores that fit, if one does."""
    half = in_half(task.machine)
    least = with_team(task, 1) if half > 1 else None  # else it was tried
    if least is None:
        return None
    more = (with_team(task, n) for n in range(half - 1, 1, -1))
    return next((p for p in more if p is not None), least)


STRATEGIES: tuple[Strategy, ...] = (without_tiles, by_all_cores, by_all_or_half, by_fewer)


def in_half(machine: Machine) -> int:
    """Cores whose stacks take no more than half of the inner level."""
    return min(machine.cores, max(machine.inner.size // (2 * LEAN_STACK), 1))


def with_team(task: Task, cores: int) -> Plan | None:
    """Everything in the inner level, or else tiles."""
    machine = task.machine.leaner(cores)
    if tensor_bytes(task.direct) + machine.cores * machine.stack_bytes <= machine.inner.size:
        whole = layout(task.program, machine, INNER)
        if fits(whole):
            return whole
    return tiled_layout(task.program, machine)


def tensor_bytes(direct: Plan) -> int:
    """What all tensors take together, at the least."""
    scratch = max((b.size for b in direct.scratch.values()), default=0)
    near = direct.inner
    return direct.outer.used or near.used - near.stacks - scratch
