"""Give all cores work when a reduction has few results: fold blocks first, then the partial results.

The blocks follow from the shapes and types alone, so the bits do not depend on the number of cores. Where the extent is
no multiple of the block, the last block of each row is shorter, and an operation of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from trainlib_deployer.passes.prune_loops import pruned
from trainlib_deployer.program.ir import Op, Program, Role, Shape, Tensor, View, fresh
from trainlib_deployer.program.loop import Loop

FEW = 64  # results that may leave cores idle, or tiles too large
MANY = 512  # elements a result that make a second pass worth its barrier
BLOCK = 128  # the target size of a block
SHARE = 32  # partial results take at most this part of the memory of what is reduced


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


def splittable(kind: Loop) -> bool:
    return prod(kind.parallel) < FEW and prod(kind.folded) >= MANY


@dataclass(frozen=True)
class Blocks:
    """A reduced dimension in `count` blocks of `size` elements; the last one has `last`."""

    count: int
    size: int
    last: int


def halves(op: Op, kind: Loop, tensors: dict[str, Tensor]) -> list[Op]:
    blocks = blocks_of(kind.folded, weight(op, kind))
    outer = tuple(b.count for b in blocks)
    if prod(outer) < 2:
        return [op]
    result = tensors[op.writes[0].tensor]
    parts = []
    for i, r in enumerate(kind.reductions):
        name = fresh(tensors, f"{result.name}.part{i}")  # several operations may write parts of one result
        part = Tensor(name, (*kind.parallel, *outer), r.dtype, Role.SCRATCH, op.layer, result.source)
        tensors[part.name] = part
        parts.append(View.whole(part))
    return [*partial(op, kind, blocks, parts), joining(op, kind, outer, parts)]


def weight(op: Op, kind: Loop) -> int:
    """Bytes of a block's results for each byte of a reduced element, at least one."""
    moving = [
        dtype.size
        for dtype, v in zip(kind.inputs, op.reads, strict=True)
        if all(s for s, e in zip(v.strides[len(kind.parallel) :], kind.folded, strict=True) if e > 1)
    ]
    made = sum(r.dtype.size for r in kind.reductions)
    return max(1, -(-made // max(moving, default=made)))


def blocks_of(folded: Shape, weight: int) -> tuple[Blocks, ...]:
    """Whole inner dimensions, as many as fit into a block, and pieces of the next one; outer ones element by element.

    A divisor of the extent where that makes blocks large enough, else pieces that differ little. One dimension at most
    has a rest."""
    least = SHARE * weight
    target = max(BLOCK, 2 * least)  # halves of blocks still are large enough
    found = []
    for i, extent in enumerate(folded):
        inner = prod(folded[i + 1 :])
        most = max(1, min(target // inner, extent))
        size = next(f for f in range(most, 0, -1) if extent % f == 0)
        if size < most and size * inner < least:
            size = -(-extent // -(-extent // most))
        count = -(-extent // size)
        found.append(Blocks(count, size, extent - (count - 1) * size))
    return tuple(found)


def partial(op: Op, kind: Loop, blocks: tuple[Blocks, ...], parts: list[View]) -> list[Op]:
    """The blocks of full size, then the shorter ones, if any."""
    ragged = next((d for d, b in enumerate(blocks) if b.last != b.size), None)
    if ragged is None:
        return [folding(op, f"{op.name}.blocks", kind, blocks, op.reads, parts)]
    cut, dim = blocks[ragged], len(kind.parallel) + ragged
    full, end = cut.count - 1, (cut.count - 1) * cut.size

    def piece(name: str, number: int, size: int, first: int, start: int) -> Op:
        its = (*blocks[:ragged], Blocks(number, size, size), *blocks[ragged + 1 :])
        reads = tuple(v.sliced(dim, start, start + number * size) for v in op.reads)
        written = [v.sliced(dim, first, first + number) for v in parts]
        return folding(op, f"{op.name}.{name}", kind, its, reads, written)

    return [piece("blocks", full, cut.size, 0, 0), piece("rest", 1, cut.last, full, end)]


def folding(
    op: Op, name: str, kind: Loop, blocks: tuple[Blocks, ...], reads: tuple[View, ...], writes: list[View]
) -> Op:
    """Fold each block to its partial results."""
    rank, base = len(kind.parallel), kind.at_reductions
    sizes = tuple(b.size for b in blocks)
    extents = (*kind.parallel, *(b.count for b in blocks), *sizes)

    def cut(v: View) -> View:
        folded = v.strides[rank:]
        strides = (*v.strides[:rank], *(s * f for s, f in zip(folded, sizes, strict=True)), *folded)
        return View(v.tensor, extents, strides, v.offset)

    loop = replace(
        kind,
        extents=extents,
        reduced=len(sizes),
        post=(),
        results=tuple(range(base, base + len(kind.reductions))),
        outputs=tuple(r.dtype for r in kind.reductions),
    )
    return pruned(replace(op, name=name, kind=loop, reads=tuple(map(cut, reads)), writes=tuple(writes)))


def joining(op: Op, kind: Loop, outer: Shape, parts: list[View]) -> Op:
    """Fold the partial results, then do what the operation does behind its reduction. That may need inputs and values
    of the body, if they do not change along the reduced dimensions."""
    rank, added = len(kind.parallel), len(parts)
    extents = (*kind.parallel, *outer)
    loop = replace(
        kind.moved({i: i + added for i in range(kind.values)}),
        extents=extents,
        reduced=len(outer),
        inputs=(*(r.dtype for r in kind.reductions), *kind.inputs),
        reductions=tuple(replace(r, value=i) for i, r in enumerate(kind.reductions)),
        terms=0,
        recorded=0,
    )
    behind = tuple(View(v.tensor, extents, (*v.strides[:rank], *(0 for _ in outer)), v.offset) for v in op.reads)
    return pruned(replace(op, kind=loop, reads=(*parts, *behind)))
