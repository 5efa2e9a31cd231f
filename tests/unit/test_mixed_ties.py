"""Gradients of maxima that are looked for among what they are of, in mixed precision."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from golden.halves import Halves
from golden.rounding import Rounding
from trainlib_deployer.api import deploy
from trainlib_deployer.check.verify import Verification

PLACES = torch.arange(2).view(1, 2, 1).expand(1, 2, 8)
MAXIMA: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "index_reduce": lambda x: x.index_reduce(1, torch.tensor([0, 1]), x.narrow(1, 0, 2), "amax"),
    "scatter_reduce": lambda x: x.scatter_reduce(1, PLACES, x, "amin"),
}


CHOSEN: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "max": torch.max,
    "median": torch.median,
    "nanmedian": torch.nanmedian,
    "aminmax": lambda x: torch.aminmax(x, dim=0)[1].sum(),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_the_reference_finds_what_was_chosen(name: str) -> None:
    """Fault: a median was rounded, in all runs or in those that are off by roundings, and its gradient 0 / 0."""
    x = torch.randn(5, 7).requires_grad_()
    for mode in (Halves(torch.float32, [x], chains=True), Rounding(3, torch.float32)):
        x.grad = None
        with mode:
            CHOSEN[name](torch.sigmoid(torch.tanh(x))).backward()  # type: ignore[no-untyped-call]
        assert x.grad is not None and x.grad.isfinite().all() and x.grad.any()


class Net(nn.Module):
    """Sums stay float; what a product reads is rounded."""

    def __init__(self, maximum: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(5, 8) for _ in range(3))
        self.act, self.last, self.maximum = nn.PReLU(), nn.Linear(8, 3), maximum

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.stack([layer(x) for layer in self.layers], -1).sum(-1)
        y: torch.Tensor = self.last(self.maximum(self.act(x)))
        return y


def trained(
    net: type[nn.Module], x: tuple[int, ...], y: tuple[int, ...], folder: Path, cores: int | None = None
) -> Verification:
    """Two steps in mixed precision that agree with PyTorch; shapes of the input and of the target."""
    torch.manual_seed(3)
    data = torch.randn(x), torch.randn(y)
    run = deploy(net(), *data, loss=nn.MSELoss(), cores=cores, steps=2, dtype="mixed", out=folder / "net").verify()
    run.raise_if_failed()
    return run


@pytest.mark.slow
@pytest.mark.compiler
@pytest.mark.parametrize("name", MAXIMA)
def test_a_maximum_of_floats_is_one_of_them(name: str, tmp_path: Path) -> None:
    """Fault: it was a half, equal to none of them, and its gradient 0 / 0."""
    torch.manual_seed(3)
    run = deploy(
        Net(MAXIMA[name]),
        torch.randn(1, 2, 5),
        torch.randn(1, 2, 3),
        loss=nn.MSELoss(),
        cores=3,
        l1="64k",
        l2="1M",
        steps=2,
        dtype="mixed",
        out=tmp_path / "net",
    ).verify()
    run.raise_if_failed()


class Scaled(nn.Module):
    """What a maximum is of is arithmetic on parameters; it is put together with what it does not reach."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.last = nn.Parameter(torch.randn(4, 5)), nn.Linear(5, 3)
        self.register_buffer("one", torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w = self.weight * self.one
        most = w.scatter_reduce(0, torch.tensor([[3, 1], [2, 3], [1, 0]]), w.narrow(0, 1, 3).narrow(1, 0, 2), "amax")
        y: torch.Tensor = self.last(x * most)
        return y


@pytest.mark.slow
@pytest.mark.compiler
def test_a_maximum_in_parts_is_one_of_them(tmp_path: Path) -> None:
    """Fault: what it is chosen from was looked for as far as the first float, and that was a half; 0 / 0, in PyTorch's
    reference, too, so that nothing was compared."""
    run = trained(Scaled, (4, 5), (4, 3), tmp_path)
    assert all(np.isfinite(values).all() for values in run.computed.values())


class OfOneVector(nn.Module):
    """A product of one vector is float, and what is put together of it to find the maximum was not."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(7, 5), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        x = x.index_reduce(1, torch.tensor([2, 3, 4]), x.narrow(1, 0, 3), "amax")
        y: torch.Tensor = self.last((nn.functional.tanhshrink(x) + nn.functional.hardshrink(x, 0.3)).roll(1, 1))
        return y


@pytest.mark.slow
@pytest.mark.compiler
def test_what_a_maximum_is_chosen_from_is_what_it_is_compared_with(tmp_path: Path) -> None:
    """Fault: the maximum was one of halves, its operand a float, and the gradient 0 / 0."""
    trained(OfOneVector, (1, 7), (1, 3), tmp_path)


class MadeAgain(nn.Module):
    """What the backward pass looks for a maximum among is worked out again from what a product has made."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 8), nn.Linear(8, 31), nn.Linear(31, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.second(torch.tanh(self.first(x))))
        y: torch.Tensor = self.last(x.index_reduce(1, torch.tensor([0, 1]), x.narrow(1, 0, 2), "amax").sin())
        return y


@pytest.mark.slow
@pytest.mark.compiler
@pytest.mark.filterwarnings("ignore:index_reduce")
def test_what_a_maximum_is_looked_for_among_is_not_kept_as_halves(tmp_path: Path) -> None:
    """Fault: it was worked out once, as a slope, and kept rounded: the gradient was 0 / 0."""
    run = trained(MadeAgain, (3, 7, 6), (3, 7, 3), tmp_path)
    assert all(np.isfinite(values).all() for values in run.computed.values())


class OfSlopes(nn.Module):
    """A maximum behind a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.other, self.last = nn.Linear(5, 12), nn.Linear(12, 7), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.last(torch.tanh(self.other(torch.relu(self.first(x)))).amax(2))
        return y


@pytest.mark.slow
@pytest.mark.compiler
def test_a_project_checks_gradients_behind_a_maximum(tmp_path: Path) -> None:
    """Fault: those of half of the runs that it is judged by were no numbers, and it compared 6 of 28 tensors."""
    torch.manual_seed(1)
    data = torch.randn(4, 5, 5), torch.randn(4, 3)
    deploy(OfSlopes(), *data, loss=nn.MSELoss(), steps=2, dtype="mixed", out=tmp_path / "net")
    said = subprocess.run(["make", "-s", "-C", tmp_path / "net", "host"], check=True, capture_output=True, text=True)
    assert "PASS: 28 of 28 tensors" in said.stdout


class Winners(nn.Module):
    """The largest ones stay: each is held against the last of them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(12, 16), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x).view(4, 8, 2).amax(-1)
        y: torch.Tensor = self.last(x * (x >= x.topk(4, 1)[0][:, -1:]))
        return y


@pytest.mark.slow
@pytest.mark.compiler
def test_the_last_of_the_largest_is_one_of_them(tmp_path: Path) -> None:
    """Fault: it was a float and the others halves, so that in every second line it was below itself."""
    trained(Winners, (4, 12), (4, 4), tmp_path, cores=3)
