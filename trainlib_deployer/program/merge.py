"""Neighbouring dimensions of a loop that step as one in every operand, as one; extents of one dropped."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from trainlib_deployer.program.ir import Shape, View
from trainlib_deployer.program.loop import Loop

Views = tuple[View, ...]


def merged(kind: Loop, reads: Views, writes: Views, fold: bool = True) -> tuple[Loop, Views, Views]:
    """Without `fold`, reduced dimensions keep their number and so their order of summation."""
    parallel = len(kind.parallel)
    rows = [list(v.strides) for v in reads]
    written = [list(v.strides) + [0] * kind.reduced for v in writes]
    groups = grouped(kind.extents, rows + written, parallel, len(kind.extents) if fold else parallel)
    extents = tuple(prod(kind.extents[d] for d in g) for g in groups)
    reduced = sum(1 for g in groups if g[0] >= parallel)

    def shown(v: View, dims: list[list[int]], shape: Shape) -> View:
        return View(v.tensor, shape, tuple(v.strides[g[-1]] for g in dims), v.offset)

    outer = groups[: len(groups) - reduced]
    return (
        replace(kind, extents=extents, reduced=reduced),
        tuple(shown(v, groups, extents) for v in reads),
        tuple(shown(v, outer, extents[: len(outer)]) for v in writes),
    )


def in_few_rows(kind: Loop, reads: Views, writes: Views) -> tuple[Loop, Views, Views]:
    """The outer dimensions of a loop without sums as its first result has them in memory, where more of them then step
    as one: a channel of all images, image by image."""
    if kind.reduced or len(kind.extents) < 3:
        return kind, reads, writes
    order = sorted(range(len(kind.extents) - 1), key=lambda d: -writes[0].strides[d])
    order.append(len(order))
    turned = replace(kind, extents=tuple(kind.extents[d] for d in order))

    def seen(views: Views) -> Views:
        return tuple(View(v.tensor, turned.extents, tuple(v.strides[d] for d in order), v.offset) for v in views)

    before, after = merged(kind, reads, writes), merged(turned, seen(reads), seen(writes))
    fewer = len(after[0].extents) < len(before[0].extents)
    return (turned, seen(reads), seen(writes)) if fewer else (kind, reads, writes)


def grouped(extents: Shape, strides: list[list[int]], parallel: int, limit: int) -> list[list[int]]:
    """Runs of dimensions below `limit` that every operand steps through as one; parallel and reduced ones never mix."""
    groups: list[list[int]] = []
    for d, extent in enumerate(extents):
        if extent == 1:
            continue
        if groups:
            last = groups[-1][-1]
            same_side = (last < parallel) == (d < parallel)
            if same_side and d < limit and all(s[last] == s[d] * extent for s in strides):
                groups[-1].append(d)
                continue
        groups.append([d])
    return groups
