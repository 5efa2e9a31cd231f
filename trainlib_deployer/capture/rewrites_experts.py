"""Mixtures of experts: how many rows each one gets, and products of sorted rows with their own expert's weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

Tensor = torch.Tensor


def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """Between edges that are given; the last one belongs to its bin."""
    if min >= max:
        return NotImplemented
    edges = torch.linspace(min, max, bins + 1)
    values = x.detach().flatten().unsqueeze(1)
    below = torch.cat([values < edges[1:-1], values <= edges[-1]], 1)
    return ((values >= edges[:-1]) & below).to(x.dtype).sum(0)


def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Any:
    """How many there are of each number below `minlength`, where none is larger: that would be a longer result."""
    if not minlength or weights is not None:
        return NotImplemented
    return (x.unsqueeze(1) == torch.arange(minlength)).sum(0)


def grouped_mm(x: Tensor, w: Tensor, *, offs: Tensor | None = None, bias: Any = None, out_dtype: Any = None) -> Any:
    """torch._grouped_mm of rows [S, K] that end at `offs`, and weights [experts, K, N]: every expert takes all rows,
    with zeros for those of others."""
    if x.dim() != 2 or w.dim() != 3 or offs is None or bias is not None or out_dtype is not None:
        return NotImplemented
    ahead = torch.arange(len(x)).unsqueeze(1) < offs
    own = torch.cat([ahead[:, :1], ahead[:, 1:] & ~ahead[:, :-1]], 1)
    return torch.bmm(torch.where(own.t().unsqueeze(2), x, 0.0), w).sum(0)


REWRITES: dict[Any, Callable[..., Any]] = {
    torch.histc: histc,
    torch.Tensor.histc: histc,
    torch.bincount: bincount,
    torch.Tensor.bincount: bincount,
    torch._grouped_mm: grouped_mm,
    F.grouped_mm: grouped_mm,
}
