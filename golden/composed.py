"""Operations that PyTorch does in one and a program in several, between which it rounds: taken apart.

With what lies inside of them rounded nowhere, all runs of the reference agree, and none has what a program may do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten
Tensor = torch.Tensor


def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> tuple[Tensor, Tensor]:
    """Also the norms."""
    norms = torch.linalg.vector_norm(v, dim=others(v, dim), keepdim=True)
    return v * (g / norms), norms


def others(v: Tensor, dim: int) -> list[int]:
    return [d for d in range(v.dim()) if d != dim]


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """The product of where the pixels are, as x, y, 1 or x, y, z, 1, and theta."""
    batch, _, *extents = size
    axes = [centres(n, align_corners, theta) for n in extents]
    points = [*reversed(torch.meshgrid(*axes, indexing="ij")), theta.new_ones(extents)]
    base = torch.stack(points, dim=-1).reshape(1, -1, len(points)).expand(batch, -1, -1)
    return torch.bmm(base, theta.transpose(1, 2)).reshape(batch, *extents, len(extents))


def centres(count: int, align_corners: bool, like: Tensor) -> Tensor:
    """Of the pixels of a row from -1 to 1."""
    ends = 1.0 if align_corners else (count - 1) / count
    return torch.linspace(-ends, ends, count, dtype=like.dtype) if count > 1 else like.new_zeros(1)


def softmax_backward(g: Tensor, y: Tensor, dim: int, _dtype: torch.dtype) -> Tensor:
    """Of shares that, rounded, do not quite add up to one: what is alike in a row of `g` goes nevertheless."""
    mean = (g * y).sum(dim, keepdim=True) * (2.0 - y.sum(dim, keepdim=True))
    return (g - mean) * y


STEPS: dict[Any, Callable[..., Any]] = {
    aten._weight_norm_interface.default: weight_norm,
    aten.affine_grid_generator.default: affine_grid,
}

AT_ONCE: dict[Any, Callable[..., Any]] = {aten._softmax_backward_data.default: softmax_backward}  # rounded nowhere
