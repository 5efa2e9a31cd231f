"""torch._grouped_mm, which takes no float64, in any precision."""

from __future__ import annotations

import itertools
from typing import Any

import torch

Tensor = torch.Tensor


def grouped_mm(a: Tensor, b: Tensor, offs: Tensor, bias: Any = None, out_dtype: Any = None) -> Tensor:
    """Rows that end at `offs`, each group by a matrix of its own; or, of two matrices, the product of each group."""
    spans = list(itertools.pairwise([0, *offs.tolist()]))
    if b.dim() == 2:
        return torch.stack([a[:, first:end] @ b[first:end] for first, end in spans])
    out = a.new_zeros(len(a), b.shape[2])
    for (first, end), matrix in zip(spans, b, strict=True):
        out[first:end] = a[first:end] @ matrix
    return out
