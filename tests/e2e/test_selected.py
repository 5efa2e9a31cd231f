"""Rows that a mask selects: a layer that sends rows to experts, and a loss of the values that are there."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from trainlib_deployer import deploy

pytestmark = pytest.mark.compiler


class Routed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.fc, self.gate, self.out = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 5)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(8, 7), nn.GELU(), nn.Linear(7, 8)) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.fc(x)
        weights, which = self.gate(x).softmax(-1).topk(2)
        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            row, place = torch.where(which == i)
            y[row] += weights[row, place, None] * expert(x[row])
        found: torch.Tensor = self.out(x + y)
        return found


def distance(o: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    there = ~torch.isnan(t)
    return F.mse_loss(o[there], t[there])


@pytest.mark.parametrize("dtype", ["fp32", "mixed"])
def test_experts_and_missing_values(dtype: str, tmp_path: Path) -> None:
    g = torch.Generator().manual_seed(5)
    data = [(torch.randn(11, 6, generator=g), torch.randn(11, 5, generator=g)) for _ in range(2)]
    for _, t in data:
        t[torch.rand(t.shape, generator=g) < 0.3] = torch.nan
    settings = {"dtype": dtype, "cores": 8, "l1": "64k", "out": tmp_path / "p", "steps": 2}
    deploy(Routed(), *data[0], loss=distance, data=data, **settings).verify().raise_if_failed()
