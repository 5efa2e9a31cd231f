"""What a norm, or a person by hand, keeps of the batches so far."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.e2e.test_known_faults import assert_same, deployed, labels, random, shaken, trained


@pytest.mark.parametrize("frozen", [False, True])
def test_batch_norm_statistics_follow_the_data(frozen: bool, tmp_path: Path) -> None:
    """Fault: running mean and variance keep their initial values, or move although the layer is in eval mode."""
    norm = nn.BatchNorm2d(4, momentum=0.3)
    model = shaken(nn.Sequential(nn.Conv2d(2, 4, 1, bias=False), norm))
    if frozen:
        norm.eval()
    x = random(3, 2, 3, 5) + 1
    before, weights = copy.deepcopy(norm.state_dict()), copy.deepcopy(model[0]).double()
    result = deployed(model, x, torch.zeros(3, 4, 3, 5), nn.MSELoss(), tmp_path / "p").verify(cores=3)
    result.raise_if_failed()
    assert torch.equal(norm.running_mean, before["running_mean"]), "deploying must not train"
    if frozen:
        moved = [k for k, v in result.computed.items() if "running" in k[2] and (v != before[k[2][2:]].numpy()).any()]
        assert not moved
        return
    seen = weights(x.double()).detach().transpose(0, 1).flatten(1)
    mean, var = 0.3 * seen.mean(1), 0.7 + 0.3 * seen.var(1)
    assert np.allclose(result.computed[0, "state", "1.running_mean"], mean, rtol=1e-5)
    assert np.allclose(result.computed[0, "state", "1.running_var"], var, rtol=1e-5)
    for name in ("1.running_mean", "1.running_var"):
        assert (result.computed[1, "state", name] != result.computed[0, "state", name]).all()


class MeansSoFar(nn.Module):
    """Means over all batches: of a norm without momentum, and by hand. The first share is all."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(5, momentum=None)
        self.head = nn.Linear(5, 3)
        self.mean, self.count = nn.Buffer(torch.full((5,), 1e4)), nn.Buffer(torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        self.mean.lerp_(x.mean(0), 1 / self.count)
        return self.head(self.norm(x)) + self.mean.sum()  # type: ignore[no-any-return]


def test_means_over_all_batches_forget_what_they_begin_with(tmp_path: Path) -> None:
    """Fault: first statistics were what running ones begin with and the difference to that, and lost their digits."""
    assert_same(*trained(MeansSoFar(), random(4, 5) / 100, labels(4, 3), nn.CrossEntropyLoss(), tmp_path / "p"))
