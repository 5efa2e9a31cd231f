"""A fixed part of PyTorch's own table of modules; `make suites` runs all of it."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.suites import tables
from tests.suites.subjects import Branch, Subject, side_by_side
from tests.suites.trial import VERIFIED, against_eager, attempt, deployed, draws_numbers, eager
from trainlib_deployer.errors import VerificationFailed

torch.set_num_threads(1)
FIRST = (
    "AvgPool2d, BatchNorm2d train, BatchNorm2d eval, BCEWithLogitsLoss, Bilinear, CELU, Conv1d, Conv2d, "
    "CrossEntropyLoss, Embedding, GLU, GroupNorm, GRUCell, Hardswish, HuberLoss, InstanceNorm2d train, MSELoss, "
    "LayerNorm, LazyConv2d, Linear, LogSoftmax, LPPool2d, MaxPool2d, PReLU, RMSNorm, SmoothL1Loss, ZeroPad2d"
).split(", ")


def first_samples() -> dict[str, Branch]:
    table = tables.modules()
    return {f"m{i}": next(table[f"module {name}"]()) for i, name in enumerate(FIRST)}


def test_first_samples_of_modules_verify(tmp_path: Path) -> None:
    subject = side_by_side("first samples", first_samples())
    found = attempt(subject, tmp_path / "project")
    assert found.kind == VERIFIED, found.detail
    assert not draws_numbers(subject.module, subject), "the comparison with eager PyTorch was left out"


def test_a_golden_model_that_lacks_a_part_is_noticed(tmp_path: Path) -> None:
    """What the program and the golden model both lack shows against plain PyTorch alone."""
    subject = side_by_side("linear", {"s": next(tables.modules()["module Linear"]())})
    untouched = copy.deepcopy(subject.module)
    found = deployed(subject, tmp_path / "project").verify()
    against_eager(untouched, subject, found)
    untouched = copy.deepcopy(subject.module)
    with torch.no_grad():
        next(untouched.parameters()).mul_(1.01)
    with pytest.raises(VerificationFailed, match="off from eager"):
        against_eager(untouched, subject, found)


class OddStrides(nn.Module):
    """In its second form, the norm's gradient lies as some transposes leave it, and PyTorch makes a wrong one of it."""

    def __init__(self, odd: bool) -> None:
        super().__init__()
        self.norm, self.fc, self.odd = nn.BatchNorm2d(5), nn.Conv2d(5, 3, 1), odd

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        if self.odd:
            h.register_hook(lambda g: torch.empty_strided(g.shape, (5, 1, 15, 5)).copy_(g))
        return self.fc(h)  # type: ignore[no-any-return]


def test_a_gradient_that_pytorch_has_wrong_is_held_against_nobody() -> None:
    torch.manual_seed(3)
    x, y = torch.randn(1, 5, 7, 3), torch.randn(1, 3, 7, 3)
    models = OddStrides(False), OddStrides(True)
    models[1].load_state_dict(models[0].state_dict())
    both = [eager(m, Subject("norm", m, [((x,), y)], nn.MSELoss())) for m in models]
    for key, value in both[0].items():
        assert np.allclose(both[1][key], value, atol=1e-6), key
