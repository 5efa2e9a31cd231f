"""Interpolation: along each dimension a product with a small fixed matrix; whole repetitions are broadcast copies."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.matmul import product
from trainlib_deployer.ops.registry import covers
from trainlib_deployer.program.ir import View

aten = torch.ops.aten
# forward, backward, spatial rank, whether align_corners is among the arguments
RESIZES = (
    (aten.upsample_nearest1d, aten.upsample_nearest1d_backward, 1, False),
    (aten.upsample_nearest2d, aten.upsample_nearest2d_backward, 2, False),
    (aten._upsample_nearest_exact1d, aten._upsample_nearest_exact1d_backward, 1, False),
    (aten._upsample_nearest_exact2d, aten._upsample_nearest_exact2d_backward, 2, False),
    (aten.upsample_linear1d, aten.upsample_linear1d_backward, 1, True),
    (aten.upsample_bilinear2d, aten.upsample_bilinear2d_backward, 2, True),
    (aten.upsample_bicubic2d, aten.upsample_bicubic2d_backward, 2, True),
    (aten._upsample_bilinear2d_aa, aten._upsample_bilinear2d_aa_backward, 2, True),
    (aten._upsample_bicubic2d_aa, aten._upsample_bicubic2d_aa_backward, 2, True),
    (aten.upsample_nearest3d, aten.upsample_nearest3d_backward, 3, False),
    (aten._upsample_nearest_exact3d, aten._upsample_nearest_exact3d_backward, 3, False),
    (aten.upsample_trilinear3d, aten.upsample_trilinear3d_backward, 3, True),
)


def weights(operation: Any, rank: int, before: int, after: int, settings: Sequence[Any]) -> torch.Tensor:
    """[before, after]: what PyTorch makes of each unit vector, twice side by side: with antialiasing it makes another
    thing of images of one column."""
    others = [2] * (rank - 1)
    units = torch.eye(before).reshape(1, before, before, *[1] * (rank - 1)).expand(1, before, before, *others)
    *corners, scale = settings
    out = operation.default(units.contiguous(), [after, *others], *corners, scale, *[None] * (rank - 1))
    return out.reshape(before, after, -1)[..., 0]  # type: ignore[no-any-return]


def along(b: Builder, x: View, dim: int, matrix: View) -> View:
    """sum_j x[..., j, ...] * matrix[j, i]"""
    after = matrix.shape[1]
    shape = (*x.shape[:dim], after, *x.shape[dim + 1 :])
    if dim == len(x.shape) - 1:
        rows = b.reshape(x, (x.numel // x.shape[dim], x.shape[dim]))
        return b.reshape(product(b, rows, matrix), shape)
    inner = prod(x.shape[dim + 1 :])
    planes = x.numel // (x.shape[dim] * inner)
    seen = b.reshape(x, (planes, x.shape[dim], inner))
    left = matrix.permuted((1, 0)).expanded((planes, after, x.shape[dim]))
    return b.reshape(product(b, left, seen), shape)


def repeats(matrix: torch.Tensor) -> int:
    """How often each element is repeated, if that is all the matrix does; else 0."""
    before, after = matrix.shape
    times = after // before
    same = times * before == after and torch.equal(matrix, torch.eye(before).repeat_interleave(times, 1))
    return times if same else 0


def resized(b: Builder, x: View, matrices: Sequence[torch.Tensor], backward: bool) -> View:
    lead = len(x.shape) - len(matrices)
    for i, matrix in enumerate(matrices):
        dim, times = lead + i, repeats(matrix)
        n = matrix.shape[0]
        paired = (*x.shape[:dim], n, times, *x.shape[dim + 1 :])
        if times == 1:
            continue
        if times and backward:
            x = b.reduce("sum", [dim + 1], b.reshape(x, paired))
        elif times:
            single = b.reshape(x, (*x.shape[: dim + 1], 1, *x.shape[dim + 1 :]))
            spread = b.map(lambda v: v, single.expanded(paired))
            x = b.reshape(spread, (*x.shape[:dim], n * times, *x.shape[dim + 1 :]))
        else:
            fixed = b.constant(matrix.numpy(), "weights")
            x = along(b, x, dim, fixed.permuted((1, 0)) if backward else fixed)
    return x


def matrices_of(operation: Any, rank: int, before: Sequence[int], after: Sequence[int], settings: Any) -> Any:
    scales = settings[len(settings) - rank :]
    corners = settings[: len(settings) - rank]
    each = zip(before, after, scales, strict=True)
    return [weights(operation, rank, n, m, (*corners, scale)) for n, m, scale in each]


def padded(settings: Sequence[Any], rank: int, corners: bool) -> list[Any]:
    """Arguments left at their defaults are None."""
    full = list(settings) + [None] * (rank + corners - len(settings))
    return full


def register(forward: Any, backward: Any, rank: int, corners: bool) -> None:
    @covers(forward.default)
    def resize(b: Builder, x: View, size: list[int], *settings: Any) -> View:
        found = matrices_of(forward, rank, x.shape[-rank:], size, padded(settings, rank, corners))
        out = resized(b, x, found, backward=False)
        return out if out is not x else b.map(lambda v: v, x)

    @covers(backward.default)
    def resize_backward(b: Builder, g: View, size: list[int], old: list[int], *settings: Any) -> View:
        found = matrices_of(forward, rank, old[-rank:], size, padded(settings, rank, corners))
        return resized(b, g, found, backward=True)


for _row in RESIZES:
    register(*_row)
