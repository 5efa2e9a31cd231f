"""Gradients of weights in parts, and operations that run twice: the same bits of every tensor, gradients among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.e2e.test_within_budget import results
from trainlib_deployer.api import deploy
from trainlib_deployer.passes import order_halves


class Twice(nn.Module):
    """A weight with two gradients, the later of which goes on with the sums of the other, and one of a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.shared, self.signal = nn.Linear(29, 29), nn.Conv1d(3, 29, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.signal(x)).transpose(1, 2)
        return self.shared(torch.tanh(self.shared(y)))  # type: ignore[no-any-return]


@pytest.mark.parametrize(("optimizer", "l1"), [("adamw", "24k"), ("sgd", "64M")])
def test_the_same_bits(optimizer: str, l1: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = torch.randn(2, 3, 11), torch.randn(2, 9, 29)
    found: dict[float, Any] = {}
    for enough in (0.0, 9.0):
        torch.manual_seed(3)
        monkeypatch.setattr(order_halves, "ENOUGH", enough)
        network, folder = Twice(), tmp_path / str(enough)
        rule = torch.optim.AdamW(network.parameters()) if optimizer == "adamw" else None
        made: dict[str, Any] = {"l1": l1, "steps": 2, "dtype": "mixed", "out": folder}
        plan = deploy(network, x, y, loss=nn.MSELoss(), optimizer=rule, **made).plan
        parts, twice = ({t for t in plan.program.tensors if what in t} for what in (".weight.grad.part", ".again"))
        assert bool(twice) == (enough == 0)
        found[enough] = (parts, results(folder, poison=True))
    assert len(found[0.0][0]) > 2 and not found[9.0][0]
    assert found[0.0][1] == found[9.0][1] and len(found[0.0][1]) > 10
