"""Quantization-aware training: torch.ao's modules with their observers."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from golden.observers import observed_and_quantized
from tests.unit.test_model_state import user_of
from trainlib_deployer.api import deploy
from trainlib_deployer.capture.agreement import captured_and_checked
from trainlib_deployer.errors import Unsupported

with warnings.catch_warnings(action="ignore"):
    from torch.ao import quantization


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.conv, self.bn, self.fc = nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.bn(self.conv(self.quant(x))))
        return self.dequant(self.fc(h.mean((2, 3))))  # type: ignore[no-any-return]


def prepared(config: Any) -> nn.Module:
    torch.manual_seed(1)
    net = Net()
    with warnings.catch_warnings(action="ignore"):
        net.qconfig = config
        made: nn.Module = quantization.prepare_qat(net.train())
    return made


def by_rows(observer: Any) -> Any:
    """Weights with a scale for each row."""
    return quantization.FakeQuantize.with_args(
        observer=observer, dtype=torch.qint8, quant_min=-128, quant_max=127, qscheme=torch.per_channel_symmetric
    )


def of_rows_and(observer: Any) -> Any:
    return quantization.QConfig(
        activation=quantization.FakeQuantize.with_args(observer=observer),
        weight=by_rows(quantization.PerChannelMinMaxObserver),
    )


def test_observers_are_state(tmp_path: Path) -> None:
    """Rows of the weights have scales of their own; activations have one, and a zero."""
    deployment = deploy(
        prepared(quantization.get_default_qat_qconfig("fbgemm")),
        torch.randn(2, 3, 11, 7),
        torch.randn(2, 3),
        loss=nn.MSELoss(),
        out=tmp_path / "p",
        l1="16k",
        cores=3,
    )
    found = deployment.verify("host")
    found.raise_if_failed()
    states = {name for _, kind, name in found.computed if kind == "state"}
    assert {"quant.activation_post_process.scale", "conv.weight_fake_quant.activation_post_process.max_val"} <= states


@pytest.mark.parametrize("observer", [quantization.MinMaxObserver, quantization.MovingAverageMinMaxObserver])
def test_observers_in_python_are_followed(observer: Any) -> None:
    model = prepared(of_rows_and(observer))
    graph, steps = captured_and_checked(user_of(model, torch.randn(2, 3, 11, 7), torch.randn(2, 3)))
    assert {
        "fc.weight_fake_quant.activation_post_process.min_val",
        "quant.activation_post_process.scale",
    } <= graph.written
    assert len(steps[0].after["conv.weight_fake_quant.scale"]) == 5


def test_averages_by_rows_need_a_first_call() -> None:
    config = quantization.get_default_qat_qconfig("fbgemm", version=0)
    model, x, y = prepared(config), torch.randn(2, 3, 11, 7), torch.randn(2, 3)
    with pytest.raises(Unsupported, match="has no shape before a first call") as found:
        user_of(model, x, y)
    assert "model(example_input)" in found.value.remedy
    model(x)
    captured_and_checked(user_of(model, x, y))


def test_the_golden_model_computes_what_pytorch_does() -> None:
    generator = torch.Generator().manual_seed(2)
    for by_rows, symmetric, bounds in ((False, False, (0, 127)), (True, True, (-128, 127)), (False, True, (-128, 127))):
        sizes = (4,) if by_rows else (1,)
        theirs, ours = (
            [torch.full(sizes, torch.inf), torch.full(sizes, -torch.inf), torch.ones(sizes), torch.zeros(sizes).int()]
            for _ in range(2)
        )
        on = torch.ones(1).long()
        for _ in range(3):
            x = torch.randn(4, 7, generator=generator) * 3 + 1
            more = (0.1, *bounds, 0, by_rows, symmetric)
            expected = torch.ops.aten._fused_moving_avg_obs_fq_helper(x, on, on, *theirs, *more)
            found = observed_and_quantized(x, on, on, *ours, *more)
            assert all(torch.allclose(a.float(), b.float(), atol=1e-5) for a, b in zip(found, expected, strict=True))
            assert all(torch.allclose(a.flatten(), b.flatten()) for a, b in zip(ours, theirs, strict=True))
