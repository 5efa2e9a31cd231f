"""Gradients of weights in parts, and operations that run twice: the same bits of every tensor, gradients among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.e2e.test_within_budget import results
from trainlib_deployer.api import deploy
from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.passes import order_halves
from trainlib_deployer.program.ir import Role


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


class Pooled(nn.Module):
    """Convolutions of three images, whose pools' gradients are used up a few samples at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.last = nn.Linear(16 * 4 * 4, 5)

    def once(self, x: torch.Tensor) -> torch.Tensor:
        for layer in (self.first, self.second):
            x = nn.functional.max_pool2d(torch.relu(layer(x)), 2)
        return self.last(x.flatten(1))  # type: ignore[no-any-return]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one, other, third = (self.once(x[:, at : at + 1]) for at in range(3))
        return one * other + third


@pytest.mark.parametrize(("batch", "l1"), [(2, "24k"), (3, "64M")])
def test_the_same_bits_by_samples(batch: int, l1: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = torch.randn(batch, 3, 16, 16), torch.randn(batch, 5)
    found: dict[float, Any] = {}
    for enough in (0.0, 9.0):
        torch.manual_seed(3)
        monkeypatch.setattr(order_halves, "ENOUGH", enough)
        network, folder = Pooled(), tmp_path / str(enough)
        rule = torch.optim.AdamW(network.parameters())
        made: dict[str, Any] = {"l1": l1, "steps": 2, "dtype": "mixed", "out": folder}
        program = deploy(network, x, y, loss=nn.MSELoss(), optimizer=rule, **made).plan.program
        parts = {n for n, t in program.tensors.items() if ".part" in n and t.role is Role.GRADIENT}
        kinds = {n: [op.kind for op in program.ops if n in {v.tensor for v in op.reads}] for n in parts}
        going_on = [n for n, users in kinds.items() if any(isinstance(kind, Conv) and kind.onto for kind in users)]
        signs = {n for n in program.tensors if n.endswith(".sign")}
        found[enough] = (going_on, signs, results(folder, poison=True))
    assert found[0.0][0] and found[0.0][1] and not (found[9.0][0] or found[9.0][1])
    assert found[0.0][2] == found[9.0][2] and len(found[0.0][2]) > 10
