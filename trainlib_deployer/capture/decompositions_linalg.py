"""Dense algebra of small matrices, unrolled: one round a column, the same for every sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

aten = torch.ops.aten
Tensor = torch.Tensor
LARGEST = 32  # rows or columns, where each is a round of about ten operations
TABLE: dict[Any, Callable[..., Any]] = {}


def of_matrix(target: Any, largest: int | None = LARGEST) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register, for matrices that are not too large."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def unless_large(a: Tensor, *args: Any, **kwargs: Any) -> Any:
            too_large = largest is not None and max(a.shape[-2:]) > largest
            refused = not a.numel() or too_large or a.is_complex()
            return NotImplemented if refused else function(a, *args, **kwargs)

        TABLE[target] = unless_large
        return function

    return register


TABLE[aten._linalg_check_errors.default] = lambda *_, **__: None  # what cannot be solved gives infinities


def fine(a: Tensor) -> Tensor:
    """The word on errors, for each matrix."""
    return torch.zeros(a.shape[:-2], dtype=torch.int32)


# ---- triangles


def solve_lower(a: Tensor, b: Tensor, unit: bool) -> Tensor:
    """Row after row; each found one is taken out of those below."""
    rows = []
    for i in range(a.shape[-1]):
        row = b.narrow(-2, 0, 1)
        found = row if unit else row / a[..., i : i + 1, i : i + 1]
        rows.append(found)
        b = b.narrow(-2, 1, b.shape[-2] - 1) - a[..., i + 1 :, i : i + 1] * found
    return torch.cat(rows, -2)


@of_matrix(aten.linalg_solve_triangular.default)
def solve_triangular(a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    if not left:
        turned: Tensor = solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular)
        return turned.mT
    batch = (a.select(-1, 0).select(-1, 0) + b.select(-1, 0).select(-1, 0)).shape
    a, b = a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])
    if upper:
        return solve_lower(a.flip(-1, -2), b.flip(-2), unitriangular).flip(-2)
    return solve_lower(a, b, unitriangular)


def triangular_solve(
    b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    """The old name, with the operands the other way round."""
    seen, is_upper = (a.mT, not upper) if transpose else (a, upper)
    return solve_triangular(seen, b, upper=is_upper, unitriangular=unitriangular), a.clone()


TABLE[aten.triangular_solve.default] = triangular_solve


@of_matrix(aten.linalg_cholesky_ex.default)
def cholesky(a: Tensor, *, upper: bool = False, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    rest, columns = a.mT if upper else a, []
    for j in range(a.shape[-1]):
        column = rest.narrow(-1, 0, 1)
        column = column / column.narrow(-2, 0, 1).sqrt()
        columns.append(F.pad(column, [0, 0, j, 0]))
        below = column[..., 1:, :]
        rest = rest[..., 1:, 1:] - below * below.mT
    found = torch.cat(columns, -1)
    return (found.mT if upper else found), fine(a)


def cholesky_solve(b: Tensor, a: Tensor, upper: bool = False) -> Tensor:
    lower = a.mT if upper else a
    half = solve_triangular(lower, b, upper=False)
    found: Tensor = solve_triangular(lower.mT, half, upper=True)
    return found


TABLE[aten.cholesky_solve.default] = cholesky_solve


@of_matrix(aten.cholesky.default)
def cholesky_alone(a: Tensor, upper: bool = False) -> Tensor:
    found: Tensor = cholesky(a, upper=upper)[0]
    return found


@of_matrix(aten.cholesky_inverse.default)
def cholesky_inverse(a: Tensor, upper: bool = False) -> Tensor:
    return cholesky_solve(identity(a), a.triu() if upper else a.tril(), upper)


def identity(a: Tensor) -> Tensor:
    return torch.eye(a.shape[-2], dtype=a.dtype).expand(*a.shape[:-2], -1, -1)


# ---- rows are exchanged


def quotient(x: Tensor, y: Tensor) -> Tensor:
    """Zero where nothing is divided: what a column of zeros leaves to do."""
    return torch.where(y == 0, 0.0, x / torch.where(y == 0, 1.0, y))


def exchanged(a: Tensor, j: int, other: Tensor) -> Tensor:
    """Rows j and `other`, of each matrix its own."""
    rows = torch.arange(a.shape[-2])
    other = other.unsqueeze(-1)
    order = torch.where(rows == j, other, torch.where(rows == other, j, rows))
    return a.gather(-2, order.unsqueeze(-1).expand(a.shape))


@of_matrix(aten.linalg_lu_factor_ex.default)
def lu_factor(a: Tensor, *, pivot: bool = True, check_errors: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Both factors in one matrix, and with which row each one was exchanged, from one on."""
    pivots = []
    for j in range(min(a.shape[-2:])):
        largest = a[..., j:, j].abs().argmax(-1) + j if pivot else torch.full(a.shape[:-2], j)
        pivots.append(largest + 1)
        if pivot:
            a = exchanged(a, j, largest)
        shares = quotient(a[..., j + 1 :, j : j + 1], a[..., j : j + 1, j : j + 1])
        rest = a[..., j + 1 :, j + 1 :] - shares * a[..., j : j + 1, j + 1 :]
        below = torch.cat([a[..., j + 1 :, :j], shares, rest], -1)
        a = torch.cat([a[..., : j + 1, :], below], -2)
    return a, torch.stack(pivots, -1).to(torch.int32), fine(a)


