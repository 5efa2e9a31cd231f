"""Give all cores work when a reduction has few results: fold blocks first, then the partial results.

The blocks follow from the shape alone, so the bits do not depend on the number of cores.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from trainlib_deployer.ir import DType, Op, Program, Role, Tensor, View
from trainlib_deployer.ops.expr import Reduction
from trainlib_deployer.ops.loop import Loop

FEW = 8  # results that leave cores idle
MANY = 512  # elements a result that make a second pass worth its barrier
BLOCK = 128  # the target size of a block


def split_reductions(program: Program) -> Program:
    tensors = dict(program.tensors)
    ops: list[Op] = []
    for op in program.ops:
        kind = op.kind
        if isinstance(kind, Loop) and kind.reductions and splittable(kind):
            ops += halves(op, kind, tensors)
        else:
            ops.append(op)
    return replace(program, tensors=tensors).with_ops(ops)


def halves(op: Op, kind: Loop, tensors: dict[str, Tensor]) -> list[Op]:
    rank = len(kind.parallel)
    factors = [block_of(e, prod(kind.folded[i + 1 :])) for i, e in enumerate(kind.folded)]
    if prod(e // f for e, f in zip(kind.folded, factors, strict=True)) < 2:
        return [op]
    outer = tuple(e // f for e, f in zip(kind.folded, factors, strict=True))
    extents = (*kind.parallel, *outer, *factors)
    base, count = len(kind.inputs) + len(kind.body), len(kind.reductions)
    parts = []
    for i, r in enumerate(kind.reductions):
        source = tensors[op.writes[0].tensor]
        part = Tensor(
            f"{op.writes[0].tensor}.part{i}", (*kind.parallel, *outer), r.dtype, Role.SCRATCH, op.layer, source.source
        )
        tensors[part.name] = part
        parts.append(part)

    def cut(v: View) -> View:
        folded = v.strides[rank:]
        strides = (*v.strides[:rank], *(s * f for s, f in zip(folded, factors, strict=True)), *folded)
        return View(v.tensor, extents, strides, v.offset)

    first = Loop(
        extents,
        len(factors),
        kind.inputs,
        kind.body,
        kind.reductions,
        (),
        tuple(range(base, base + count)),
        tuple(r.dtype for r in kind.reductions),
    )
    dtypes: tuple[DType, ...] = tuple(r.dtype for r in kind.reductions)
    folds = tuple(Reduction(r.op, i, r.dtype) for i, r in enumerate(kind.reductions))
    move = {base + i: count + i for i in range(count + len(kind.post))}
    post = tuple(replace(s, args=tuple(move[a] if isinstance(a, int) else a for a in s.args)) for s in kind.post)
    second = Loop(
        (*kind.parallel, *outer),
        len(outer),
        dtypes,
        (),
        folds,
        post,
        tuple(move[r] for r in kind.results),
        kind.outputs,
    )
    views = [View.whole(t) for t in parts]
    return [
        replace(op, name=f"{op.name}.blocks", kind=first, reads=tuple(map(cut, op.reads)), writes=tuple(views)),
        replace(op, kind=second, reads=tuple(views)),
    ]


def splittable(kind: Loop) -> bool:
    return prod(kind.parallel) < FEW and prod(kind.folded) >= MANY and not uses_inputs(kind)


def uses_inputs(kind: Loop) -> bool:
    """True when the part behind the reduction reads more than its results."""
    base = len(kind.inputs) + len(kind.body)
    used = {a for s in kind.post for a in s.args if isinstance(a, int)} | set(kind.results)
    return any(a < base for a in used)


def block_of(extent: int, inner: int) -> int:
    """The largest divisor of `extent` that keeps a block near BLOCK elements."""
    target = max(1, BLOCK // inner)
    return next(f for f in range(min(target, extent), 0, -1) if extent % f == 0)
