"""Gradients of several samples an update, clipped gradients, scheduled learning rates, modules beside net.py."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from golden import reference
from golden.task import Task
from trainlib_deployer import pipeline
from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.check.verify import verify
from trainlib_deployer.errors import Unsupported, UsageError
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.options import Options
from trainlib_deployer.user import load_model as user_model


class Net(nn.Module):
    """Batch norm (its statistics move with every sample), dropout, odd shapes, a scalar parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(2, 3, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Flatten(), nn.Dropout(0.2))
        self.head = nn.Linear(15, 5)
        self.gain = nn.Parameter(torch.tensor(0.7))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x)) * self.gain  # type: ignore[no-any-return]


def deployed(out: Path, optimizer: Any = None, **options: Any) -> Deployment:
    torch.manual_seed(2)
    net = Net()
    data = [((torch.randn(3, 2, 7),), torch.randn(3, 5)) for _ in range(11)]
    made = optimizer(net.parameters()) if optimizer else torch.optim.AdamW(net.parameters(), lr=0.01)
    schedule = options.pop("schedule", None)
    options = {"steps": 3, "l1": "128M", **options, "scheduler": schedule(made) if schedule else None}
    return deploy(
        net, *data[0], loss=lambda o, t: (o - t).square().mean(), optimizer=made, data=data, out=out, **options
    )


def momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, dampening=0.5)


def test_accumulation_and_clipping_by_norm(project: Path) -> None:
    """Each of 2 * 3 steps is checked; parameters move in every third. Clipped are the accumulated gradients."""
    made = deployed(project, momentum, steps=2, accumulate=3, clip_grad_norm=0.05)
    result = made.verify()
    result.raise_if_failed()
    assert (result.steps, len(result.losses)) == (2, 6)
    states = [result.computed[s, "parameter", "head.weight"] for s in range(6)]
    assert [s for s in range(1, 6) if (states[s] != states[s - 1]).any()] == [2, 5]
    means = [result.computed[s, "state", "body.1.running_mean"] for s in range(6)]
    assert all((a != b).any() for a, b in pairwise(means))
    source = (project / "net.c").read_text()
    assert "head.weight: accumulate */" in source and "head.weight: sgd" in source
    assert "% NET_ACCUMULATE == 0" in source
    (project / "net.c").write_text(source.replace("% NET_ACCUMULATE == 0", "% NET_ACCUMULATE == 1"))
    assert not made.verify().passed
    (project / "net.c").write_text(source)
    loops = (project / "loops.c").read_text()
    assert loops.count("0.33333334f") > 1
    (project / "loops.c").write_text(loops.replace("0.33333334f", "0.34f"))
    failed = made.verify().verdict.first_failure
    assert failed is not None and (failed.kind, failed.step) == ("gradient", 0)
    assert loops.count("0.05f") == 1
    (project / "loops.c").write_text(loops.replace("0.05f", "0.06f"))
    failed = made.verify().verdict.first_failure
    assert failed is not None and (failed.kind, failed.step) == ("parameter", 2)


def test_accumulation_is_what_people_write() -> None:
    """The reference's own accumulation against a loop over backward passes of loss / N."""
    torch.manual_seed(4)
    net = nn.Linear(3, 2)
    data = [((torch.randn(1, 3),), torch.randn(1, 2)) for _ in range(4)]
    task = Task(net, nn.MSELoss(), data, "SGD", [({"lr": 0.5}, ["weight", "bias"])], accumulate=2)
    record = reference.run(task, 4, torch.float32)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    for i, (x, y) in enumerate(data):
        (nn.MSELoss()(net(*x), y) / 2).backward()
        if i % 2:
            optimizer.step()
            optimizer.zero_grad()
        assert torch.equal(torch.from_numpy(record[i, "parameter", "weight"]), net.weight)


def test_a_large_limit_and_clipping_by_value(project: Path) -> None:
    """A norm below its limit changes nothing; values are cut at theirs."""
    made = deployed(project, clip_grad_norm=1e6, clip_grad_value=0.02)
    made.verify().raise_if_failed()
    assert "head.weight: adamw" in (project / "net.c").read_text()
    loops = (project / "loops.c").read_text()
    assert "0.02f" in loops
    (project / "loops.c").write_text(loops.replace("0.02f", "0.021f"))
    failed = made.verify().verdict.first_failure
    assert failed is not None and failed.kind in ("state", "parameter") and failed.step == 0


