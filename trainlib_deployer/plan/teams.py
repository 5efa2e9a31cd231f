"""How many cores take part in a step, and how deep their stacks are.

Stacks and scratch grow with the cores. Where they leave little of a small L1 for tiles, fewer cores may be faster. On
ResNet8 with 16, 12 and 8 kB, 6, 4 and 3 cores take the fewest cycles, by the estimates that choose tiles: as many as
have their stacks in one half. A network without much scratch does better with all.
"""

from __future__ import annotations

from trainlib_deployer.machine.machine import LEAN_STACK, Machine
from trainlib_deployer.plan.build import INNER, fits, layout
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.tiled import cycles, tiled_layout
from trainlib_deployer.program.ir import Program

AMPLE = 4  # times the stacks of all cores: with so much L1 their depth is no concern


def with_tiles(program: Program, direct: Plan) -> Plan | None:
    """`direct` with tiles, by all cores if their stacks leave enough; None where nothing fits."""
    target = direct.target
    if AMPLE * target.cores * target.stack_bytes <= target.inner.size:
        found = tiled_layout(program, target)
        if found is not None:
            return found
    half = in_half(target)
    plans = (out_of_l1(program, direct, target.leaner(n)) for n in {half, target.cores})
    return min((p for p in plans if p is not None), key=cycles, default=None) or fewer(program, direct, half)


def in_half(target: Machine) -> int:
    """Cores whose stacks take no more than half of L1."""
    return min(target.cores, max(target.inner.size // (2 * LEAN_STACK), 1))


def fewer(program: Program, direct: Plan, than: int) -> Plan | None:
    """The most cores that fit."""
    least = out_of_l1(program, direct, direct.target.leaner(1))
    if least is None:
        return None
    more = (out_of_l1(program, direct, direct.target.leaner(n)) for n in range(than - 1, 1, -1))
    return next((p for p in more if p is not None), least)


def out_of_l1(program: Program, direct: Plan, target: Machine) -> Plan | None:
    """Everything in L1, or else tiles."""
    if tensor_bytes(direct) + target.cores * target.stack_bytes <= target.inner.size:
        whole = layout(program, target, INNER)
        if fits(whole):
            return whole
    return tiled_layout(program, target)


def tensor_bytes(direct: Plan) -> int:
    """What all tensors take together, at the least."""
    scratch = max((b.size for b in direct.scratch.values()), default=0)
    near = direct.inner
    return direct.outer.used or near.used - near.stacks - scratch
