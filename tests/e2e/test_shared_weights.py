"""Gradients of a weight that several calls share are added up by the products that make them, in one place."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.e2e.simulators import SIMULATORS, needs, on_each_simulator
from tests.unit.small_programs import program_of
from trainlib_deployer import passes
from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.folder import read_plan
from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.passes.add_up import add_up
from trainlib_deployer.passes.fuse_loops import fuse_loops
from trainlib_deployer.passes.reorder import Scale
from trainlib_deployer.program.ir import Program
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.run.record import read_record

STEPS, WIDTH, CALLS = 2, 37, 5
WEIGHT = 4 * 3 * WIDTH * WIDTH  # bytes of one gradient of the cell's recurrent weight


class Shared(nn.Module):
    """A cell that is unrolled, a layer between its calls whose weight is its own transpose, too, and a mean of two."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(11, WIDTH)
        self.between = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(x.shape[0], WIDTH)
        for t in range(CALLS):
            h = self.cell(x[:, t], h)
        back = torch.tanh(self.between(h)) @ self.between.weight
        return (self.between(back) + h).mean(1)


class SharedConvolutions(nn.Module):
    """One by 3 x 3 taps, one by one tap, one of a stride and groups, one of each channel, each in three calls, and one
    of a signal that is read forwards and backwards."""

    def __init__(self) -> None:
        super().__init__()
        self.three, self.one = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 1)
        self.apart, self.each = nn.Conv2d(8, 8, 3, 2, 1, groups=2), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.signal = nn.Conv1d(7, 5, 3, padding=1)
        self.first = nn.Conv2d(2, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        for _ in range(3):
            y = torch.tanh(self.each(torch.tanh(self.one(torch.tanh(self.three(y))))))
        found = [y]
        for _ in range(3):
            found.append(torch.tanh(self.apart(found[-1])))
        rows = found[-1].flatten(2)[:, :7]
        signal = self.signal(rows) * torch.tanh(self.signal(rows.flip(2)))
        return signal.mean((1, 2)) + sum(f.mean((1, 2, 3)) for f in found)


def deployed(folder: Path, l1: str, dtype: str = "fp32", batch: int = 3, convolutions: bool = False) -> Deployment:
    torch.manual_seed(7)
    x, y = torch.randn(batch, 2, 13, 18) if convolutions else torch.randn(batch, CALLS, 11), torch.randn(batch)
    model = SharedConvolutions() if convolutions else Shared()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    sizes = {"cores": 4, "l1": l1, "l2": "2M", "dtype": dtype}
    return deploy(model, x, y, loss=nn.MSELoss(), optimizer=optimizer, steps=STEPS, out=folder, **sizes)


def bits(made: Deployment, cores: int) -> dict[tuple[int, str, str], bytes]:
    result = made.verify(cores=cores)
    result.raise_if_failed()
    return {k: v.tobytes() for k, v in result.computed.items()}


def sums(program: Program) -> int:
    products = (op.kind for op in program.ops if op.phase == "backward" and isinstance(op.kind, MatMul))
    return sum(kind.init for kind in products)


@pytest.mark.parametrize("dtype", ["fp32", "mixed"])
def test_the_same_bits_in_tiles_and_in_one_piece(dtype: str, tmp_path: Path) -> None:
    tiled, whole = deployed(tmp_path / "tiled", "10k", dtype), deployed(tmp_path / "whole", "4M", dtype)
    wanted = bits(whole, 4)
    assert bits(tiled, 4) == bits(tiled, 1) == bits(tiled, 3) == bits(whole, 2) == wanted
    assert tiled.plan.tilings and not whole.plan.tilings


@pytest.mark.parametrize(("dtype", "l1", "most"), [("fp32", "12k", 2), ("mixed", "40k", 4)])
def test_convolutions_go_on_with_sums_in_tiles_and_in_one_piece(dtype: str, l1: str, most: int, tmp_path: Path) -> None:
    """`most` cores have their stacks in so much L1."""
    tiled, whole = (deployed(tmp_path / size, size, dtype, convolutions=True) for size in (l1, "4M"))
    wanted = bits(whole, 4)
    assert bits(tiled, most) == bits(tiled, 1) == bits(whole, 3) == wanted
    going_on = [at for at, op in enumerate(tiled.plan.program.ops) if isinstance(op.kind, Conv) and op.kind.onto]
    assert len(going_on) == 2 * 4 + 1
    assert any(at in tiled.plan.tilings and tiled.plan.tilings[at].count > 1 for at in going_on)


@on_each_simulator
def test_the_same_bits_on_the_emulated_cluster(simulator: str, tmp_path: Path) -> None:
    needs(simulator)
    made = deployed(tmp_path / "project", "10k")
    trace, record = read_plan(made.folder)["trace"], made.folder / "emulated.bin"
    SIMULATORS[simulator]("clang").run(made.folder, STEPS, None, record)
    found = {key: value.tobytes() for key, value in read_record(record, trace).items()}
    assert found == bits(made, 4)


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_one_gradient_is_there_at_a_time(batch: int) -> None:
    """At batch 1 loops add up several products of one term."""
    without = tuple(p for p in passes.DEFAULT if p is not add_up)
    summed, apart = (program_of(Shared(), (batch, CALLS, 11), steps) for steps in (passes.DEFAULT, without))
    peaks = [Scale.of(program).weigh(program.ops).peak for program in (summed, apart)]
    assert sums(apart) == 0
    if batch == 1:
        assert sums(summed) == 0 and peaks[0] == peaks[1]
    else:  # of the cell each weight in every call but one, of the layer between them two
        assert sums(summed) == 2 * (CALLS - 1) + 2
        assert peaks[0] + 1.75 * WEIGHT < peaks[1]


class Branches(nn.Module):
    """A convolution of three images, whose bias has three gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(2, 5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.layer(x[:, :2])) * torch.tanh(self.layer(x[:, 2:4])) + torch.sin(self.layer(x[:, 4:]))


def test_a_sum_does_not_wait_for_another_one() -> None:
    """Fault: the sum over a call's gradient was made where those of all calls are added up, and the gradient, as large
    as the image, was in memory until then."""
    steps = passes.DEFAULT[: passes.DEFAULT.index(fuse_loops) + 1]
    program = program_of(Branches(), (2, 6, 9, 8), steps)
    made = {v.tensor: at for at, op in enumerate(program.ops) for v in op.writes}
    large = {n for n, t in program.tensors.items() if t.numel == 2 * 5 * 7 * 6 and not t.role.persistent}
    sums = [op for op in program.ops if op.phase == "backward" and isinstance(op.kind, Loop) and op.kind.reductions]
    over = [{v.tensor for v in op.reads} for op in sums if large & {v.tensor for v in op.reads}]
    assert len(over) == 3
    assert all(made[other] < made[summed] for names in over for other in names - large for summed in names & large)
