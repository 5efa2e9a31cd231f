"""The least L1 that a step can do with: what the message of one that does not fit counts, and its remedies."""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.plan.best_tiling import Job, prospects
from trainlib_deployer.plan.layout import INNER, fits, tensor_items, untiled
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.residents import SMALL, always, occupied, residents
from trainlib_deployer.plan.setting import Setting
from trainlib_deployer.plan.tiles import Room
from trainlib_deployer.plan.ways import leanest_way
from trainlib_deployer.program.ir import Op, Program

ATTEMPTS = 4  # the arena may lose bytes to gaps


def leanest(program: Program, target: Machine) -> Plan:
    """On one core. Untiled if that fits; else, where L1 is what is short, the plan that needs the least of it."""
    direct = untiled(program, target.leaner(1))
    if fits(direct) or not target.inner.size:
        return direct
    if direct.outer.used > target.outer.size:  # that is what is short: L1 counts as little as it can do with
        return untiled(program.with_ops([leanest_way(op, 1) for op in program.ops]), direct.target)
    small = least_tiled(program, direct.target)
    return small if small is not None and small.inner.used < direct.inner.used else direct


def least_tiled(program: Program, target: Machine) -> Plan | None:
    """Every operation in its smallest tiles, in an L1 just large enough; None where that is not found."""
    size, items = least_l1(program, target), tuple(tensor_items(program))
    for _ in range(ATTEMPTS):
        chip = target.with_memory(INNER, size, reserved=0)
        found = Setting(program, items, chip, min(SMALL)).plan(early=False)
        if found is None:
            return None
        level = found.inner
        if level.used <= size:
            level = replace(level, size=target.inner.size)
            return replace(found, target=target, levels={**found.levels, level.name: level})
        size = level.used
    return None


def least_l1(program: Program, target: Machine) -> int:
    """Stacks, what lives in L1, and the operation that leaves the least beside them."""
    items = tensor_items(program)
    here = residents(program, items, min(SMALL), target)
    used = occupied(items, here, max(len(program.ops), 1), target)
    room = Room(here, 0, target)
    return always(program, here, target) + max(
        u + smallest(program, op, room) for u, op in zip(used, program.ops, strict=True)
    )


def smallest(program: Program, op: Op, room: Room) -> int:
    """Bytes of an operation that reads L2 directly, or of its smallest tiles."""
    op = leanest_way(op, room.cores)
    known = prospects(Job.of(program, op, room))
    best = room.machine.aligned(op.kind.scratch(room.cores))
    for index, way in sorted(enumerate(known.ways), key=lambda one: one[1].least):
        if way.least >= best:
            break
        found = known.draft(index, 0)
        if found is not None:
            best = min(best, found.nbytes)
    return best
