"""Weights that are halves: rounded by chance as the reference's are, in the same bits everywhere, saved and loaded."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.e2e.test_mixed import STEPS, Mixed, bits, results
from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.check.verify import verify
from trainlib_deployer.errors import Unsupported, UsageError
from trainlib_deployer.folder import read_plan
from trainlib_deployer.run.session import Session


class WithTable(Mixed):
    """Weights that kernels read as floats, too: an embedding's, a depthwise convolution's, biases."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 5)

    def forward(self, x: torch.Tensor, which: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return super().forward(x) + self.table(which)


class Own(torch.optim.SGD):
    """An optimizer of the user's, which is traced, with a mean that begins with the weights."""

    def step(self, closure: object = None) -> None:  # type: ignore[override]
        with torch.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    mean = self.state[p].setdefault("mean", p.clone())
                    p.sub_(group["lr"] * (p.grad + 0.01 * mean))
                    mean.lerp_(p, 0.5)


class Bounded(nn.Sequential):
    """Its forward writes weights."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self[0].weight.mul_(0.97).clamp_(-0.2, 0.2)
        return super().forward(x)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    torch.manual_seed(7)
    net = WithTable()
    data = [((torch.randn(3, 3, 13, 11), torch.randint(11, (3,))), torch.randint(5, (3,))) for _ in range(STEPS)]
    return deploy(
        net,
        *data[0],
        optimizer=torch.optim.AdamW(net.parameters(), lr=0.003),
        data=data,
        dtype="fp16",
        keep="norm",
        loss_scale=64,
        cores=8,
        l1="20k",
        l2="400k",
        steps=STEPS,
        out=tmp_path_factory.mktemp("fp16") / "net",
    )


def test_agrees_with_pytorch_and_the_same_bits_everywhere(project: Deployment) -> None:
    plan = read_plan(project.folder)
    kinds = {n: t["dtype"] for n, t in plan["tensors"].items() if t["role"] == "parameter"}
    assert {n for n, d in kinds.items() if d == "F32"} == {"norm.weight", "norm.bias"} and len(kinds) > 12
    verify(project.folder).raise_if_failed()
    one = bits(results(project.folder, 1))
    assert bits(results(project.folder, 3, poison=True)) == one


def test_the_project_judges_halves_itself(project: Deployment) -> None:
    """Fault: its own check looked at floats alone."""
    command = ["make", "-s", "-C", project.folder, "host"]
    said = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    found = re.search(r"PASS: (\d+) of \1 tensors", said)
    floats = [t for t in read_plan(project.folder)["trace"] if t["dtype"] == "F32"]
    assert found and int(found[1]) > STEPS * len(floats), said


def test_weights_that_overflow_are_infinite_as_in_pytorch(tmp_path: Path) -> None:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(13, 9), nn.Tanh(), nn.Linear(9, 4))
    data = [(torch.randn(5, 13), torch.randn(5, 4)) for _ in range(2)]
    optimizer = torch.optim.SGD(net.parameters(), lr=1e6)
    given = {"loss": nn.MSELoss(), "optimizer": optimizer, "data": data, "dtype": "fp16", "steps": 2}
    run = deploy(net, *data[0], **given, out=tmp_path / "net").verify()
    run.raise_if_failed()


def test_the_users_own_optimizer_leaves_halves(tmp_path: Path) -> None:
    """A linear layer of one example, by a matrix of halves; accumulated gradients; a mean of halves."""
    torch.manual_seed(8)
    net = nn.Sequential(nn.Linear(13, 67), nn.Tanh(), nn.Linear(67, 3))
    data = [(torch.randn(1, 13), torch.randn(1, 3)) for _ in range(4)]
    optimizer = Own(net.parameters(), lr=0.05)
    out = deploy(
        net, *data[0], optimizer=optimizer, data=data, dtype="fp16", accumulate=2, steps=2, out=tmp_path / "net"
    )
    out.verify().raise_if_failed()


def test_what_is_learned_is_told_saved_and_given_back(project: Deployment, tmp_path: Path) -> None:
    one, other = Session(project.folder), Session(project.folder)
    x, y = (torch.randn(3, 3, 13, 11), torch.tensor([0, 9, 3])), torch.tensor([0, 3, 1])
    before = one.state_dict()
    one.step(x, y)
    learned = one.state_dict()
    table = learned["table.weight"]
    assert table.dtype is torch.float32 and torch.equal(table, table.half().float())
    assert not torch.equal(table, before["table.weight"])
    one.save(tmp_path / "state.bin")
    other.load(tmp_path / "state.bin")
    assert one.image() == other.image() and one.step(x, y) == other.step(x, y)
    other.load_state_dict({n: v * 1.5 if v.is_floating_point() else v for n, v in learned.items()})
    assert torch.allclose(other.state_dict()["table.weight"], table * 1.5, rtol=2**-10)
    with pytest.raises(UsageError, match=r"'table.weight' has values that do not fit the program's float16"):
        other.load_state_dict(learned | {"table.weight": table + 7e4})


def test_weights_that_are_no_halves_are_refused(tmp_path: Path) -> None:
    net = Bounded(nn.Linear(5, 3))
    given = torch.randn(2, 5), torch.randn(2, 3)
    with pytest.raises(Unsupported, match=r"forward writes the parameter '0.weight'.*--keep fp32=0"):
        deploy(net, *given, dtype="fp16", out=tmp_path / "net")
    net[0].weight.data[1, 2] = -70000
    with pytest.raises(Unsupported, match=r"'0.weight' goes up to 70,000, beyond half precision's 65,504.*fp32=0"):
        deploy(net, *given, dtype="fp16", out=tmp_path / "net")


def test_other_random_numbers_are_caught(project: Deployment, tmp_path: Path) -> None:
    """Then every weight is rounded towards zero."""
    folder = tmp_path / "net"
    shutil.copytree(project.folder, folder, ignore=shutil.ignore_patterns("build"))
    header = folder / "kernels" / "tl_half.h"
    text = header.read_text()
    assert "size + (word >> 19)" in text
    header.write_text(text.replace("size + (word >> 19)", "size + (word >> 31)"))
    failed = [t for t in verify(folder, task=project.task).verdict.tensors if not t.passed]
    assert {t.kind for t in failed} == {"parameter"} and len(failed) > 10
