"""A matrix product of one term a sum as a loop that others may join: one element of either operand, multiplied.

As a kernel it writes floats that the next loop reads back.
"""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.program.expr import Const, Instr
from trainlib_deployer.program.ir import DType, Op, View
from trainlib_deployer.program.loop import Loop


def as_loop(op: Op) -> Op:
    """One that writes its result in order, if it is such a product."""
    if not isinstance(op.kind, MatMul) or op.kind.k != 1 or op.kind.init or op.kind.accumulate:
        return op
    a, b = op.reads
    shape = (op.kind.batch, op.kind.m, op.kind.n)
    views = (spread(a, shape), spread(b, shape), op.writes[0])
    order = (0, 2, 1) if not op.writes[0].contiguous else (0, 1, 2)
    left, right, out = (v.permuted(order) for v in views)
    # As the kernel does: the sum begins with zero, which drops the sign of a zero.
    body = (Instr("fma", (0, 1, Const(0.0)), DType.F32),)
    kind = Loop(out.shape, 0, (DType.F32, DType.F32), body, (), (), (2,), (DType.F32,), terms=1)
    return replace(op, kind=kind, reads=(left, right), writes=(out,))


def spread(view: View, shape: tuple[int, ...]) -> View:
    """An operand with one term, at every element of the product."""
    strides = tuple(0 if e == 1 else s for e, s in zip(view.shape, view.strides, strict=True))
    return View(view.tensor, shape, strides, view.offset)
