"""Reductions into places, selections by rank, and parts that are left of a tensor."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from trainlib_deployer.capture import rewrites_selection

aten = torch.ops.aten
Tensor = torch.Tensor
START = {"amax": -math.inf, "amin": math.inf, "prod": 1.0}


def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    """Sums by adding; extremes and products among all that go to one place."""
    if not x.is_floating_point() and reduce != "sum":
        return NotImplemented
    if not x.dim():
        x, index, source = x.reshape(1), index.reshape(1), source.reshape(1)
        found: Tensor = scatter_reduce(x, 0, index, source, reduce, include_self=include_self)
        return found.reshape(())
    source = source[tuple(slice(n) for n in index.shape)]
    if not include_self:
        touched = torch.zeros_like(x).scatter_add(dim, index, torch.ones_like(source)) > 0
        kept, x = x, x.masked_fill(touched, START.get(reduce, 0.0))
    if reduce == "sum":
        return x.scatter_add(dim, index, source)
    if reduce == "mean":
        first = torch.ones_like(x) if include_self else (~touched).to(x.dtype)
        return x.scatter_add(dim, index, source) / first.scatter_add(dim, index, torch.ones_like(source))
    if not include_self:
        return torch.where(touched, gathered(x, dim, index, source, reduce), kept)
    return gathered(x, dim, index, source, reduce)


def gathered(x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str) -> Tensor:
    """Every place looks at all elements: [..., places, elements] along the last dimensions."""
    part = x[tuple(slice(n if d != dim % x.dim() else None) for d, n in enumerate(index.shape))]
    at, given, own = (v.movedim(dim, -1) for v in (index, source, part))
    here = at.unsqueeze(-2) == torch.arange(own.shape[-1]).unsqueeze(-1)
    all_given = torch.where(here, given.unsqueeze(-2), START[reduce])
    together = torch.cat([own.unsqueeze(-1), all_given], -1)
    done: Tensor = getattr(together, reduce)(-1)
    done = done.movedim(-1, dim)
    for d, n in enumerate(part.shape):
        if n < x.shape[d]:
            done = torch.cat([done, x.narrow(d, n, x.shape[d] - n)[tuple(slice(m) for m in done.shape[:d])]], d)
    return done


def index_reduce(x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True) -> Any:
    """Whole slices, each to its place."""
    if not x.is_floating_point():
        return NotImplemented
    if not source.dim():
        return scatter_reduce(x, 0, index.reshape(()), source, reduce, include_self=include_self)
    shape = [1] * source.dim()
    shape[dim] = -1
    return scatter_reduce(x, dim, index.reshape(shape).expand(source.shape), source, reduce, include_self=include_self)


def repeat_interleave(repeats: Tensor, *, output_size: int | None = None) -> Any:
    """Which element each place repeats: so many end before it."""
    if output_size is None:
        return NotImplemented
    return (repeats.cumsum(0) <= torch.arange(output_size).unsqueeze(-1)).sum(-1)


def median(x: Tensor) -> Tensor:
    """Of all elements."""
    found: Tensor = rewrites_selection.median(x.flatten(), 0)[0]
    return found


def nanmedian(x: Tensor) -> Tensor:
    found: Tensor = rewrites_selection.nanmedian(x.flatten(), 0)[0]
    return found


def resize(x: Tensor, size: Sequence[int], *, memory_format: torch.memory_format | None = None) -> Any:
    """No more than there is: nobody knows what would lie behind."""
    count = math.prod(size)
    if count > x.numel() or not x.is_contiguous() or memory_format not in (None, torch.contiguous_format):
        return NotImplemented
    return x.flatten()[:count].reshape(size).clone()


def resize_as(x: Tensor, of: Tensor, *, memory_format: torch.memory_format | None = None) -> Any:
    return resize(x, of.shape, memory_format=memory_format)


TABLE: dict[Any, Callable[..., Any]] = {
    aten.scatter_reduce.two: scatter_reduce,
    aten.index_reduce.default: index_reduce,
    aten.median.default: median,
    aten.nanmedian.default: nanmedian,
    aten.resize.default: resize,
    aten.resize_as.default: resize_as,
    aten.repeat_interleave.Tensor: repeat_interleave,
}
