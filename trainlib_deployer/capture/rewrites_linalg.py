"""Solutions in the sense of least squares, where PyTorch calculates in double precision or with ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from trainlib_deployer.capture import remedies
from trainlib_deployer.errors import Unsupported

Tensor = torch.Tensor


def tolerance(value: Any, like: Tensor) -> Tensor | None:
    return value if value is None or isinstance(value, Tensor) else torch.full((), float(value), dtype=like.dtype)


def pinv(a: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Any:
    """With tolerances in the type of the matrix."""
    rtol = rcond if rtol is None else rtol
    if not a.numel():
        return NotImplemented
    default = max(a.shape[-2:]) * torch.finfo(a.dtype).eps
    if rtol is None:
        rtol = default if atol is None else torch.where(torch.as_tensor(atol) > 0, 0.0, default)
    return torch.linalg.pinv(a, atol=tolerance(atol, a), rtol=tolerance(rtol, a), hermitian=hermitian)


def pinverse(a: Tensor, rcond: float = 1e-15) -> Any:
    return pinv(a, rcond)


class LeastSquares(NamedTuple):
    """As PyTorch returns it."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def lstsq(a: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """By QR, of the transpose where there are fewer rows than columns; of full rank, as the drivers are fastest."""
    rows, columns = a.shape[-2:]
    column = b.unsqueeze(-1) if b.dim() == 1 or b.shape == a.shape[:-1] else b
    if rows >= columns:
        q, r = torch.linalg.qr(a)
        found = torch.linalg.solve_triangular(r, q.mT @ column, upper=True)
    else:
        q, r = torch.linalg.qr(a.mT)
        found = q @ torch.linalg.solve_triangular(r.mT, column, upper=False)
    nothing = a.new_zeros(0)
    residuals = (column - a @ found).square().sum(-2) if rows > columns else nothing
    rank = torch.full(a.shape[:-2], min(rows, columns))
    solution = found.squeeze(-1) if column is not b else found
    values = torch.linalg.svdvals(a).detach() if driver in ("gelss", "gelsd") else nothing
    return LeastSquares(solution, residuals, rank, values)


def eig(*_: Any, **__: Any) -> Any:
    raise Unsupported(
        "eigenvalues of a matrix that need not be symmetric cannot be deployed: they may be complex",
        remedy=remedies.SYMMETRIC,
    )


REWRITES: dict[Any, Callable[..., Any]] = {
    torch.linalg.pinv: pinv,
    torch.pinverse: pinverse,
    Tensor.pinverse: pinverse,
    torch.linalg.lstsq: lstsq,
}

IMPOSSIBLE: dict[Any, Callable[..., Any]] = dict.fromkeys((torch.linalg.eig, torch.linalg.eigvals), eig)
