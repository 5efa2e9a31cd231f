"""What is taken apart, beside PyTorch's own, where it is easy to get wrong: ties, zeros, no number, no elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from trainlib_deployer.capture import decompositions_special as special
from trainlib_deployer.capture.decompositions import DECOMPOSED
from trainlib_deployer.capture.rewrites import REWRITES

aten = torch.ops.aten
NAN = math.nan
ONES = torch.ones(3, 3)
GAP = torch.diag(torch.tensor([1.0, 0.0, 2.0]))
TRIANGLE = torch.triu(torch.randn(4, 4, generator=torch.Generator().manual_seed(1)))
NUMBERS = torch.tensor([[3.0, NAN, 5.0, 5.0], [1.0, 2.0, 2.0, NAN]])
NOTHING = torch.full((1, 4), -math.inf)
LARGE = torch.randn(70, 70, generator=torch.Generator().manual_seed(2)) / 8

# Further results are no promise.
RESULTS = {aten._linalg_det.default: 1, aten._linalg_slogdet.default: 2, torch.median: 1}

CASES: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "det of ones": (aten._linalg_det.default, (ONES,), {}),
    "det with a gap": (aten._linalg_det.default, (GAP,), {}),
    "slogdet with a gap": (aten._linalg_slogdet.default, (GAP,), {}),
    "LU with a gap": (aten.linalg_lu.default, (GAP,), {}),
    "QR of one": (aten.linalg_qr.default, (torch.eye(3),), {}),
    "QR with a gap": (aten.linalg_qr.default, (GAP,), {}),
    "QR of a triangle": (aten.linalg_qr.default, (TRIANGLE,), {}),
    "exponential of a large matrix": (aten.linalg_matrix_exp.default, (LARGE - LARGE.mT,), {}),
    "median": (torch.median, (NUMBERS, 1, True), {}),
    "median of all": (aten.median.default, (NUMBERS,), {}),
    "nanmedian of all": (aten.nanmedian.default, (NUMBERS,), {}),
    "nanmedian": (torch.nanmedian, (NUMBERS, 1), {}),
    "no source": (aten.masked_scatter.default, (ONES, torch.zeros(3, 3, dtype=torch.bool), torch.zeros(0)), {}),
    "addbmm of what does not count": (aten.addbmm.default, (NAN * ONES, ONES[None], ONES[None]), {"beta": 0}),
    "place of nothing": (F.max_pool1d_with_indices, (NOTHING, 3, 2, 1), {}),
    "product with a conjugate": (torch.vdot, (torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_as_pytorch(name: str) -> None:
    of, args, named = CASES[name]
    table: dict[Any, Callable[..., Any]] = DECOMPOSED if of in DECOMPOSED else REWRITES
    found, wanted = (pytree.tree_leaves(f(*args, **named)) for f in (table[of], of))
    for f, w in list(zip(found, wanted, strict=True))[: RESULTS.get(of)]:
        assert torch.allclose(f.double(), w.double(), atol=1e-6, equal_nan=True), (f, w)


SPECIAL = {
    "lgamma": (special.lgamma, torch.lgamma, -9.0),
    "digamma": (special.digamma, torch.digamma, -9.0),
    "i0e": (special.i0e, torch.special.i0e, -30.0),
    "i1e": (special.i1e, torch.special.i1e, -30.0),
    "erfcx": (special.erfcx, torch.special.erfcx, -1.0),
    "log_ndtr": (special.log_ndtr, torch.special.log_ndtr, -30.0),
    "ndtri": (lambda x: special.ndtri((-x).exp()), lambda x: torch.special.ndtri((-x).exp()), 0.0),
    "polygamma": (lambda x: special.polygamma(3, x), lambda x: torch.polygamma(3, x), 0.2),
    "polygamma below": (lambda x: special.polygamma(2, x), lambda x: torch.polygamma(2, x), -25.0),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions(name: str) -> None:
    ours, theirs, low = SPECIAL[name]
    x = torch.linspace(low, 30.0, 9973)
    x = x[(x - x.round()).abs() > 1e-2]
    exact = theirs(x.double())
    assert float((ours(x.double()) - exact).norm() / exact.norm()) < 2e-8
    assert float((ours(x).double() - exact).norm() / exact.norm()) < 2e-7


BORDERS = torch.tensor([math.inf, -math.inf, NAN, 0.0, -1.0, -2.0, 90.0, -90.0])


@pytest.mark.parametrize("name", ["lgamma", "digamma", "i0e", "i1e", "erfcx", "log_ndtr", "ndtri"])
def test_special_functions_at_poles_and_infinities(name: str) -> None:
    ours, theirs, _ = SPECIAL[name]
    assert torch.allclose(ours(BORDERS), theirs(BORDERS), rtol=1e-5, equal_nan=True)


def test_polygamma_at_poles() -> None:
    poles = torch.tensor([0.0, -1.0, -12.0])
    assert special.polygamma(1, poles).tolist() == [math.inf] * 3
    assert special.polygamma(2, poles).tolist() == [-math.inf] * 3


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (5, 2), (2, 7, 7), (1, 4), (16, 16)])
def test_singular_values_and_eigenvalues(shape: tuple[int, ...]) -> None:
    """Vectors are right whatever their signs are: they are orthogonal, and give the matrix back."""
    a = torch.randn(shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    for full in (False, True):
        u, values, v = DECOMPOSED[aten._linalg_svd.default](a, full)
        assert torch.allclose(values, torch.linalg.svdvals(a), atol=1e-12)
        few = values.shape[-1]
        assert torch.allclose(u[..., :few] * values.unsqueeze(-2) @ v[..., :few, :], a, atol=1e-12)
        for orthogonal in (u.mT @ u, v @ v.mT):
            assert torch.allclose(orthogonal, torch.eye(orthogonal.shape[-1]).double().expand_as(orthogonal))
    gram = a @ a.mT - 1
    for half in ("L", "U"):
        values, vectors = DECOMPOSED[aten._linalg_eigh.default](gram.tril() if half == "L" else gram.triu(), half)
        assert torch.allclose(values, torch.linalg.eigvalsh(gram), atol=1e-11)
        assert torch.allclose(vectors * values.unsqueeze(-2) @ vectors.mT, gram, atol=1e-11)


def test_singular_values_that_are_equal_or_zero() -> None:
    values = DECOMPOSED[aten._linalg_svd.default]
    assert torch.allclose(values(ONES)[1], torch.tensor([3.0, 0.0, 0.0]), atol=1e-6)
    assert values(ONES[:, :2] * 0)[1].tolist() == [0.0, 0.0]
    exchange = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert torch.allclose(DECOMPOSED[aten._linalg_eigh.default](exchange)[0], torch.tensor([-1.0, 1.0]))
