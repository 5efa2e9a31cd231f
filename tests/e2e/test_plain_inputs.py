"""Numbers, booleans, texts and None among the inputs of forward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.unit.test_model_state import user_of
from trainlib_deployer.api import deploy
from trainlib_deployer.errors import UsageError


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 5)

    def forward(self, mask: Any, given: dict[str, Any], scale: float = 1.0) -> torch.Tensor:
        y = self.fc(given["x"]) * scale
        if given["how"] == "squared" and not given["plain"]:
            y = y * y
        return y if mask is None else y * mask


def given(x: torch.Tensor, scale: float = 3.0) -> tuple[Any, ...]:
    return None, {"x": x, "how": "squared", "plain": False}, scale


def test_plain_values_are_part_of_the_program(tmp_path: Path) -> None:
    data = [(given(torch.randn(2, 3)), torch.randn(2, 5)) for _ in range(3)]
    net = Net()
    deployment = deploy(net, *data[0], data=data, loss=nn.MSELoss(), l1="16k", cores=3, out=tmp_path / "p")
    deployment.verify("host").raise_if_failed()
    (inputs, target), expected = data[1], nn.MSELoss()
    assert deployment.step(inputs, target) == pytest.approx(float(expected(net(*inputs), target).detach()), rel=1e-5)


def test_batches_are_gathered_around_them() -> None:
    data = [(given(torch.randn(3)), torch.randn(5)) for _ in range(4)]
    user = user_of(Net(), None, None, data=[((None, {**g[1], "plain": torch.tensor(0)}), y) for g, y in data])
    assert user.inputs[0] is None and user.inputs[1]["x"].shape == (1, 3) and user.inputs[1]["how"] == "squared"


def test_they_are_the_same_in_every_sample() -> None:
    data = [(given(torch.randn(2, 3), scale), torch.randn(2, 5)) for scale in (3.0, 4.0)]
    with pytest.raises(UsageError, match=r"the float 4\.0\) where the first input is .*the float 3\.0"):
        user_of(Net(), given(torch.randn(2, 3)), torch.randn(2, 5), data=data)
