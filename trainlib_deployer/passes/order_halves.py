"""Give activations half precision and the step an order, in the sequence that needs less memory.

Types that change first let an order go by the sizes of halves; the gradients of parameters, which stay float, are then
its largest tensors, and it goes round these. An order of floats goes by what there is most of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainlib_deployer.passes.early_masks import compared_last, early_masks
from trainlib_deployer.passes.in_parts import in_parts
from trainlib_deployer.passes.reorder import fullest, reorder
from trainlib_deployer.passes.within_budget import within_budget
from trainlib_deployer.program.ir import Program

Step = Callable[[Program], Program]
ENOUGH = 0.55  # of what the step takes as floats, 55 %: what is less than that is not worth cycles


def halves_in_order(program: Program, smaller: Step, behind: Sequence[Step]) -> Program:
    """`smaller` changes the types; `behind`: what comes before anything is done twice, or gradients are taken apart,
    which is the last resort."""
    floats = ordered(program)
    found = order_halves(program, floats, smaller)
    for step in behind:
        found, floats = step(found), step(floats)
    return until_enough(found, fullest(floats))


def until_enough(program: Program, floats: int) -> Program:
    """With as much done twice, or taken apart, as it takes; `floats`: bytes of the same as floats."""
    enough = ENOUGH * floats
    return compared_last(in_parts(within_budget(program, int(enough), most_macs=0), enough), enough)


def order_halves(program: Program, floats: Program, smaller: Step) -> Program:
    """`floats`: the same in order."""
    return min((ordered(smaller(p)) for p in (program, floats)), key=fullest)


def ordered(program: Program) -> Program:
    return early_masks(reorder(program))
