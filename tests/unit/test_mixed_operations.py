"""Operations of PyTorch at which its reference of mixed precision failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from golden import reference
from golden.halves import Halves
from golden.task import Task
from trainlib_deployer.api import deploy

Tensor = torch.Tensor


class Net(nn.Module):
    def __init__(self, rest: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.fc, self.rest = nn.Linear(5, 5), rest

    def forward(self, x: Tensor) -> Tensor:
        return self.rest(self.fc(x))


def covariance(y: Tensor) -> Tensor:
    """PyTorch looks whether weights are all above zero: a number of Python, made of a statistic."""
    return torch.cov(y, aweights=y.detach().square().sum(0))


def parts(y: Tensor) -> Tensor:
    """Two results of an operation on each element, of statistics."""
    return y * torch.frexp(y.detach().square().sum(0))[0]


@pytest.mark.parametrize("rest", [torch.sgn, lambda y: y + torch.sgn(y), covariance, parts])
def test_the_reference_goes_on(rest: Callable[[Tensor], Tensor]) -> None:
    """Faults: the gradient of sgn lies nowhere; what an operation on each element makes need not be one tensor."""
    module, x = Net(rest), torch.randn(5, 5)
    task = Task(module, nn.MSELoss(), [((x,), torch.zeros(5, 5))], "SGD", [({"lr": 0.1}, ["fc.weight", "fc.bias"])])
    plain, halves = (reference.run(replace(task, dtype=d), 1, torch.float64) for d in ("fp32", "mixed"))
    assert plain.keys() == halves.keys()
    assert all(np.allclose(halves[key], value, atol=0.05) for key, value in plain.items())


def test_both_parts_of_a_statistic_are_statistics() -> None:
    x = torch.randn(4, 3)
    with Halves(torch.float32, [x], chains=False):
        part = torch.frexp(x.sum(0))[0]
    assert part.statistic  # type: ignore[attr-defined]


class Aligned(nn.Module):
    """As networks that take their labels, and return the loss."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.fc, self.back = nn.Linear(5, 7), nn.Linear(7, 7)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        found = self.back(torch.tanh(self.fc(x))).log_softmax(-1)
        times, long = torch.full((3,), 13), torch.full((3,), labels.shape[1])
        return 2 * nn.functional.ctc_loss(found.transpose(0, 1), labels, times, long, reduction="none")


@pytest.mark.slow
@pytest.mark.compiler
def test_an_alignment_inside_of_the_network(tmp_path: Path) -> None:
    """Fault: that there is no path was a number which halves do not have, and gradients were NaN."""
    torch.manual_seed(5)
    data = (torch.randn(3, 13, 5), torch.randint(1, 7, (3, 4))), torch.zeros(3)
    run = deploy(Aligned(), *data, loss=lambda o, t: o.mean(), steps=2, dtype="mixed", out=tmp_path / "net").verify()
    run.raise_if_failed()
    assert all(np.isfinite(values).all() for values in run.computed.values())