def two_groups(parameters: Any) -> torch.optim.Optimizer:
    first, *others = parameters
    return torch.optim.SGD([{"params": [first], "lr": 0.3}, {"params": others}], lr=0.1)


def warm_up(optimizer: torch.optim.Optimizer) -> lr_scheduler.LRScheduler:
    parts = [lr_scheduler.LinearLR(optimizer, 0.2, total_iters=2), lr_scheduler.ExponentialLR(optimizer, 0.5)]
    return lr_scheduler.SequentialLR(optimizer, parts, [2])


def test_schedule(project: Path) -> None:
    made = deployed(project, two_groups, schedule=warm_up, steps=4, accumulate=2)
    made.verify().raise_if_failed()
    main = (project / "main.c").read_text()
    assert "    0.06f, 0.18f, 0.3f, 0.15f,\n};" in main
    (project / "main.c").write_text(main.replace("0.15f,", "0.16f,"))
    failed = made.verify().verdict.first_failure
    assert failed is not None and (failed.kind, failed.step) == ("parameter", 7)
    with pytest.raises(UsageError, match="covers 4 updates"):
        made.verify(steps=5)


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"schedule": lambda o: lr_scheduler.ReduceLROnPlateau(o, "max")}, Unsupported, "something else than the loss"),
    ({"schedule": lambda o: lr_scheduler.LambdaLR(o, [lambda e: e, lambda e: 1])}, Unsupported, "ratio of the groups"),
    ({"schedule": lambda o: lr_scheduler.StepLR(momentum(nn.Linear(1, 1).parameters()), 1)}, UsageError, "another"),
    ({"schedule": lambda o: 3}, UsageError, "'scheduler' is an int"),
    ({"clip_grad_norm": 0.0}, UsageError, "clip_grad_norm is 0.0"),
    ({"clip_grad_value": "1"}, UsageError, "clip_grad_value is '1'"),
    ({"accumulate": 0}, UsageError, "accumulate is 0"),
]


@pytest.mark.parametrize(("options", "error", "message"), REFUSED, ids=[m for _, _, m in REFUSED])
def test_refused(options: dict[str, Any], error: type[Exception], message: str, project: Path) -> None:
    one_cycle = message == "more than the learning rate"
    with pytest.raises(error, match=message):
        deployed(project, momentum if one_cycle else two_groups, **options)


NET = """
import random
import torch
from torch import nn
from torch.optim import lr_scheduler
from shapes import WIDTH
from parts.layers import Scaled

scale = random.random() + float(torch.rand(()))
model = nn.Sequential(nn.Linear(3, WIDTH), Scaled(scale), nn.Linear(WIDTH, 2))
loss = lambda output, target: (output - target).abs().sum() * scale
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scheduler = lr_scheduler.StepLR(optimizer, 1, 0.5)
clip_grad_norm = 0.7
example_input, example_target = torch.randn(2, 3), torch.randn(2, 2)
"""
LAYERS = """
from torch import nn

class Scaled(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x):
        return x * self.by
"""


def test_from_a_file(tmp_path: Path, project: Path) -> None:
    """Module-level settings; random numbers drawn while importing; modules beside the file. Then without them."""
    for name, text in {
        "net.py": NET,
        "shapes.py": "WIDTH = 7\n",
        "parts/layers.py": LAYERS,
        "other.py": "1 / 0",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    user = user_model.load(str(tmp_path / "net.py"), steps=3, accumulate=2)
    assert (len(user.samples), user.schedule.rates, user.clip_norm) == (6, (0.01, 0.005, 0.0025), 0.7)
    pipeline.deploy_user_model(user, Options(resolve(None, None, "1M", None), project, 3, 2))
    for name in ("shapes.py", "parts/layers.py", "net.py"):
        (tmp_path / name).unlink()
    assert not (project / "model" / "other.py").exists()
    verify(project).raise_if_failed()
    done = subprocess.run([sys.executable, str(project / "golden.py")], capture_output=True, text=True, check=False)
    assert done.stdout.count("step") == 6, done.stderr
    spec = json.loads((project / "model" / "spec.json").read_text())
    assert (spec["clip_norm"], spec["accumulate"]) == (0.7, 2)
