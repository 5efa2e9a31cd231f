"""A step trained by plain SGD, as far as memory is concerned: what an optimizer without state would take."""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.passes.store_updates import store_updates
from trainlib_deployer.program.expr import Instr
from trainlib_deployer.program.ir import LEARNING_RATE, DType, Op, Program, View
from trainlib_deployer.program.loop import Loop


def by_plain_sgd(program: Program, states: set[str]) -> Program:
    """Updates without states, which products may store; as far as memory is concerned."""
    slim = dropped(program, states)
    gradients = {t for _, t in program.gradients}
    return store_updates(slim.with_ops([plain_update(op, gradients) for op in slim.ops]))


def plain_update(op: Op, gradients: set[str]) -> Op:
    """weight - rate * gradient, if it updates one weight by one gradient."""
    given = [v for v in op.reads if v.tensor in gradients]
    if op.phase != "update" or not isinstance(op.kind, Loop) or len(op.writes) != 1 or len(given) != 1:
        return op
    (weight,), number = op.writes, DType.F32
    body = (Instr("neg", (2,), number), Instr("fma", (3, 1, 0), number))
    kind = Loop(weight.shape, 0, (number,) * 3, body, (), (), (4,), (number,))
    return replace(op, kind=kind, reads=(weight, given[0], View(LEARNING_RATE, weight.shape, (0,) * len(weight.shape))))


def dropped(program: Program, names: set[str]) -> Program:
    """Without persistent tensors, as far as memory is concerned."""
    ops = [
        replace(
            op,
            reads=tuple(v for v in op.reads if v.tensor not in names),
            writes=tuple(v for v in op.writes if v.tensor not in names),
        )
        for op in program.ops
        if any(v.tensor not in names for v in (*op.reads, *op.writes))
    ]
    return replace(program, ops=ops, tensors={n: t for n, t in program.tensors.items() if n not in names})
