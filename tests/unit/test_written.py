"""What forward writes to, where that is one of several results; what the golden model leaves alone."""

from __future__ import annotations

import torch
from torch import nn

from golden.borrow import borrowed
from golden.snapshot import Snapshot
from trainlib_deployer.capture.agreement import captured_and_checked
from trainlib_deployer.user.assemble import Parts, assemble


def test_one_of_several_results_is_written_to() -> None:
    """Fault: an activation in place behind a norm was no operation that can be asked what it writes."""
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU(inplace=True))
    parts = Parts("net", model, torch.randn(3, 5), torch.randn(3, 4), nn.MSELoss(), None, None, None, 1, "the call")
    assert captured_and_checked(assemble(parts))[0].graph


def test_gradients_keep_their_precision() -> None:
    """Fault: those of an earlier training became float64, and were no gradients of the weights any more."""
    model = nn.Linear(5, 4)
    model(torch.randn(3, 5)).sum().backward()
    with borrowed(Snapshot(model), torch.float64):
        assert model.weight.dtype is torch.float64
    assert model.weight.grad is not None and model.weight.grad.dtype is torch.float32
