"""Constraints on parameters: on their norms, and to be orthogonal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.nn import functional as F

Tensor = torch.Tensor
EPS = 1e-7  # PyTorch's own


def renorm(x: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """PyTorch's gradient of it asks for float64."""
    others = [d for d in range(x.dim()) if d != dim % x.dim()]
    norm = torch.linalg.vector_norm(x, p, others, keepdim=True)
    return x * torch.where(norm > maxnorm, maxnorm / (norm + EPS), 1.0)


def renorm_(x: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    return x.copy_(renorm(x, p, dim, maxnorm))


def embedding(
    tokens: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """With `max_norm`, the rows that are looked up are shortened where they lie."""
    if max_norm is None:
        return NotImplemented
    shorten(weight, tokens, max_norm, norm_type)
    return F.embedding(tokens, weight, padding_idx, scale_grad_by_freq=scale_grad_by_freq)


def shorten(weight: Tensor, tokens: Tensor, max_norm: float, norm_type: float) -> None:
    with torch.no_grad():
        ones = torch.ones(tokens.numel())
        used = torch.zeros(len(weight)).index_add(0, tokens.flatten(), ones).unsqueeze(1) > 0
        weight.copy_(torch.where(used, renorm(weight, norm_type, 0, max_norm), weight))


def householder_product(input: Tensor, tau: Tensor) -> Any:
    """The first columns of H1 H2 ... with Hi = 1 - tau_i v_i v_i^T, v_i from below the diagonal of column i."""
    if input.is_complex():
        return NotImplemented
    return reflected(input, tau, torch.eye(*input.shape[-2:]).expand_as(input), range(tau.shape[-1] - 1, -1, -1))


def reflected(input: Tensor, tau: Tensor, found: Tensor, order: Iterable[int]) -> Tensor:
    """Hi ... Hj times a matrix, from the right to the left."""
    vectors = input.tril(-1) + torch.eye(*input.shape[-2:])
    for i in order:
        v = vectors.narrow(-1, i, 1)
        found = found - tau.narrow(-1, i, 1).unsqueeze(-1) * v @ (v.mT @ found)
    return found


def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Any:
    """All of that product, or its transpose, times a matrix; or that times it."""
    if input.is_complex():
        return NotImplemented
    if not left:
        return ormqr(input, tau, other.mT, True, not transpose).mT
    order = range(tau.shape[-1])
    return reflected(input, tau, other, order if transpose else reversed(order))


REWRITES: dict[Any, Callable[..., Any]] = {
    torch.renorm: renorm,
    Tensor.renorm: renorm,
    Tensor.renorm_: renorm_,
    F.embedding: embedding,
    torch.linalg.householder_product: householder_product,
    torch.ormqr: ormqr,
    Tensor.ormqr: ormqr,
}
