"""A file of a user, as tests write it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from trainlib_deployer.errors import DeployError, UsageError
from trainlib_deployer.user.load_model import load
from trainlib_deployer.user.model import UserModel

HEAD = """\
import torch
from torch import nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self, classes=7):
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3)
        self.norm = nn.BatchNorm2d(5)
        self.fc = nn.Linear(5, classes)

    def forward(self, x):
        return self.fc(self.norm(self.conv(x)).mean((2, 3)))

"""
MODEL = "model = Net()\n"
EXAMPLE = "example_input = torch.randn(3, 3, 6, 5)\nexample_target = torch.tensor([0, 6, 2])\n"
GOOD = HEAD + MODEL + EXAMPLE


def write(tmp_path: Path, text: str, name: str = "net.py") -> str:
    (tmp_path / name).write_text(text)
    return str(tmp_path / name)


def user(tmp_path: Path, text: str, name: str = "", **options: Any) -> UserModel:
    return load(write(tmp_path, text) + name, **options)


def mistake(tmp_path: Path, text: str, name: str = "", **options: Any) -> DeployError:
    with pytest.raises(UsageError) as err:
        user(tmp_path, text, name, **options)
    return err.value


def same(a: UserModel, b: UserModel) -> bool:
    pairs = zip(a.samples, b.samples, strict=True)
    weights = zip(a.module.parameters(), b.module.parameters(), strict=True)
    return all(torch.equal(p, q) for p, q in weights) and all(
        torch.equal(x[0][0], y[0][0]) and torch.equal(x[1], y[1]) for x, y in pairs
    )


# ---- what works
