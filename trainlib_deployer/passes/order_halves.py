"""Give activations half precision and the step an order, in the sequence that needs less memory.

Types that change first let an order go by the sizes of halves; the gradients of parameters, which stay float, are then
its largest tensors, and it goes round these. An order of floats goes by what there is most of.
"""

from __future__ import annotations

from collections.abc import Callable

from trainlib_deployer.passes.early_masks import early_masks
from trainlib_deployer.passes.reorder import fullest, reorder
from trainlib_deployer.program.ir import Program


def order_halves(program: Program, smaller: Callable[[Program], Program]) -> Program:
    """`smaller` changes the types."""
    return min((ordered(smaller(p)) for p in (program, ordered(program))), key=fullest)


def ordered(program: Program) -> Program:
    return early_masks(reorder(program))
