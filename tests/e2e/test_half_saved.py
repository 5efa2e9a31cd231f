"""Activations in half precision: agrees with PyTorch that saves them so, for any number of cores; mistakes show."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.check.verify import verify
from trainlib_deployer.folder import read_plan
from trainlib_deployer.run.host import Host
from trainlib_deployer.run.record import read_record

STEPS = 2


class Residual(nn.Module):
    """Odd shapes, convolutions of one shape, a sum, and both kernels and loops that read halves."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 7, 3, padding=1)
        self.second = nn.Conv2d(7, 7, 3, padding=1)
        self.third = nn.Conv2d(7, 7, 3, padding=1)
        self.last = nn.Conv2d(7, 4, 3, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sigmoid(self.first(x))
        x = x + nn.functional.gelu(self.second(x))
        x = nn.functional.softplus(self.third(x))
        return self.last(x)


def deployed(folder: Path) -> Deployment:
    """Targets far off, so that gradients of one sign add up: then a bias of the rounding does, too."""
    torch.manual_seed(5)
    net = Residual()
    data = [(torch.randn(3, 3, 19, 15), 4 + torch.randn(3, 4, 9, 7)) for _ in range(STEPS)]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    options: dict[str, Any] = {"cores": 8, "l1": "64k", "l2": "200k", "steps": STEPS, "out": folder}
    return deploy(net, *data[0], loss=nn.MSELoss(), optimizer=optimizer, data=data, saved="fp16", **options)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    return deployed(tmp_path_factory.mktemp("half") / "net")


def results(folder: Path, cores: int, poison: bool = False) -> dict[tuple[int, str, str], bytes]:
    path = folder / "record.bin"
    Host(poison=poison).run(folder, STEPS, cores, path)
    return {key: value.tobytes() for key, value in read_record(path, read_plan(folder)["trace"]).items()}


def test_agrees_with_pytorch_and_the_same_bits_everywhere(project: Deployment) -> None:
    kept = [n for n, t in read_plan(project.folder)["tensors"].items() if t["dtype"] == "F16"]
    assert len(kept) > 2
    project.verify().raise_if_failed()
    one = results(project.folder, 1)
    assert len(one) > 20
    assert results(project.folder, 3, poison=True) == results(project.folder, 8) == one


class Furthest(nn.Module):
    """The backward pass looks for a maximum and a minimum, of numbers and of what it works out of others."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(11, 96), nn.Linear(96, 96), nn.Linear(96, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.first(x))
        y = nn.functional.gelu(self.second(x.amax(0, keepdim=True).sin() + x.cos()))
        z: torch.Tensor = self.last(y - (1.5 * y).amin(1, keepdim=True))
        return z


def test_what_is_looked_for_is_kept_as_it_is(tmp_path: Path) -> None:
    """Fault: rounded, none of them was equal to the maximum, and its gradient 0 / 0."""
    torch.manual_seed(7)
    data = torch.randn(13, 11), torch.randn(13, 5)
    made = deploy(Furthest(), *data, loss=nn.MSELoss(), l1="128k", steps=2, saved="fp16", out=tmp_path / "net")
    run = made.verify()
    run.raise_if_failed()
    assert not run.unjudged and any(t["dtype"] == "F16" for t in read_plan(made.folder)["tensors"].values())


def truncated(folder: Path) -> None:
    header = folder / "kernels" / "tl_half.h"
    text = header.read_text()
    assert " + 0xfffu + (size >> 13 & 1u)" in text
    header.write_text(text.replace(" + 0xfffu + (size >> 13 & 1u)", ""))


def of_another_tensor(folder: Path) -> None:
    """The weight gradient of the third convolution meets the input of the second one, which has the same shape."""
    source = folder / "net.c"
    text = source.read_text()
    start = text.index("streams_net_add_restored1[] = {")
    table = text[start : text.index("};", start)]
    assert table.count("net_add_half") == 1
    source.write_text(text.replace(table, table.replace("net_add_half", "net_sigmoid_half")))


@pytest.mark.parametrize("mistake", [truncated, of_another_tensor])
def test_a_mistake_is_caught(mistake: Callable[[Path], None], project: Deployment, tmp_path: Path) -> None:
    folder = tmp_path / "net"
    shutil.copytree(project.folder, folder, ignore=shutil.ignore_patterns("build"))
    mistake(folder)
    assert not verify(folder, task=project.task).passed
