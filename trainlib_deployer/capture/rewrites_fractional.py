"""Fractional max pooling: windows of one size at places that are drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F

from trainlib_deployer.capture.extents import per_dimension

Tensor = torch.Tensor


def pooled(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
    *,
    dims: int,
) -> tuple[Tensor, Tensor]:
    """The largest of each window, and where in the image it was."""
    x = input if input.dim() == dims + 2 else input.unsqueeze(0)
    kernel, extents = per_dimension(kernel_size, dims), x.shape[2:]
    if output_size is None:
        ratios = per_dimension(output_ratio, dims)
        sizes = [int(n * r) for n, r in zip(extents, ratios, strict=True)]
    else:
        sizes = per_dimension(output_size, dims)
    samples = torch.rand(*x.shape[:2], dims) if _random_samples is None else _random_samples[: len(x)]
    if dims == 2:
        samples = samples.flip(-1)  # PyTorch's first one is for the columns
    places = torch.zeros(*x.shape[:2], *[1] * dims, dtype=torch.int64)
    for d, (n, size, width) in enumerate(zip(extents, sizes, kernel, strict=True)):
        rows = (starts(samples.select(-1, d), n, size, width).unsqueeze(-1) + torch.arange(width)).flatten(2)
        rows = rows.view(*x.shape[:2], *(-1 if i == d else 1 for i in range(dims)))
        shape = [size * width if i == d else x.shape[2 + i] for i in range(dims)]
        x = x.gather(2 + d, rows.expand(*x.shape[:2], *shape))
        places = places * n + rows
    found = windows(x, sizes, kernel)
    values, which = found.max(-1)
    indices = windows(places.expand_as(x), sizes, kernel).gather(-1, which.unsqueeze(-1)).squeeze(-1)
    return (values, indices) if input.dim() == dims + 2 else (values.squeeze(0), indices.squeeze(0))


def starts(sample: Tensor, extent: int, size: int, width: int) -> Tensor:
    """[batch, channels, size]: about evenly spread from the first to the last possible place."""
    last = torch.full((*sample.shape, 1), extent - width)
    if size == 1:
        return last
    step = (extent - width) / (size - 1)
    shifted = (torch.arange(size - 1) + sample.unsqueeze(-1)) * step
    return torch.cat([shifted.long() - (sample * step).long().unsqueeze(-1), last], -1)


def windows(x: Tensor, sizes: Sequence[int], kernel: Sequence[int]) -> Tensor:
    """[batch, channels, *sizes, all of a window]."""
    pairs = [n for pair in zip(sizes, kernel, strict=True) for n in pair]
    dims = len(sizes)
    order = (0, 1, *(2 + 2 * d for d in range(dims)), *(3 + 2 * d for d in range(dims)))
    return x.reshape(*x.shape[:2], *pairs).permute(order).flatten(2 + dims)


def rewrite(dims: int, indices: bool) -> Callable[..., Any]:
    def fractional_max_pool(*args: Any, **kwargs: Any) -> Any:
        found = pooled(*args, **kwargs, dims=dims)
        return found if indices else found[0]

    return fractional_max_pool


REWRITES: dict[Any, Callable[..., Any]] = {
    F.fractional_max_pool2d: rewrite(2, False),
    F.fractional_max_pool2d_with_indices: rewrite(2, True),
    F.fractional_max_pool3d: rewrite(3, False),
    F.fractional_max_pool3d_with_indices: rewrite(3, True),
}
