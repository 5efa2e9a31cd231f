"""PROFILE=1: what each operation costs, one line an operation, on the host and through the SDK's counters."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.e2e.simulators import SIMULATORS, needs
from trainlib_deployer.api import deploy
from trainlib_deployer.errors import UsageError

STUBS = Path(__file__).resolve().parents[1] / "stubs" / "pulp"
GOALS = {"host": ["host"], "gvsoc": ["clean", "all", "run"]}


class Quoted(nn.Module):
    """A layer whose name must be escaped in C."""

    def __init__(self) -> None:
        super().__init__()
        self.add_module('a"b\\', nn.Conv2d(3, 5, 3))
        self.out = nn.Linear(5 * 5 * 7, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.out(self.get_submodule('a"b\\')(x).relu().flatten(1))
        return y


@pytest.mark.parametrize("on", GOALS)
def test_one_line_an_operation_and_their_sum(on: str, tmp_path: Path) -> None:
    torch.manual_seed(3)
    data = [(torch.randn(1, 3, 7, 9), torch.tensor([2]))]
    folder = deploy(Quoted(), *data[0], data=data, out=tmp_path / "p", cores=3, l1="9k").folder
    environment = {**os.environ, **({"RULES_DIR": str(STUBS)} if on == "gvsoc" else {})}
    command = ["make", "-s", "-C", str(folder), *GOALS[on], "PROFILE=1"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS" in done.stdout
    rows = re.findall(r"^ +((?:\d+ +)+)([\d.]+) +(\d+) +([\d.]+)  (.*)$", done.stdout, re.MULTILINE)
    plan = json.loads((folder / "plan.json").read_text())
    operations = plan["ops"]
    assert len(rows) == len(operations) + 1
    assert [int(r[2]) for r in rows] == [*(o["macs"] or 0 for o in operations), sum(o["macs"] or 0 for o in operations)]
    cycles = [int(r[0].split()[0]) for r in rows]
    assert sum(cycles[:-1]) == cycles[-1] > 0
    assert float(rows[-1][1]) == pytest.approx(100)
    moved, waited = ([int(r[0].split()[column]) for r in rows] for column in (-2, -1))
    assert sum(moved[:-1]) == moved[-1] == plan["traffic"]["bytes"] > 0
    assert all(w <= c for w, c in zip(waited, cycles, strict=True))
    assert ("of the transfers' cycles hidden behind work" in done.stdout) is (on == "gvsoc")
    assert rows[0][4] == 'a"b\\: conv2d'
    for row, spent in zip(rows, cycles, strict=True):
        assert float(row[1]) == pytest.approx(100 * spent / cycles[-1], abs=0.051)
        assert float(row[3]) == pytest.approx(int(row[2]) / spent if spent else 0, abs=0.00051)


@pytest.mark.parametrize(
    ("on", "unit"), [("host", "nanoseconds"), ("gvsoc", "cycles"), ("qemu", "instructions"), ("spike", "instructions")]
)
def test_from_python(on: str, unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULES_DIR", str(STUBS))
    if on in SIMULATORS:
        needs(on)
    made = deploy(nn.Linear(7, 3), torch.randn(5, 7), torch.randint(3, (5,)), cores=2, l1="64k", out=tmp_path / "p")
    profile = made.profile(on, cores=2)
    assert [row["name"] for row in profile.rows] == [op.name for op in made.plan.program.ops]
    assert sum(row["macs"] or 0 for row in profile.rows) == sum(op.kind.macs() for op in made.plan.program.ops)
    assert (profile.on, profile.unit) == (on, unit) and profile.total == sum(row[unit] for row in profile.rows) > 0
    assert f"{profile.total:,} {unit} in {len(profile.rows)} operations, most in " in repr(profile)
    for cores in (0, 3):
        with pytest.raises(UsageError, match=f"cores is {cores}"):
            made.profile(on, cores=cores)
