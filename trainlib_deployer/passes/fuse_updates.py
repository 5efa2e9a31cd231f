"""A parameter's gradient made inside the loop that updates it, element by element.

At batch 1 the weight gradient of a linear layer is an outer product. Made on its own it is written to memory and read
back, and takes as much of it as the weights. Joined with the update it is a number in a register; a build that records
keeps it as well, outside of the plan. Gradients that others read too, as clipping by their norm does, and those that
are accumulated stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.passes.fuse_loops import fused
from trainlib_deployer.passes.outer_products import as_loop
from trainlib_deployer.program.expr import Const, Instr
from trainlib_deployer.program.ir import DType, Op, Program, Role, Tensor
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.places import Places

Join = Callable[[Op, Op, Tensor], Op | None]  # of what makes a gradient and the only update that reads it


def fuse_updates(program: Program) -> Program:
    return with_joined(program, joined)


def with_joined(program: Program, join: Join) -> Program:
    """Gradients that nobody else reads made inside of their updates, where `join` has an operation that does both."""
    if any(op.phase == "accumulate" for op in program.ops):
        return program
    ops: list[Op | None] = list(program.ops)
    tensors = dict(program.tensors)
    places = Places.of(program)
    results = set(program.shown)
    for name in dict.fromkeys(t for _, t in program.gradients):
        made, used = places.written.get(name, []), places.read.get(name, [])
        if len(made) != 1 or len(used) != 1 or name in results:
            continue
        producer, update = ops[made[0]], ops[used[0]]
        if producer is None or update is None or places.disturb(producer, made[0], used[0]):
            continue
        joint = join(producer, update, tensors[name])
        if joint is not None:
            ops[made[0]], ops[used[0]] = None, joint
            places.move(producer, made[0], used[0])
            tensors[name] = replace(tensors[name], role=Role.RECORDED)
    return replace(program, tensors=tensors).with_ops([op for op in ops if op is not None])


def joined(producer: Op, update: Op, gradient: Tensor) -> Op | None:
    """One loop that keeps the gradient for the record alone."""
    product = as_loop(producer)
    if not isinstance(product.kind, Loop) or product.kind.reductions or update.phase != "update":
        return None
    joint = fused(replace(product, phase=update.phase), update, True, gradient.numel)
    if joint is None:
        return None
    assert isinstance(joint.kind, Loop)
    kind = replace(joint.kind, recorded=1)
    return replace(joint, kind=by_one_number(kind, {i for i, v in enumerate(joint.reads) if any(v.strides[-1:])}))


def by_one_number(kind: Loop, moving: set[int]) -> Loop:
    """w + s (a b) as w + (s a) b where s and a are the same along a row: one multiplication of an element in place of
    two. The gradient, a b, is for the record alone then."""
    *before, last = kind.body
    if last.op != "fma" or kind.results[0] != kind.at_reductions - 1:
        return kind
    along = kind.depending(moving)
    scale, product = sorted(last.args[:2], key=lambda arg: arg in along)
    if not isinstance(scale, int) or not isinstance(product, int) or product != kind.results[1]:
        return kind
    if product < kind.at_body:  # an operand, as the gradient of a bias is
        return kind
    made = kind.body[product - kind.at_body]
    if made.op != "fma" or made.args[2] != Const(0.0) or sum(step.args.count(product) for step in kind.body) > 1:
        return kind
    number, moved = sorted(made.args[:2], key=lambda arg: arg in along)
    if {scale, number} & along or not isinstance(number, int):
        return kind
    hoisted = kind.at_reductions - 1
    body = (*before, Instr("mul", (scale, number), DType.F32), replace(last, args=(hoisted, moved, last.args[2])))
    return replace(kind, body=body, results=(hoisted + 1, *kind.results[1:]))


def one_sample(program: Program, batch: int) -> Program:
    """The step as it is with one sample instead of `batch`, as far as gradients are concerned that need not be kept."""
    gradients = {name for _, name in program.gradients}

    def one_term(op: Op) -> Op:
        if not isinstance(op.kind, MatMul) or op.kind.k != batch or op.writes[0].tensor not in gradients:
            return op
        a, b, *init = op.reads
        return replace(op, kind=replace(op.kind, k=1), reads=(a.sliced(2, 0, 1), b.sliced(1, 0, 1), *init))

    return fuse_updates(program.with_ops([one_term(op) for op in program.ops]))
