"""Singular values and eigenvalues of small matrices: rounds of rotations, the same for every sample.

Each rotation makes two columns orthogonal; columns are paired as in a tournament, half of them with the other half at a
time, and a sweep is over when all have met. Where all are orthogonal, their lengths are the singular values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from trainlib_deployer.capture.decompositions_linalg import of_matrix, qr, quotient

aten = torch.ops.aten
Tensor = torch.Tensor
LARGEST = 16  # columns: a round is about fifteen operations
SWEEPS = 7


def rotated(x: Tensor, rows: int) -> Tensor:
    """x J with orthogonal `rows` first rows; what is below them goes along."""
    columns = x.shape[-1]
    x = F.pad(x, [0, columns % 2])
    half = x.shape[-1] // 2
    for _ in range(SWEEPS * max(2 * half - 1, 1)):
        left, right = x[..., :half], x[..., half:]
        p, q = left[..., :rows, :], right[..., :rows, :]
        share = (p * q).sum(-2, keepdim=True)
        apart = 0.5 * ((q * q).sum(-2, keepdim=True) - (p * p).sum(-2, keepdim=True))
        longest = torch.maximum(apart.abs(), share.abs())
        share, apart = quotient(share, longest), quotient(apart, longest)
        sign = torch.where(apart < 0, -1.0, 1.0)
        tangent = quotient(sign * share, apart.abs() + (apart * apart + share * share).sqrt())
        cosine = (1 + tangent * tangent).rsqrt()
        sine = cosine * tangent
        x = paired_anew(cosine * left - sine * right, sine * left + cosine * right)
    return x[..., :columns]


def paired_anew(left: Tensor, right: Tensor) -> Tensor:
    """The first column stays, all others move on by one place in the circle."""
    if left.shape[-1] == 1:
        return torch.cat([left, right], -1)
    parts = left[..., :1], right[..., :1], left[..., 1:-1], right[..., 1:], left[..., -1:]
    return torch.cat(parts, -1)


def small(target: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        @of_matrix(target)
        def unless_large(a: Tensor, *args: Any, **kwargs: Any) -> Any:
            return NotImplemented if min(a.shape[-2:]) > LARGEST else function(a, *args, **kwargs)

        return function

    return register


@small(aten._linalg_svd.default)
def svd(
    a: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """U, the singular values downwards, and V transposed."""
    rows, columns = a.shape[-2:]
    if rows < columns:
        u, values, v = svd(a.mT, full_matrices, compute_uv)
        return (v.mT, values, u.mT) if compute_uv else (u, values, v)
    own = torch.eye(columns, dtype=a.dtype).expand(*a.shape[:-2], -1, -1)
    turned = rotated(torch.cat([a, own], -2), rows)
    values, order = turned[..., :rows, :].square().sum(-2).sqrt().sort(-1, descending=True)
    if not compute_uv:
        return a.new_zeros(0), values, a.new_zeros(0)
    turned = turned.gather(-1, order.unsqueeze(-2).expand(turned.shape))
    u = quotient(turned[..., :rows, :], values.unsqueeze(-2))
    if full_matrices and rows > columns:
        u = torch.cat([u, qr(u, "complete")[0][..., columns:]], -1)
    return u, values, turned[..., rows:, :].mT


@small(aten._linalg_eigh.default)
def eigh(a: Tensor, UPLO: str = "L", compute_v: bool = True) -> tuple[Tensor, Tensor]:
    """Of what is shifted to be positive, the directions; along each of them a itself."""
    a = a.triu() + a.triu(1).mT if UPLO.upper() == "U" else a.tril() + a.tril(-1).mT
    size = a.shape[-1]
    own = torch.eye(size, dtype=a.dtype).expand(a.shape)
    shift = 1.5 * a.square().sum((-2, -1), keepdim=True).sqrt()
    directions = rotated(torch.cat([a + shift * own, own], -2), size)[..., size:, :]
    values, order = (directions * (a @ directions)).sum(-2).sort(-1)
    return values, directions.gather(-1, order.unsqueeze(-2).expand(a.shape)) if compute_v else a.new_zeros(0)


@small(aten.linalg_pinv.atol_rtol_tensor)
def pinv(a: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: bool = False) -> Tensor:
    """What is too small to be told from zero stays zero."""
    if hermitian:
        signed, v = eigh(a)
        u, values, vh = v * signed.sign().unsqueeze(-2), signed.abs(), v.mT
    else:
        u, values, vh = svd(a)
    least = torch.zeros(()) if rtol is None else rtol
    least = least.unsqueeze(-1) * values.amax(-1, keepdim=True)
    if atol is not None:
        least = torch.maximum(least, atol.unsqueeze(-1))
    inverted = torch.where(values > least, quotient(torch.ones_like(values), values), 0.0)
    found: Tensor = (vh.mT * inverted.unsqueeze(-2)) @ u.mT
    return found
