"""Loops over the same lines, tile by tile: the bits of the separate loops, fewer bytes moved, no more memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.folder import read_plan
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.plan import chains, setting
from trainlib_deployer.plan.chains import chained
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.ways import Way
from trainlib_deployer.program.ir import Program
from trainlib_deployer.program.series import Series

Bits = dict[tuple[int, str, str], bytes]


class Norms(nn.Module):
    """Normalisations over several images, with what follows them; one result is read twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 11, 3, bias=False), nn.BatchNorm2d(11), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(11, 70, 1), nn.BatchNorm2d(70), nn.ReLU6())
        self.third = nn.Sequential(nn.GroupNorm(5, 70), nn.SiLU())
        self.fourth = nn.Sequential(nn.Conv2d(70, 9, 3, stride=2), nn.InstanceNorm2d(9, affine=True))
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(9 * 4 * 3, 6), nn.Softmax(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.second(self.first(x))
        return self.head(self.fourth(x + self.third(x)))


def deployed(folder: Path, **more: Any) -> Deployment:
    torch.manual_seed(17)
    model = Norms()
    sizes = {"cores": 4, "l1": "20k", "l2": "2M", **more}
    x, y = torch.randn(3, 3, 11, 9), torch.randn(3, 6)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    return deploy(model, x, y, loss=nn.MSELoss(), optimizer=optimizer, steps=1, out=folder, **sizes)


def series(made: Deployment) -> list[Series]:
    return [op.kind for op in made.plan.program.ops if isinstance(op.kind, Series)]


def bits(made: Deployment, cores: int = 4) -> Bits:
    result = made.verify(cores=cores)
    result.raise_if_failed()
    return {k: v.tobytes() for k, v in result.computed.items()}


def wherever_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the cycles."""

    def dear(program: Program, resident: frozenset[str], left: list[int], chip: Machine, alone: list[Way]) -> Program:
        return chained(program, resident, left, chip, [replace(way, cycles=1e9) for way in alone])

    monkeypatch.setattr(setting, "chained", dear)
    monkeypatch.setattr(Plan, "cycles", property(lambda plan: len(plan.program.ops)))


def test_series_give_the_bits_of_separate_loops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wherever_possible(monkeypatch)
    with monkeypatch.context() as without:
        without.setattr(chains, "put_in_series", lambda draft: None)
        apart = deployed(tmp_path / "apart")
    assert not series(apart)
    joint = deployed(tmp_path / "joint")
    assert max(len(s.stages) for s in series(joint)) >= 3 and len(series(joint)) >= 8
    wanted = bits(apart)
    assert bits(joint, 1) == wanted and bits(joint, 3) == wanted
    before, after = (read_plan(made.folder)["traffic"]["bytes"] for made in (apart, joint))
    assert after < before and joint.plan.outer.used <= apart.plan.outer.used
