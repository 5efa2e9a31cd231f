"""What net_forward and net_evaluate show: all of it, without a backward pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.e2e.test_known_faults import CLOSE, deployed, labels, random, shaken


class Window(nn.Module):
    """Shows a part of a tensor, twice, and a parameter as it was."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 7)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.linear(x)
        return {"part": y[:, 1:4], "same": y[:, 1:4], "bias": self.linear.bias, "whole": y}


def test_what_is_shown_is_computed_without_the_backward_pass(tmp_path: Path) -> None:
    def loss(output: Any, target: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(output["part"], target)

    model = shaken(Window())
    made = deployed(model, random(4, 5), labels(4, 3), loss, tmp_path / "p")
    made.verify().raise_if_failed()
    for name, value in model(random(4, 5)).items():
        assert torch.allclose(made.predict(random(4, 5))[name], value, atol=CLOSE), name


def test_what_a_loss_writes_to_its_output_is_not_shown(tmp_path: Path) -> None:
    def loss(output: Any, target: torch.Tensor) -> torch.Tensor:
        output["whole"][:, 3:].sigmoid_()
        return nn.functional.cross_entropy(output["whole"], target)

    model = shaken(Window())
    made = deployed(model, random(4, 5), labels(4, 7), loss, tmp_path / "p")
    made.verify().raise_if_failed()
    for name, value in model(random(4, 5)).items():
        assert torch.allclose(made.predict(random(4, 5))[name], value, atol=CLOSE), name
