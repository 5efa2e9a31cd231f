"""Loss scaling in C: the decisions of PyTorch's GradScaler, also when gradients overflow and data is no number."""

from __future__ import annotations

import ctypes
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.check.verify import Verification
from trainlib_deployer.run.session import Session

STEPS, ACCUMULATE = 6, 2


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """The scale begins so large that the first updates overflow, and grows with each that does not."""
    torch.manual_seed(1)
    net = nn.Sequential(nn.Conv2d(2, 5, 3, bias=False), nn.BatchNorm2d(5), nn.ReLU(), nn.Flatten(), nn.Linear(75, 4))
    data = [(torch.randn(3, 2, 7, 5), torch.randint(4, (3,))) for _ in range(STEPS * ACCUMULATE)]
    return deploy(
        net,
        *data[0],
        data=data,
        loss=nn.CrossEntropyLoss(),
        optimizer=torch.optim.RAdam(net.parameters(), lr=0.01),
        dtype="mixed",
        loss_scale="dynamic:1048576:2",
        accumulate=ACCUMULATE,
        steps=STEPS,
        cores=3,
        l1="1M",
        out=tmp_path_factory.mktemp("scaled") / "net",
    )


def counted(run: Verification, label: str) -> list[float]:
    """After each update."""
    ends = range(ACCUMULATE - 1, STEPS * ACCUMULATE, ACCUMULATE)
    return [float(run.computed[s, "state", f"loss_scale.{label}"]) for s in ends]


def test_the_decisions_are_those_of_pytorch(project: Deployment) -> None:
    run = project.verify()
    run.raise_if_failed()
    scales, skipped = counted(run, "scale"), counted(run, "skipped")
    assert skipped[0] == 1 and 0 in skipped
    assert min(scales) < scales[0] == 524288 and max(scales[2:]) > min(scales)
    assert counted(run, "updates")[-1] == skipped.count(0)
    judged = {(t.kind, t.name, t.step) for t in run.verdict.tensors if t.compared}
    assert all(("state", "loss_scale.skipped", s) in judged for s in range(STEPS * ACCUMULATE))


def test_what_is_no_number_is_skipped_and_told(project: Deployment) -> None:
    session = Session(project.folder)
    session.library.net_loss_scale.restype = ctypes.c_float
    before = session.state_dict()
    x, y = torch.randn(3, 2, 7, 5), torch.tensor([0, 3, 1])
    losses = [session.step(x * float("nan"), y) for _ in range(ACCUMULATE)]
    assert all(math.isnan(v) for v in losses) and session.library.net_skipped() == 1
    after = session.state_dict()
    weights = [n for n in after if "running" not in n and "batches" not in n]
    assert len(weights) == 5 and all(torch.equal(after[n], before[n]) for n in weights)
    assert session.library.net_loss_scale() == 524288
    for _ in range(400):
        session.step(x * float("nan"), y)
    assert session.library.net_loss_scale() == torch.finfo(torch.float32).tiny  # not zero, whose reciprocal is none


def test_it_is_saved_with_what_is_learned(project: Deployment, tmp_path: Path) -> None:
    one, other = Session(project.folder), Session(project.folder)
    x, y = torch.randn(3, 2, 7, 5), torch.tensor([0, 3, 1])
    for _ in range(2 * ACCUMULATE):
        one.step(x, y)
    one.save(tmp_path / "state.bin")
    other.load(tmp_path / "state.bin")
    for session in (one, other):
        for _ in range(2 * ACCUMULATE):
            session.step(x, y)
    assert one.image() == other.image()


def test_what_underflows_is_kept_by_a_scale(tmp_path: Path) -> None:
    """Gradients of 1e-9 are zero as halves; by 65536 they are none."""
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    data = [(torch.randn(4, 5), torch.randn(4, 3))]
    largest = []
    for scale in (None, 65536):
        given: dict[str, Any] = {"loss": faint, "loss_scale": scale, "out": tmp_path / str(scale)}
        run = deploy(net, *data[0], data=data, steps=1, dtype="mixed", **given).verify()
        run.raise_if_failed()
        largest.append(abs(run.computed[0, "gradient", "0.weight"]).max() / (scale or 1))
    assert largest[0] == 0.0
    assert 1e-11 < largest[1] < 1e-7


def faint(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return ((output - target) ** 2).mean() * 1e-8
