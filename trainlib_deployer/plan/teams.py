"""How many cores take part in a step, and how deep their stacks are.

Stacks and scratch grow with the cores. Where L1 is small, what is left beside them for tiles may be so little that
fewer cores are faster, or that only fewer fit: the estimate of the cycles decides.
"""

from __future__ import annotations

from trainlib_deployer.ir import Program
from trainlib_deployer.plan.build import fits, layout
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.tiled import cycles, tiled_layout
from trainlib_deployer.targets import Target

AMPLE = 4  # times the stacks of all cores: with so much L1 they are no concern
PATIENCE = 2  # numbers of cores in a row that are no faster than more of them


def fewest_cycles(program: Program, direct: Plan) -> Plan | None:
    """`direct` with tiles, and with all cores if their stacks leave enough; None where nothing fits."""
    target = direct.target
    if AMPLE * target.cores * target.stack_bytes <= target.l1:
        found = tiled_layout(program, target)
        if found is not None:
            return found
    best = out_of_l1(program, direct, target.leaner(1))
    if best is None:  # more cores need more
        return None
    worse = 0
    for cores in range(target.cores, 1, -1):
        found = out_of_l1(program, direct, target.leaner(cores))
        if found is None:
            continue
        if cycles(found) < cycles(best):
            best, worse = found, 0
        elif (worse := worse + 1) == PATIENCE:
            break
    return best


def out_of_l1(program: Program, direct: Plan, target: Target) -> Plan | None:
    """Everything in L1, or else tiles."""
    if tensor_bytes(direct) + target.cores * target.stack_bytes <= target.l1:
        whole = layout(program, target, tensors_in="L1")
        if fits(whole):
            return whole
    return tiled_layout(program, target)


def tensor_bytes(direct: Plan) -> int:
    """What all tensors take together, at the least."""
    scratch = max((b.size for b in direct.scratch.values()), default=0)
    near = direct.levels["L1"]
    return direct.levels["L2"].used or near.used - near.stacks - scratch
