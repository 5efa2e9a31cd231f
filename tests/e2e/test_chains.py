"""Loops that follow the tiles of other operations: the bits of the separate operations, fewer bytes moved."""

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
from trainlib_deployer.machine.targets import DEFAULT, TARGETS
from trainlib_deployer.plan import chains as planner
from trainlib_deployer.plan import setting
from trainlib_deployer.plan.chains import chained
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.setting import Setting
from trainlib_deployer.plan.ways import Way
from trainlib_deployer.program.chain import Chain
from trainlib_deployer.program.ir import Program, Role

Bits = dict[tuple[int, str, str], bytes]


class Small(nn.Module):
    """Convolutions, normalisations with fixed statistics and activations; one layer's result is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 10, 3, padding=1, bias=False), nn.BatchNorm2d(10), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(10, 22, 1), nn.ReLU(), nn.Conv2d(22, 10, 3, stride=2), nn.BatchNorm2d(10))
        self.head = nn.Linear(10 * 9 * 7, 70)
        self.tail = nn.Linear(70, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.second(self.first(x)).sigmoid()
        return self.tail(self.head(x.flatten(1)).relu())


def deployed(folder: Path, batch: int, **more: Any) -> Deployment:
    torch.manual_seed(11)
    model = Small()
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.uniform_(-0.5, 0.5)  # type: ignore[union-attr]
            layer.running_var.uniform_(0.5, 2.0)  # type: ignore[union-attr]
            layer.requires_grad_(False)
            layer.eval()
    sizes = {"cores": 4, "l1": "24k", "l2": "2M", **more}
    x, y = torch.randn(batch, 3, 19, 15), torch.randint(6, (batch,))
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    return deploy(model, x, y, optimizer=optimizer, steps=2, out=folder, **sizes)


def chains(made: Deployment) -> list[Chain]:
    return [op.kind for op in made.plan.program.ops if isinstance(op.kind, Chain)]


def bits(made: Deployment, cores: int = 4) -> Bits:
    result = made.verify(cores=cores)
    result.raise_if_failed()
    return {k: v.tobytes() for k, v in result.computed.items()}


def wherever_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the cycles; series, which would take some of the loops first, have tests of their own."""

    def dear(program: Program, resident: frozenset[str], left: list[int], chip: Machine, alone: list[Way]) -> Program:
        return chained(program, resident, left, chip, [replace(way, cycles=1e9) for way in alone])

    monkeypatch.setattr(setting, "chained", dear)
    monkeypatch.setattr(planner, "put_in_series", lambda draft: None)
    monkeypatch.setattr(Plan, "cycles", property(lambda plan: len(plan.program.ops)))


@pytest.mark.parametrize("batch", [1, 3])
def test_chains_give_the_bits_of_separate_operations(
    batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wherever_possible(monkeypatch)
    joint = deployed(tmp_path / "joint", batch)
    monkeypatch.setattr(Setting, "with_chains", None)
    separate = deployed(tmp_path / "separate", batch)
    whole = deployed(tmp_path / "whole", batch, l1="4M")
    assert not chains(separate) and not chains(whole)
    heads = {c.head.name for c in chains(joint)}
    assert heads >= {"conv2d_fw", "conv2d_bw_x", "matmul"} and (batch > 1 or "conv2d_bw_w" in heads), heads
    visits = [f for c in chains(joint) for f in c.followers if f.anchor >= 0]
    assert bool(visits) == (batch == 1)
    assert bits(joint) == bits(separate) == bits(whole)
    assert bits(joint, 1) == bits(joint, 3) == bits(whole)


def test_what_stays_inside_has_no_place_and_gradients_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wherever_possible(monkeypatch)
    made = deployed(tmp_path / "joint", 3)
    program, home = made.plan.program, made.plan.home
    inside = program.of_role(Role.INSIDE)
    assert len(inside) >= 5
    assert not [t.name for t in inside if t.name in home]
    gradients = {program.tensors[name].role for _, name in program.gradients}
    assert Role.RECORDED in gradients
    result = made.verify()
    result.raise_if_failed()
    assert {t.name for t in result.verdict.tensors if t.kind == "gradient"} == {name for name, _ in program.gradients}


def test_a_chain_is_made_where_it_pays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for price in (0, 10**6):
        chip = TARGETS[DEFAULT]
        costs = replace(chip.costs, tile=replace(chip.costs.tile, link=price))
        monkeypatch.setitem(TARGETS, DEFAULT, replace(chip, costs=costs))
        made = deployed(tmp_path / str(price), 3, l1="32k")
        found.append((len(chains(made)), read_plan(made.folder)["traffic"]["bytes"], made.plan.cycles))
    (cheap, moved, cycles), (dear, without, more) = found
    assert cheap > 0 and dear == 0
    assert moved < without and cycles < more, found
