"""Merge neighbouring dimensions of generated loops that step as one in every operand, and drop extents of one."""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.program.ir import Op, Program, Shape, View
from trainlib_deployer.program.loop import Loop


def coalesce(program: Program) -> Program:
    return program.with_ops([merged(op) if isinstance(op.kind, Loop) else op for op in program.ops])


def merged(op: Op, fold: bool = True) -> Op:
    """Without `fold`, reduced dimensions keep their number and so their order of summation."""
    kind = op.kind
    assert isinstance(kind, Loop)
    parallel = len(kind.parallel)
    rows = [list(v.strides) for v in op.reads]
    written = [list(v.strides) + [0] * kind.reduced for v in op.writes]
    groups = grouped(kind.extents, rows + written, parallel, len(kind.extents) if fold else parallel)
    extents = tuple(product(kind.extents, g) for g in groups)
    reduced = sum(1 for g in groups if g[0] >= parallel)

    def shown(v: View, dims: list[list[int]], shape: Shape) -> View:
        return View(v.tensor, shape, tuple(v.strides[g[-1]] for g in dims), v.offset)

    outer = groups[: len(groups) - reduced]
    return replace(
        op,
        kind=replace(kind, extents=extents, reduced=reduced),
        reads=tuple(shown(v, groups, extents) for v in op.reads),
        writes=tuple(shown(v, outer, extents[: len(outer)]) for v in op.writes),
    )


def product(extents: Shape, group: list[int]) -> int:
    out = 1
    for d in group:
        out *= extents[d]
    return out


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
