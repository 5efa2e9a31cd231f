"""What forward writes to, where that is one of several results."""

from __future__ import annotations

import torch
from torch import nn

from trainlib_deployer.capture.agreement import captured_and_checked
from trainlib_deployer.user.assemble import Parts, assemble


def test_one_of_several_results_is_written_to() -> None:
    """Fault: an activation in place behind a norm was no operation that can be asked what it writes."""
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU(inplace=True))
    parts = Parts("net", model, torch.randn(3, 5), torch.randn(3, 4), nn.MSELoss(), None, None, None, 1, "the call")
    assert captured_and_checked(assemble(parts))[0].graph
