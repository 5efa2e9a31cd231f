"""Gradients at corners and among equal elements are those of eager PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from trainlib_deployer.api import deploy
from trainlib_deployer.errors import Unsupported

Tensor = torch.Tensor
LABELS, SETS = torch.tensor([2, 0, 1, 2]), torch.tensor([[2, -1, 0], [0, 1, -1], [1, 0, 2], [2, 0, -1]])
FUNCTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "hardswish": lambda x, _: F.hardswish(x * 3),
    "hardsigmoid": lambda x, _: F.hardsigmoid(x * 3),
    "hardtanh": lambda x, _: F.hardtanh(x),
    "relu6": lambda x, _: F.relu6(x * 3),
    "clamp": lambda x, _: x.clamp(-1, 1),
    "shrinks": lambda x, _: F.softshrink(x, 1.0) + 0.3 * F.hardshrink(x, 1.0),
    "maximum": lambda x, y: torch.maximum(x, y) + 0.3 * torch.fmin(x, y),
    "between": lambda x, y: torch.clamp(x, y, y + 1),
    "max": lambda x, y: x.max() * x + y.amin(1, keepdim=True),
    "max_dim": lambda x, y: x.max(1)[0] + y.min(1)[0],
    "median": lambda x, y: x * x.median() + y.nanmedian(),
    "median_dim": lambda x, y: x.median(1)[0] + y.nanmedian(1)[0],
    "mode": lambda x, y: x.mode(1)[0] + y.cummax(1)[0].sum(1),
    "aminmax": lambda x, y: torch.aminmax(x)[0] + torch.aminmax(y, dim=1)[1],
    "multi_margin": lambda x, _: F.multi_margin_loss(x, LABELS, reduction="none"),
    "multilabel_margin": lambda x, _: F.multilabel_margin_loss(x, SETS, reduction="none"),
    "huber": lambda x, y: F.huber_loss(x, y, reduction="none") + F.smooth_l1_loss(x, y * 0.0, reduction="none"),
    "distances": lambda x, y: torch.cdist(x, y, 1) + torch.cdist(x, x),
}


class Each(nn.Module):
    """Every function of parameters of its own, so that each has its gradient."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        whole = [torch.randint(-2, 3, (4, 3)).float() for _ in range(2)]
        self.x, self.y = (nn.ParameterDict({n: v.clone() for n in FUNCTIONS}) for v in whole)

    def forward(self, one: Tensor) -> list[Tensor]:
        return [function(self.x[n], self.y[n]) * one for n, function in FUNCTIONS.items()]


def loss(outputs: list[Tensor], weight: Tensor) -> Tensor:
    """Each element counts otherwise."""
    total: Tensor = (
        sum((v * torch.linspace(0.5, 1.5, v.numel()).reshape(v.shape)).sum() for v in outputs) * weight.sum()
    )
    return total


@pytest.mark.compiler
def test_corners_are_those_of_pytorch(tmp_path: Path) -> None:
    """Faults: hardswish passed a gradient on at -3, and half of one more at 3; margin losses at a margin of zero. With
    each error of rounding the reference takes another side there, so `verify` says nothing."""
    model = Each()
    plain = copy.deepcopy(model)
    loss(plain(torch.ones(1)), torch.ones(1)).backward()
    run = deploy(model, torch.ones(1), torch.ones(1), loss=loss, cores=3, steps=1, out=tmp_path / "net").verify()
    for name, p in plain.named_parameters():
        if p.grad is not None:
            found = torch.tensor(run.computed[0, "gradient", name]).reshape(p.shape)
            assert torch.allclose(found, p.grad, rtol=1e-5, atol=1e-6), name


class Third(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[2.0, 1, 1, 1, 0], [1, 0, 1, 2, 1]]))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight.kthvalue(3, 1)[0] * x


def test_one_of_equal_elements_is_refused_by_name(tmp_path: Path) -> None:
    """Fault: the message spoke of hidden state in forward, or of an operation taken apart wrongly."""
    with pytest.raises(Unsupported, match="of equal elements, PyTorch's 'kthvalue' takes") as refused:
        deploy(Third(), torch.ones(4, 2), torch.randn(4, 2), loss=nn.MSELoss(), out=tmp_path / "net")
    assert refused.value.source is not None and "stable=True" in refused.value.remedy


class Zeros(nn.Module):
    """Two loops that are alike but for the sign of a zero."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        one = torch.ones(())
        y = self.first(x)
        above = torch.where(y > 0, 0.0, y)
        z = self.second(above)
        below = torch.where(z > 0, -0.0, z)
        return torch.copysign(one, above) + torch.copysign(one, below).cumsum(1), above + below


@pytest.mark.compiler
def test_zeros_keep_their_sign_in_tiles(tmp_path: Path) -> None:
    """Fault: the tiles of the one loop were taken for those of the other."""
    sample = torch.randn(67, 64), torch.zeros(67, 64)
    zeros = deploy(
        Zeros(), *sample, loss=lambda out, wanted: F.mse_loss(out[1], wanted), l1="16k", l2="4M", out=tmp_path / "net"
    )
    assert zeros.verify().passed
