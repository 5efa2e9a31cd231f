"""A fixed part of PyTorch's own table of modules; `make suites` runs all of it."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

from tests.suites import tables
from tests.suites.subjects import Branch, side_by_side
from tests.suites.trial import VERIFIED, against_eager, attempt, deployed, draws_numbers
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
