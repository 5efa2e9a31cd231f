"""How the suites make networks of packages repeatable."""

from __future__ import annotations

import torch
from torch import nn

from tests.suites.networks import quiet


class DropPath(nn.Module):
    """As packages write it: no kind of Dropout."""

    def __init__(self, drop_prob: float) -> None:
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        keep = torch.full((x.shape[0], 1), 1 - self.drop_prob)
        return x * torch.bernoulli(keep) / keep


def test_networks_drop_neither_elements_nor_paths() -> None:
    net = nn.Sequential(DropPath(0.4), nn.Dropout(0.3), nn.Sequential(DropPath(0.9)))
    quiet(net)
    x = torch.arange(1.0, 78.0).reshape(11, 7)
    assert torch.equal(net(x), x)
