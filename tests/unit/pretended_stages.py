"""Stages that only remember what they were asked, for tests of the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from golden.compare import TensorVerdict, Verdict
from trainlib_deployer import pipeline
from trainlib_deployer.check import verify
from trainlib_deployer.cli import spoken
from trainlib_deployer.cli.main import cli
from trainlib_deployer.folder import replaced_folder
from trainlib_deployer.options import Options
from trainlib_deployer.run.host import Host
from trainlib_deployer.user.model import UserModel

NET = """\
import torch
from torch import nn
print("loading")
model = nn.Linear(5, 3)
example_input = torch.randn(2, 5)
example_target = torch.tensor([2, 0])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
LEVEL = {"size": 65536, "used": 12345, "peak_live": 12001, "lower_bound": 12000, "stacks": 8192, "headroom": 53191}
BUFFER = {"level": "L1", "birth": 0, "death": 1, "layer": "", "aliases": []}
PLAN = {
    "tool": {"name": "trainlib-deploy", "version": "0"},
    "model": {"name": "net", "steps": 5, "parameters": {"total": 1818, "trained": 1515}},
    "target": {"name": "pulp-open", "cores": 8, "working": 8, "l1": 65536, "l2": 524288},
    "levels": {"L1": LEVEL, "L2": {**LEVEL, "size": 0, "used": 0}},
    "buffers": [
        {**BUFFER, "name": "weight", "offset": 0, "size": 60, "role": "parameter", "aliases": ["same"]},
        {**BUFFER, "name": "[red]weight.grad", "offset": 4660, "size": 60, "role": "gradient", "death": 0},
    ],
    "ops": [
        {
            "index": 0,
            "name": "linear",
            "kind": "matmul",
            "phase": "forward",
            "layer": "fc",
            "source": "net.py:4: model = x[0]",
        }
        | {"kernel": "tl_matmul", "macs": 3030, "tiles": 1, "reads": ["input"], "writes": ["output"]}
    ],
    "certificate": {"peak": 12345, "lower_bound": 12000, "gap": 345, "proved_optimal": False, "checked": True},
}


class Calls:
    """What the stages behind the command line were asked."""

    def __init__(self) -> None:
        self.options: Options | None = None
        self.user: UserModel | None = None
        self.fails: BaseException | None = None
        self.verified: list[tuple[Any, ...]] = []
        self.error = 1e-8


def pretended(monkeypatch: pytest.MonkeyPatch, place: Path) -> Calls:
    seen = Calls()

    def deploy(user: UserModel, options: Options, say: Any) -> None:
        seen.user, seen.options = user, options
        say("capturing")
        print("from forward")
        with replaced_folder(options.out) as folder:
            (folder / "plan.json").write_text(json.dumps(PLAN))
            if seen.fails is not None:
                raise seen.fails

    def verified(folder: Path, on: str, steps: int | None, cores: int | None, say: Any) -> verify.Verification:
        seen.verified.append((folder, on, steps))
        if seen.fails is not None:
            raise seen.fails
        tensors = (
            TensorVerdict("loss", "", "loss", 0, 0.0, 1e-6, True),
            TensorVerdict("fc.weight", "fc", "gradient", 1, seen.error, 1e-6, seen.error <= 1e-6),
        )
        computed = {(0, "loss", "loss"): np.ones(1, np.float32)}
        return verify.Verification(
            on, steps or 5, Verdict(tensors, ()), [1.5, 0.5], [1.5, 0.5], computed, {"instructions": 1234567}
        )

    monkeypatch.setattr(pipeline, "deploy_user_model", deploy)
    monkeypatch.setattr(verify, "verify", verified)
    monkeypatch.setattr(Host, "check_tools", lambda self: None)
    monkeypatch.setattr(spoken, "PATIENCE", 600.0)  # a busy machine says no more
    monkeypatch.chdir(place)
    Path("net.py").write_text(NET)
    return seen


def call(*args: str) -> Result:
    result = CliRunner().invoke(cli, args)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def existing_project() -> None:
    with replaced_folder(Path("out")) as folder:
        (folder / "plan.json").write_text(json.dumps(PLAN))
