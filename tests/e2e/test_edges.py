"""Sums of nothing, and of what is infinite."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from trainlib_deployer.api import deploy


class Masked(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.logsumexp(1)


class Unused(nn.Module):
    """A layer on no sample has a gradient of zeros."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.scale = layer, nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x[:0]).sum() * 0 + self.scale * x.flatten(1)[:, :3]


def test_logarithms_of_sums_that_are_masked_or_infinite(tmp_path: Path) -> None:
    inf = torch.inf
    x = torch.tensor([[-inf] * 4, [1.0, 2, 3, 4], [inf, 0, -inf, 1], [-inf, 5, -inf, 5]])
    made = deploy(Masked(), x, inference=True, out=tmp_path / "net")
    assert made.verify().passed
    assert torch.allclose(torch.as_tensor(made.predict(x)), x.logsumexp(1))


@pytest.mark.parametrize("layer", [nn.Conv2d(3, 5, 3), nn.Conv2d(3, 4, 1), nn.ConvTranspose2d(3, 2, 3)], ids=repr)
def test_a_layer_on_no_sample(layer: nn.Module, tmp_path: Path) -> None:
    data = [(torch.randn(2, 3, 7, 5), torch.randn(2, 3)) for _ in range(2)]
    made = deploy(Unused(layer), *data[0], data=data, loss=nn.MSELoss(), steps=2, out=tmp_path / "net")
    assert made.verify().passed
