"""One network at every size of L1 from 4 kB up: the same bits each time, or exit code 3 and what is missing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from golden.sketch import Key, Sketch
from tests.fuzz.build import CachedHost
from trainlib_deployer import passes
from trainlib_deployer.capture.step import capture
from trainlib_deployer.check.certificate import check_folder
from trainlib_deployer.check.judge import judge
from trainlib_deployer.check.verify import reference_sketches, task_of
from trainlib_deployer.emit.project import Project
from trainlib_deployer.errors import DoesNotFit
from trainlib_deployer.machine.machine import LEAN_STACK
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.ops.lower import lower
from trainlib_deployer.plan.build import fitted
from trainlib_deployer.plan.layout import INNER, fits
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.program.ir import Program
from trainlib_deployer.run.record import read_record
from trainlib_deployer.user.assemble import Parts, assemble
from trainlib_deployer.user.model import UserModel

Values = np.ndarray[Any, Any]
STEPS = 2
SIZES = (
    (4, 8),
    (6, 3),
    (8, 1),
    (12, 8),
    (16, 8),
    (20, 7),
    (24, 4),
    (32, 8),
    (48, 5),
    (64, 8),
    (96, 7),
    (128, 8),
)  # kB, cores


def net() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(
        *(nn.Conv2d(3, 10, 3, padding=1, bias=False), nn.BatchNorm2d(10), nn.ReLU()),
        *(nn.Conv2d(10, 10, 3, padding=1, groups=10, stride=2), nn.ReLU(), nn.Conv2d(10, 22, 1), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(22 * 5 * 4, 13)),
    )


@dataclass(frozen=True)
class Step:
    """The training step, derived once, and what PyTorch computes."""

    user: UserModel
    program: Program
    references: Mapping[Key, Sketch]
    store: Path  # compiled kernels

    def planned(self, kilobytes: int, cores: int) -> Plan:
        return fitted(self.program, resolve(None, cores, f"{kilobytes}k", "1M"), lambda line: None)

    def run(self, plan: Plan, folder: Path) -> dict[Key, Values]:
        folder.mkdir()
        project = Project(self.user, plan, STEPS)
        project.write(folder, self.references)
        check_folder(folder, project.listing)
        record = folder / "record.bin"
        CachedHost(self.store).run(folder, STEPS, plan.target.cores, record)
        return read_record(record, json.loads((folder / "plan.json").read_text())["trace"])


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Step:
    model = net()
    inputs = torch.randn(2, 3, 21, 17, generator=torch.Generator().manual_seed(7))
    parts = Parts(
        name="net",
        module=model,
        example_input=inputs,
        example_target=torch.tensor([4, 11]),
        loss=None,
        optimizer=torch.optim.SGD(model.parameters(), 0.05, momentum=0.9),
        data=None,
        input_shape=None,
        count=STEPS,
        where="the test",
    )
    user = assemble(parts)
    program = passes.run(lower(user, capture(user)))
    return Step(user, program, reference_sketches(task_of(user, 1), STEPS), tmp_path_factory.mktemp("objects"))


def bits(computed: dict[Key, Values]) -> dict[Key, bytes]:
    return {key: value.tobytes() for key, value in computed.items()}


def test_a_network_gives_the_same_bits_at_every_size_of_l1(step: Step, tmp_path: Path) -> None:
    untiled = step.planned(4096, 2)
    assert not untiled.tilings
    computed = step.run(untiled, tmp_path / "whole")
    trace = json.loads((tmp_path / "whole" / "plan.json").read_text())["trace"]
    assert judge(task_of(step.user, 1), computed, STEPS, trace).verdict.passed
    teams, rows = set(), set()
    for kilobytes, cores in SIZES:
        plan = step.planned(kilobytes, cores)
        teams |= {getattr(op.kind, "team", 0) for op in plan.program.ops}
        rows |= {getattr(op.kind, "most_rows", 0) for op in plan.program.ops}
        cut = sum(len(t.parts) > 1 for t in plan.tilings.values())
        least = 5 if kilobytes < 128 else 1  # with so much most of it lives in L1
        assert cut >= least, f"{kilobytes} kB: {cut} operations in tiles"
        found = bits(step.run(plan, tmp_path / str(kilobytes)))
        assert found == bits(computed), f"{kilobytes} kB of L1, {cores} cores"
    assert len(teams) > 2, "some operations have scratch for fewer cores than take part"
    assert len(rows) > 1, "some pack fewer weights at a time"


def test_a_small_l1_leaves_cores_out(step: Step) -> None:
    small = step.planned(8, 8)
    assert (small.target.cores, small.target.idle) == (3, 5)
    assert small.levels["L1"].stacks == 3 * LEAN_STACK
    asked = resolve(None, 8, "64k", "1M")
    assert step.planned(64, 8).target == asked and not asked.idle


@pytest.mark.parametrize(("kilobytes", "cores"), [(2, 1), (3, 2), (2, 5), (1, 6), (3, 8)])
def test_what_does_not_fit_says_how_much_is_enough(step: Step, kilobytes: int, cores: int) -> None:
    """The bytes that are missing: with so many it fits, with 16 fewer it does not."""
    with pytest.raises(DoesNotFit) as failure:
        step.planned(kilobytes, cores)
    assert failure.value.exit_code == 3
    found = re.search(r"L1: needs ([\d,]+) of [\d,]+ bytes: ([\d,]+) bytes over", failure.value.message)
    assert found is not None
    needed, over = (int(n.replace(",", "")) for n in found.groups())
    assert needed - over == kilobytes << 10
    enough = resolve(None, cores, needed, "1M")
    assert fits(fitted(step.program, enough, lambda line: None))
    with pytest.raises(DoesNotFit):
        fitted(step.program, enough.with_memory(INNER, needed - 16), lambda line: None)
