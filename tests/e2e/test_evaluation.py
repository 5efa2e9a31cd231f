"""Evaluations of a training project as after model.eval(), in a batch of their own: against PyTorch, and against the
project of the forward pass alone."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from trainlib_deployer import Deployment, deploy
from trainlib_deployer.errors import Unsupported, UsageError

BATCH = 7


class Net(nn.Module):
    """Statistics, dropout, a counter of its own in forward, bytes that training changes, and two results."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3, padding=1)
        self.norm = nn.BatchNorm2d(5, momentum=0.3)
        self.rest = nn.Sequential(nn.Flatten(), nn.Dropout(0.4), nn.Linear(5 * 25, 4))
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("seen", torch.tensor([True, False, True]))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.calls += 1
        if self.training:
            self.seen = self.seen.logical_not()
        hidden = torch.relu(self.norm(self.conv(x)))
        return {"scores": self.rest(hidden) + 0.1 * self.seen.float()[0], "hidden": hidden.mean((2, 3))}


def loss(output: dict[str, torch.Tensor], target: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(output["scores"], target) + 0.01 * output["hidden"].square().mean()


def right(output: dict[str, torch.Tensor], target: torch.Tensor) -> torch.Tensor:
    return (output["scores"].argmax(1) == target).float().mean()


def made(folder: Path, batch: int | None, **others: Any) -> tuple[Deployment, nn.Module]:
    torch.manual_seed(5)
    model = Net()
    x, y = torch.randn(BATCH, 3, 5, 5), torch.randint(4, (BATCH,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    settings = {"loss": loss, "optimizer": optimizer, "metrics": {"right": right}, "steps": 3, "l1": "8k", **others}
    found = deploy(copy.deepcopy(model), x, y, evaluate=True, batch=batch, out=folder, say=None, **rebound(settings))
    return found, model


def rebound(settings: dict[str, Any]) -> dict[str, Any]:
    """The optimizer as a function of the copy's parameters."""
    return {**settings, "optimizer": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)}


@pytest.mark.parametrize(("batch", "others"), [(1, {}), (3, {"accumulate": 2}), (None, {"saved": "fp16"})])
def test_as_after_eval(batch: int | None, others: dict[str, Any], tmp_path: Path) -> None:
    deployment, model = made(tmp_path / "net", batch, **others)
    assert deployment.verify().passed
    session, count = deployment.session, batch or BATCH
    torch.manual_seed(6)
    for _ in range(2):
        deployment.step(torch.randn(BATCH, 3, 5, 5), torch.randint(4, (BATCH,)))
    before = session.image()
    model.load_state_dict(deployment.state_dict())
    model.eval()
    x, y = torch.randn(count, 3, 5, 5), torch.randint(4, (count,))
    with torch.no_grad():
        wanted = model(x)
        told = deployment.evaluate(x, y)
        assert told == pytest.approx(float(loss(wanted, y)), rel=1e-5)
    found = deployment.predict(x)
    for name, value in wanted.items():
        assert torch.allclose(found[name], value, rtol=1e-4, atol=1e-5), name
    assert session.image() == before, "an evaluation leaves everything as it is"
    alone = deploy(model.train(), x, inference=True, cores=3, l1="64k", out=tmp_path / "alone", steps=1)
    for name, value in alone.predict(x).items():
        assert torch.equal(found[name], value), name


def test_first_examples_alone_count(tmp_path: Path) -> None:
    """Fault: what lies behind them in the sample's place."""
    deployment, _ = made(tmp_path / "net", 2)
    x, y = torch.randn(2, 3, 5, 5), torch.randint(4, (2,))
    first = deployment.session.evaluate(x, y)
    deployment.predict(torch.randn(2, 3, 5, 5))
    deployment.step(torch.full((BATCH, 3, 5, 5), 1e3), torch.zeros(BATCH, dtype=torch.int64), learning_rate=0.0)
    deployment.load_state_dict(deployment.task.module.state_dict())  # type: ignore[union-attr]
    assert deployment.session.evaluate(x, y) == first


class Auxiliary(nn.Module):
    """Other results as it trains, or a larger one."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.layer, self.how = nn.Linear(6, 3), how

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.layer(x)
        if not self.training:
            return {"main": torch.cat([y, y]) if self.how == "larger" else y}
        return {"main": y} if self.how == "larger" else {"main": y, "more": y.exp()}


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("fewer", "returns nothing as 'more' in eval mode, and 4x3"),
        ("larger", "returns 8x3 float32 as 'main' in eval mode"),
    ],
)
def test_other_results_as_it_trains(how: str, words: str, tmp_path: Path) -> None:
    """Fault: a traceback."""
    x, y = torch.randn(4, 6), torch.randn(4, 3)
    with pytest.raises(Unsupported, match=words):
        deploy(
            Auxiliary(how),
            x,
            y,
            loss=lambda o, t: (o["main"][:4] - t).square().mean(),
            evaluate=True,
            out=tmp_path / "p",
        )


def test_a_batch_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at most the 7 examples of a training step, not 8"):
        made(tmp_path / "net", 8)
    with pytest.raises(UsageError, match="a batch of its own goes with inference or an evaluation"):
        deploy(nn.Linear(3, 2), torch.randn(5, 3), torch.randn(5, 2), batch=2, out=tmp_path / "net")
    assert not list(itertools.islice(tmp_path.iterdir(), 1))
