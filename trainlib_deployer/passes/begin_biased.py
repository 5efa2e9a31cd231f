"""Begin a product with the bias that a loop adds to all of its rows.

So do the linear layers of two dimensions; that of three, as attention has one for queries, keys and values, multiplies
first, and adds then. The sums are made in the order in which those of a linear layer are.
"""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.passes.add_up import begins_anew
from trainlib_deployer.program.expr import Instr
from trainlib_deployer.program.ir import DType, Op, Program, View
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.places import Places
from trainlib_deployer.program.strides import row_major


def begin_biased(program: Program) -> Program:
    ops: list[Op | None] = list(program.ops)
    places = Places.of(program)
    kept = {*program.shown, *(t for _, t in program.gradients)}
    for at, op in enumerate(program.ops):
        if not adds_two(op):
            continue
        for result, bias in (op.reads, op.reads[::-1]):
            made = places.written.get(result.tensor, [])
            if len(made) != 1 or result.tensor in kept or places.read[result.tensor] != [at]:
                continue
            product = ops[made[0]]
            begun = product and biased(program, product, op, result, bias)
            if begun and product and not places.disturb(op, made[0], at):
                ops[made[0]], ops[at] = begun, None
                break
    return program.with_ops([op for op in ops if op is not None])


def adds_two(op: Op) -> bool:
    """A loop that adds two tensors, and does nothing else."""
    kind = op.kind
    if not isinstance(kind, Loop) or kind.reductions or kind.post or kind.recorded:
        return False
    return len(op.reads) == 2 and len(op.writes) == 1 and kind.body == (Instr("add", (0, 1), DType.F32),)


def biased(program: Program, product: Op, added: Op, result: View, bias: View) -> Op | None:
    """The product that begins with a parameter, the same for all rows."""
    kind, written = product.kind, added.writes[0]
    if not isinstance(kind, MatMul) or not begins_anew(program, product, added):
        return None
    plain = written.covers(program.tensors[written.tensor]) and result.covers(program.tensors[result.tensor])
    shape = (kind.batch, kind.m, kind.n)
    row = bias.reshaped(shape)
    if not plain or row is None or row.strides[:2] != (0, 0) or not program.tensors[bias.tensor].role.persistent:
        return None
    fused = (*(product.fused or (product.name,)), *(added.fused or (added.name,)))
    return replace(
        product,
        kind=replace(kind, init=True),
        reads=(*product.reads, row),
        writes=(View(written.tensor, shape, row_major(shape)),),
        fused=tuple(dict.fromkeys(fused)),
    )
