"""Give all cores work when a reduction has few results: fold blocks first, then the partial results.

The blocks follow from the shape alone, so the bits do not depend on the number of cores.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from trainlib_deployer.passes.prune_loops import pruned
from trainlib_deployer.program.expr import Reduction
from trainlib_deployer.program.ir import DType, Op, Program, Role, Tensor, View
from trainlib_deployer.program.loop import Loop

FEW = 64  # results that may leave cores idle, or tiles too large
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
    behind = inputs_behind(kind)
    dtypes: tuple[DType, ...] = (*(r.dtype for r in kind.reductions), *(kind.inputs[i] for i in behind))
    folds = tuple(Reduction(r.op, i, r.dtype) for i, r in enumerate(kind.reductions))
    move = {base + i: len(dtypes) + i for i in range(count + len(kind.post))}
    move |= {i: count + k for k, i in enumerate(behind)}
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
    shown = tuple(View(v.tensor, second.extents, (*v.strides[:rank], *(0 for _ in outer)), v.offset) for v in op.reads)
    return [
        pruned(replace(op, name=f"{op.name}.blocks", kind=first, reads=tuple(map(cut, op.reads)), writes=tuple(views))),
        replace(op, kind=second, reads=(*views, *(shown[i] for i in behind))),
    ]


def splittable(kind: Loop) -> bool:
    return prod(kind.parallel) < FEW and prod(kind.folded) >= MANY


def inputs_behind(kind: Loop) -> list[int]:
    """Inputs that the part behind the reduction reads; they do not change along the reduced dimensions."""
    base = len(kind.inputs)
    used = {a for s in kind.post for a in s.args if isinstance(a, int)} | set(kind.results)
    assert not any(base <= a < base + len(kind.body) for a in used), (
        "the part behind a reduction sees no single element"
    )
    return sorted(a for a in used if a < base)


def block_of(extent: int, inner: int) -> int:
    """The largest divisor of `extent` that keeps a block near BLOCK elements."""
    target = max(1, BLOCK // inner)
    return next(f for f in range(min(target, extent), 0, -1) if extent % f == 0)
