"""Gradients of slices, summed in one tensor of zeros: less memory, and the bits of the sum of many."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.unit.small_programs import program_of
from trainlib_deployer import passes
from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.passes.place_sums import place_sums
from trainlib_deployer.program.ir import Program

STEPS, WIDTH = 11, 13
FULL = 4 * 3 * STEPS * WIDTH  # bytes of what is taken apart


class Steps(nn.Module):
    """Slices that have nothing in common, slices that have, and some whose gradients are zeros of either sign."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(7, WIDTH)
        self.cell = nn.GRUCell(WIDTH, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.first(x))
        h = torch.zeros(3, 5)
        for t in range(STEPS):
            h = self.cell(y[:, t], h)
        overlapping = y[:, :4].sum((1, 2)) * y[:, 2:7, 1:].prod(2).mean(1)
        signed = (y[:, 8, :3].relu() * -1).sum(1) + y[:, 9].clamp(min=0.3).mul(-2).sum(1)
        return h.sum(1) + overlapping + signed


def apart() -> tuple[passes.Pass, ...]:
    steps = tuple(p for p in passes.DEFAULT if p is not place_sums)
    assert len(steps) == len(passes.DEFAULT) - 1
    return steps


def deployed(folder: Path) -> Deployment:
    torch.manual_seed(5)
    model, x, y = Steps(), torch.randn(3, STEPS, 7), torch.randn(3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return deploy(model, x, y, loss=nn.MSELoss(), optimizer=optimizer, steps=2, cores=3, l1="16k", l2="1M", out=folder)


def test_the_bits_are_those_of_a_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = deployed(tmp_path / "placed").verify()
    monkeypatch.setattr(passes, "chosen", lambda precision, arithmetic: apart())
    there = deployed(tmp_path / "apart").verify()
    for result in (here, there):
        result.raise_if_failed()
    assert {k: v.tobytes() for k, v in here.computed.items()} == {k: v.tobytes() for k, v in there.computed.items()}


def zeros(program: Program) -> int:
    """Tensors that begin as zeros and are as large as what is taken apart."""
    names = {t for t, tensor in program.tensors.items() if tensor.nbytes == FULL}
    fills = [op for op in program.ops if not op.reads and op.phase == "backward"]
    return sum(op.writes[0].tensor in names for op in fills)


def test_slices_that_have_nothing_in_common_share_one_tensor() -> None:
    """Of each step one, of the overlapping slices two and of the signed ones two; where two overlap, the sum stays.
    What the steps cover together does not begin as zeros."""
    placed, summed = (zeros(program_of(Steps(), (3, STEPS, 7), steps)) for steps in (passes.DEFAULT, apart()))
    assert (placed, summed) == (2, STEPS + 4)


def test_parts_that_leave_a_step_out_are_written_into_zeros() -> None:
    class Some(Steps):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.tanh(self.first(x))
            return y[:, :4].sum((1, 2)) + y[:, 5:].prod(2).sum(1)

    assert zeros(program_of(Some(), (3, STEPS, 7))) == 1
