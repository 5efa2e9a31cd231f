"""Pooling that tells where its maxima were, and the way back."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F

from trainlib_deployer.capture.extents import per_dimension
from trainlib_deployer.torch_types import LEAST

Tensor = torch.Tensor
NOWHERE = -1


def pooled_with_indices(x: Tensor, dims: int, places: Sequence[Sequence[Sequence[int]]]) -> tuple[Tensor, Tensor]:
    """Maxima and their places in the flat image; `places` has, for each dimension, what each window reads."""
    extents = x.shape[-dims:]
    windows = [list(itertools.product(*choice)) for choice in itertools.product(*places)]
    widest = max(map(len, windows))
    table = [[flat_place(point, extents) for point in window] for window in windows]
    inside = [[place for place in row if place != NOWHERE] for row in table]  # the first of equal ones, of these
    read = torch.tensor([row + [NOWHERE] * (widest - len(row)) for row in inside])
    lowest = -math.inf if x.is_floating_point() else LEAST
    values = x.flatten(-dims)[..., read.clamp(min=0)].masked_fill(read == NOWHERE, lowest)
    largest, which = values.max(-1)
    found = read.expand(values.shape).gather(-1, which.unsqueeze(-1)).squeeze(-1)
    shape = [len(p) for p in places]
    return largest.reshape(*x.shape[:-dims], *shape), found.reshape(*x.shape[:-dims], *shape)


def flat_place(point: Sequence[int], extents: Sequence[int]) -> int:
    """NOWHERE for a point of the padding."""
    at = 0
    for i, n in zip(point, extents, strict=True):
        if not 0 <= i < n:
            return NOWHERE
        at = at * n + i
    return at


def max_pool_with_indices(dims: int) -> Callable[..., tuple[Tensor, Tensor]]:
    def rewritten(
        x: Tensor,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = True,
    ) -> tuple[Tensor, Tensor]:
        kernel, around, steps = (per_dimension(v, dims) for v in (kernel_size, padding, dilation))
        strides = per_dimension(stride, dims) if stride else kernel
        settings = zip(x.shape[-dims:], kernel, strides, around, steps, strict=True)
        return pooled_with_indices(x, dims, [windows_along(*s, ceil_mode) for s in settings])

    return rewritten


def windows_along(extent: int, kernel: int, stride: int, around: int, step: int, ceil_mode: bool) -> list[list[int]]:
    room = extent + 2 * around - step * (kernel - 1) - 1
    count = room // stride + 1
    if ceil_mode and room % stride and count * stride < extent + around:  # no window begins in the padding behind
        count += 1
    return [[i * stride - around + k * step for k in range(kernel)] for i in range(count)]


def adaptive_max_pool(dims: int) -> Callable[..., tuple[Tensor, Tensor]]:
    def rewritten(x: Tensor, output_size: Any, return_indices: bool = True) -> tuple[Tensor, Tensor]:
        wanted = [output_size] * dims if output_size is None or isinstance(output_size, int) else list(output_size)
        sizes = [(n, n if w is None else w) for w, n in zip(wanted, x.shape[-dims:], strict=True)]
        places = [[list(range(i * n // w, -(-(i + 1) * n // w))) for i in range(w)] for n, w in sizes]
        return pooled_with_indices(x, dims, places)

    return rewritten


def max_unpool(dims: int) -> Callable[..., Tensor]:
    def rewritten(
        x: Tensor,
        indices: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Sequence[int] | None = None,
    ) -> Tensor:
        kernel, around = per_dimension(kernel_size, dims), per_dimension(padding, dims)
        strides = per_dimension(stride, dims) if stride else kernel
        size = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(x.shape[-dims:], strides, around, kernel, strict=True)]
        if output_size is not None:
            size = list(output_size)[-dims:]
        empty = x.new_zeros(*x.shape[:-dims], math.prod(size))
        filled = empty.scatter(-1, indices.flatten(-dims), x.flatten(-dims))
        return filled.reshape(*x.shape[:-dims], *size)

    return rewritten


REWRITES: dict[Any, Callable[..., Any]] = {
    F.max_pool1d_with_indices: max_pool_with_indices(1),
    F.max_pool2d_with_indices: max_pool_with_indices(2),
    F.max_pool3d_with_indices: max_pool_with_indices(3),
    F.adaptive_max_pool1d_with_indices: adaptive_max_pool(1),
    F.adaptive_max_pool2d_with_indices: adaptive_max_pool(2),
    F.adaptive_max_pool3d_with_indices: adaptive_max_pool(3),
    F.adaptive_max_pool3d: lambda *args, **kwargs: adaptive_max_pool(3)(*args, **kwargs)[0],
    F.max_unpool1d: max_unpool(1),
    F.max_unpool2d: max_unpool(2),
    F.max_unpool3d: max_unpool(3),
}
