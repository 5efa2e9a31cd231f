"""What to write instead is said of operations that are refused, and only of these."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from trainlib_deployer.api import deploy
from trainlib_deployer.capture.remedies import REMEDIES
from trainlib_deployer.errors import Unsupported

Tensor = torch.Tensor


def large(h: Tensor) -> Tensor:
    """One that has an inverse and a root."""
    wide = h.repeat(6, 6)
    return wide @ wide.mT + torch.eye(36)


def places(h: Tensor) -> Tensor:
    return (h > 0).long()


REFUSED: dict[str, Callable[[Tensor], Tensor]] = {
    "gcd": lambda h: h * torch.gcd(h.long(), 6 * places(h)),
    "lcm": lambda h: h * torch.lcm(h.long(), 6 * places(h)),
    "scatter_reduce": lambda h: h * h.long().scatter_reduce(0, places(h), h.long(), "amax"),
    "index_reduce": lambda h: h * h.long().index_reduce(0, places(h)[0], h.long(), "amin"),
    "bincount": lambda h: h * torch.bincount((h > 0).long().flatten()).sum(),
    "histc": lambda h: h * torch.histc(h.detach(), 6),
    "histogram": lambda h: h * torch.histogram(h.detach(), 6)[0],
    "det": lambda h: torch.det(large(h)),
    "logdet": lambda h: torch.logdet(large(h)),
    "slogdet": lambda h: torch.slogdet(large(h))[1],
    "inverse": lambda h: torch.inverse(large(h)),
    "cholesky": lambda h: torch.linalg.cholesky(large(h)),
    "qr": lambda h: torch.linalg.qr(large(h))[1],
    "svd": lambda h: torch.svd(large(h))[1],
    "pinverse": lambda h: torch.pinverse(large(h)),
    "to_sparse": lambda h: torch.sparse.sum(h.to_sparse()),
    "to_sparse_csr": lambda h: h.to_sparse_csr().to_dense(),
    "igamma": lambda h: torch.igamma(h.detach().exp(), h.exp()),
}


class Net(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.fc(x))


def test_each_has_a_call_that_is_refused() -> None:
    assert set(REFUSED) == set(REMEDIES)


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_its_remedy(name: str, tmp_path: Path) -> None:
    net = Net(REFUSED[name])
    with pytest.raises(Unsupported) as refusal:
        deploy(net, torch.randn(6, 6), torch.zeros(()), loss=lambda y, t: y.square().mean() + t, out=tmp_path / "out")
    assert REMEDIES[name] in str(refusal.value)