@of_matrix(aten.linalg_lu_solve.default)
def lu_solve(lu: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    if not left:
        turned: Tensor = lu_solve(lu, pivots, b.mT, adjoint=not adjoint)
        return turned.mT
    batch = (lu.select(-1, 0).select(-1, 0) + b.select(-1, 0).select(-1, 0)).shape
    b = b.expand(*batch, *b.shape[-2:])
    others = [p.to(torch.int64).expand(batch) - 1 for p in pivots.unbind(-1)]
    if adjoint:
        half = solve_triangular(lu.mT, b, upper=False)
        b = solve_triangular(lu.mT, half, upper=True, unitriangular=True)
        for j, other in reversed(list(enumerate(others))):
            b = exchanged(b, j, other)
        return b
    for j, other in enumerate(others):
        b = exchanged(b, j, other)
    found: Tensor = solve_triangular(lu, solve_triangular(lu, b, upper=False, unitriangular=True), upper=True)
    return found


@of_matrix(aten.lu_unpack.default)
def lu_unpack(
    lu: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """P, L and U; what is not asked for is empty."""
    nothing = lu.new_zeros(0)
    rows, columns = lu.shape[-2:]
    lower = upper = order = nothing
    if unpack_data:
        few = min(rows, columns)
        lower = lu[..., :, :few].tril(-1) + torch.eye(rows, few, dtype=lu.dtype)
        upper = lu[..., :few, :].triu()
    if unpack_pivots:
        order = torch.eye(rows, dtype=lu.dtype).expand(*lu.shape[:-2], -1, -1)
        for j, other in enumerate(pivots.unbind(-1)):
            order = exchanged(order, j, other.to(torch.int64) - 1)
        order = order.mT
    return order, lower, upper


@of_matrix(aten.linalg_lu.default)
def lu(a: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    factors, pivots, _ = lu_factor(a, pivot=pivot)
    order, lower, upper = lu_unpack(factors, pivots, unpack_pivots=pivot)
    return order, lower, upper


@of_matrix(aten._linalg_solve_ex.default)
def solve(
    a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    factors, pivots, info = lu_factor(a)
    vector = b.dim() == 1 or (a.dim() - 1 == b.dim() and b.shape == a.shape[:-1])
    column = b.unsqueeze(-1) if vector else b
    found = lu_solve(factors, pivots, column, left=left)
    return (found.squeeze(-1) if vector else found), factors, pivots, info


@of_matrix(aten.linalg_inv_ex.default)
def inverse(a: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    factors, pivots, info = lu_factor(a)
    return lu_solve(factors, pivots, identity(a)), info


def sign_of_order(pivots: Tensor) -> Tensor:
    """Each exchange turns it round."""
    stays = pivots == torch.arange(1, pivots.shape[-1] + 1)
    return torch.where(stays, 1.0, -1.0).prod(-1)


@of_matrix(aten._linalg_det.default)
def determinant(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    factors, pivots, _ = lu_factor(transposed_where_pytorch_does(a))
    diagonal = factors.diagonal(0, -2, -1)
    return diagonal.prod(-1) * sign_of_order(pivots), factors, pivots


@of_matrix(aten._linalg_slogdet.default)
def sign_and_logarithm(a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    factors, pivots, _ = lu_factor(transposed_where_pytorch_does(a))
    diagonal = factors.diagonal(0, -2, -1)
    sign = diagonal.sign().prod(-1) * sign_of_order(pivots)
    return sign, diagonal.abs().log().sum(-1), factors, pivots


def transposed_where_pytorch_does(a: Tensor) -> Tensor:
    """The gradients of determinants count on the factors of the transpose of what lies row by row."""
    return a.mT if a.is_contiguous() else a


# ---- reflections


@of_matrix(aten.linalg_qr.default)
def qr(a: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """By Householder's reflections, with the signs of LAPACK."""
    rows, columns = a.shape[-2:]
    few = min(rows, columns)
    q = identity(a)
    for j in range(min(few, rows - 1)):
        column = a[..., j:, j : j + 1]
        first, below = column.narrow(-2, 0, 1), column[..., 1:, :]
        rest = below.square().sum(-2, keepdim=True)
        length = (first * first + rest).sqrt()
        v = torch.cat([first + torch.where(first < 0, -length, length), below], -2)
        v = torch.where(rest == 0, 0.0, quotient(v, v.square().sum(-2, keepdim=True).sqrt()))  # nothing to turn
        v = F.pad(v, [0, 0, j, 0])
        a = a - 2 * v * (v.mT @ a)
        q = q - 2 * (q @ v) * v.mT
    if mode == "r":
        return a.new_zeros(0), a[..., :few, :].triu()
    wanted = rows if mode == "complete" else few
    return q[..., :, :wanted], a[..., :wanted, :].triu()


# ---- the exponential

TERMS = 10
ROUNDS = 10


@of_matrix(aten.linalg_matrix_exp.default, largest=None)  # as many products for any size; gradients have twice the rows
def matrix_exp(a: Tensor) -> Tensor:
    """A series of what is halved until its norm is below one, and squared as often; norms up to 1,000."""
    norm = a.abs().sum(-2, keepdim=True).amax(-1, keepdim=True)
    often = norm.clamp(min=1.0).log2().ceil().clamp(max=float(ROUNDS))
    small, one = a * torch.exp2(-often), identity(a)
    found = one
    for k in range(TERMS, 0, -1):
        found = one + small @ found / k
    for i in range(ROUNDS):
        found = torch.where(often > i, found @ found, found)
    return found
