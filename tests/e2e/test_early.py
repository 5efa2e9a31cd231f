"""Tiles that come while operations before theirs are worked on: the same bits, wherever in between a transfer happens.

The host's transfers happen when they start, the emulated cluster's when they are awaited: a source that is written
after the start shows on the one, a tile that nobody awaits on the other."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.e2e.simulators import SIMULATORS, needs
from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.folder import read_plan
from trainlib_deployer.run.host import Host
from trainlib_deployer.run.record import read_record

STUBS = Path(__file__).resolve().parents[1] / "stubs" / "pulp"
STEPS, CORES = 2, 5
Recorded = dict[tuple[int, str, str], bytes]


def deployed(folder: Path, l1: str) -> Deployment:
    torch.manual_seed(4)
    layers = (nn.Conv2d(2, 7, 3, padding=1), nn.BatchNorm2d(7), nn.ReLU(), nn.Conv2d(7, 10, 3, stride=2), nn.ReLU())
    net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(10 * 6 * 5, 31), nn.Tanh(), nn.Linear(31, 66))
    data = [(torch.randn(2, 2, 14, 11), torch.randn(2, 66)) for _ in range(STEPS)]
    momentum = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    options = {"loss": nn.MSELoss(), "optimizer": momentum, "steps": STEPS, "cores": CORES}
    return deploy(net, *data[0], data=data, l1=l1, l2="1M", out=folder, **options)


@pytest.fixture(scope="module")
def early(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("early") / "project"
    tilings = deployed(folder, "26k").plan.tilings.values()
    assert any(s.found is not None for t in tilings for s in t.streams)  # where the operation before left it
    assert any(t.lingers is not None for t in tilings)
    found = [op["early"] for op in read_plan(folder)["ops"] if op["early"]]
    assert len(found) >= 8 and all(e["moved"] > 0 and e["tensors"] for e in found)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("whole") / "project"
    deployed(folder, "128M")
    assert not any(op["early"] for op in read_plan(folder)["ops"])
    return record(folder, CORES)


def record(folder: Path, cores: int, poison: bool = False) -> Recorded:
    path = folder / "record.bin"
    path.unlink(missing_ok=True)
    Host(poison=poison).run(folder, STEPS, cores, path)
    return bits(folder, path)


def bits(folder: Path, path: Path) -> Recorded:
    """By step and name: tensors are complete in another order where operations are others."""
    return {key: value.tobytes() for key, value in read_record(path, read_plan(folder)["trace"]).items()}


@pytest.mark.parametrize("cores", [1, 2, 5])
def test_same_bits_as_without_tiles(cores: int, early: Path, whole: Recorded) -> None:
    assert len(whole) > 30
    assert record(early, cores) == whole
    assert record(early, cores, poison=True) == whole


def test_what_is_updated_in_place_may_come_early(whole: Recorded, tmp_path: Path) -> None:
    """Its results leave from the second buffer, too, which lies apart from the first one."""
    made = deployed(tmp_path / "project", "38k")
    tilings = made.plan.tilings.values()
    shared = [(t.streams[s.shares], s) for t in tilings for s in t.streams if s.shares is not None]
    assert any(owner.early and s.buffers == 2 for owner, s in shared)
    assert record(made.folder, CORES) == whole


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_same_bits_where_transfers_happen_when_awaited(simulator: str, early: Path, whole: Recorded) -> None:
    needs(simulator)
    SIMULATORS[simulator]("clang").run(early, STEPS, None, early / "late.bin")
    assert bits(early, early / "late.bin") == whole


@pytest.mark.parametrize("goals", [("host",), ("clean", "all", "run")], ids=["host", "gvsoc"])
def test_a_profile_counts_bytes_where_they_are_started(goals: tuple[str, ...], early: Path) -> None:
    environment = {**os.environ, **({"RULES_DIR": str(STUBS)} if "all" in goals else {})}
    command = ["make", "-s", "-C", str(early), *goals, "PROFILE=1"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "PASS" in done.stdout, done.stdout + done.stderr
    rows = re.findall(r"^ +((?:\d+ +)+)[\d.]+ +\d+ +[\d.]+  .*$", done.stdout, re.MULTILINE)
    moved = [int(row.split()[-2]) for row in rows]
    assert moved[:-1] == [op["moved"] for op in read_plan(early)["ops"]]
    assert moved[-1] == read_plan(early)["traffic"]["bytes"]
