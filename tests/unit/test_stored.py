"""What a step must store, counted by hand."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from torch import nn

import trainlib_deployer
from trainlib_deployer import passes
from trainlib_deployer.advice.what_if import at_peak
from trainlib_deployer.capture.agreement import captured_and_checked
from trainlib_deployer.capture.stored import Stored, Tape, stored
from trainlib_deployer.check.verify import read_plan
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.ops.lower import lower
from trainlib_deployer.plan.build import fitted
from trainlib_deployer.plan.layout import fits
from trainlib_deployer.user.assemble import Parts, assemble
from trainlib_deployer.user.model import UserModel

BATCH, GIVEN, HIDDEN, TAKEN = 3, 5, 7, 2
PARAMETERS = 4 * (GIVEN * HIDDEN + HIDDEN + HIDDEN * TAKEN + TAKEN)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(GIVEN, HIDDEN), nn.Linear(HIDDEN, TAKEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.first(x))
        return self.last(y.view(-1, HIDDEN))


def user_of(
    optimizer: str, model: nn.Module | None = None, target: torch.Tensor | None = None, x: torch.Tensor | None = None
) -> UserModel:
    torch.manual_seed(5)
    model = model or Net()
    parts = Parts(
        name="net",
        module=model,
        example_input=torch.randn(BATCH, GIVEN) if x is None else x,
        example_target=torch.randn(BATCH, TAKEN) if target is None else target,
        loss=nn.MSELoss(),
        optimizer=getattr(torch.optim, optimizer)(model.parameters(), lr=0.1),
        data=None,
        input_shape=None,
        count=1,
        where="the test",
        clip_norm=None,
        updates=1,
    )
    return assemble(parts)


@pytest.mark.parametrize(
    ("optimizer", "accumulate", "state"),
    (("SGD", 1, 0), ("Adam", 1, 2 * PARAMETERS), ("Adagrad", 1, PARAMETERS), ("Adam", 4, 3 * PARAMETERS)),
)
def test_each_storage_counts_once(optimizer: str, accumulate: int, state: int) -> None:
    user = user_of(optimizer)
    before = {n: t.clone() for n, t in user.module.state_dict().items()}
    sample = 4 * BATCH * (GIVEN + TAKEN)
    outputs = 4 * BATCH * TAKEN  # which are there to the end
    gradients = 4 * (BATCH * HIDDEN + GIVEN * HIDDEN)  # of the first layer's results, and of its weight made from them
    assert stored(user, accumulate) == Stored(PARAMETERS, state, sample, outputs, gradients)
    assert all(torch.equal(t, before[n]) for n, t in user.module.state_dict().items()), "the model is as it was"
    assert all(p.grad is None for p in user.module.parameters())


class Long(nn.Module):
    """Two activations that are kept, then one row of them: backward begins with little and makes more of it."""

    def __init__(self, side: bool) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(GIVEN, HIDDEN, bias=False), nn.Linear(1, 1)
        self.side = side

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.first(x))
        z = torch.exp(y)
        return self.last((z + y if self.side else z).sum().reshape(1, 1))


@pytest.mark.parametrize("side", (False, True))
def test_what_backward_lets_go_is_counted_no_more(side: bool) -> None:
    user = user_of("SGD", Long(side), torch.randn(1, 1))
    row, weight, output = 4 * BATCH * HIDDEN, 4 * GIVEN * HIDDEN, 4
    found = stored(user, 1)
    # at exp: tanh and exp are kept, and a gradient is made of one number that is seen as many, which waits a second
    # time where there is a side branch; later there are only the gradients of rows and of the weight
    at_exp = 2 * row + output, row + 4 * (1 + side)
    at_weight = output, row + weight
    assert (found.saved, found.flight) == max(at_exp, at_weight, key=sum)


class Wide(Long):
    """Forward makes nine of a row for a moment, and keeps none of them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x).repeat(1, 9).sum().reshape(1, 1))


def test_operands_and_results_of_forward_count() -> None:
    found = stored(user_of("SGD", Wide(False), torch.randn(1, 1)), 1)
    assert (found.saved, found.flight) == (0, 10 * 4 * BATCH * HIDDEN)


@pytest.mark.parametrize("kept", (False, True))
def test_a_result_may_replace_what_nobody_keeps(kept: bool) -> None:
    tape, given, made = Tape(frozenset()), torch.ones(5, 7), torch.ones(5, 7)
    put_aside = [tape.keep(given)] if kept else []
    tape.computed([given, given[1:]], [made])
    assert len(put_aside) == kept and tape.fullest == (4 * 35 * kept, 4 * 35)
    tape.computed([given, made], [torch.ones(5, 8)])
    assert tape.fullest == (4 * 35 * kept, 4 * 35 * (2 - kept) + 4 * 40), "none of them is as large"


def test_bytes_are_counted_as_they_are_put_aside_and_let_go() -> None:
    """Fault: all that was kept was added up again for each operation."""
    draw, tape, there = random.Random(3), Tape(frozenset({2})), list[tuple[int, int]]()
    for _ in range(300):
        if there and draw.random() < 0.5:
            tape.let_go(*there.pop(draw.randrange(len(there))))
        else:
            there.append((draw.randrange(7), draw.choice((4, 8, 8, 12))))
            tape.put_aside(*there[-1])
        assert tape.saved == sum(max(sizes) for at, sizes in tape.kept.items() if at != 2)
        assert {at for at, _ in there} == {*tape.kept}


def speechnet() -> nn.Module:
    """Convolutions of (1, k) on 14 rows of 700: 701 columns are a prime number of them."""
    layers = (
        *(nn.Conv2d(1, 8, (1, 64), padding=(0, 32), bias=False), nn.BatchNorm2d(8)),
        *(nn.Conv2d(8, 16, (14, 1), groups=8, bias=False), nn.BatchNorm2d(16), nn.ELU(), nn.AvgPool2d((1, 4))),
        *(nn.Conv2d(16, 16, (1, 16), padding=(0, 8), groups=16, bias=False), nn.Conv2d(16, 16, 1, bias=False)),
        *(nn.BatchNorm2d(16), nn.ELU(), nn.AvgPool2d((1, 8)), nn.Flatten(), nn.Linear(16 * 22, 4)),
    )
    return nn.Sequential(*layers)


@pytest.mark.slow
def test_rows_of_a_prime_length_need_no_more_than_what_is_stored() -> None:
    user = user_of("Adam", speechnet(), torch.randn(2, 4), torch.randn(2, 1, 14, 700))
    captured, _ = captured_and_checked(user)
    program = passes.run(lower(user, captured, 1))
    machine = resolve(cores=8, l1="64k", l2=1_500_000)
    assert at_peak(program, machine) < 1.1 * stored(user, 1).total
    assert fits(fitted(program, machine, lambda line: None))


class Moved(nn.Module):
    """An image between the pixels of another one."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.where = nn.Conv2d(1, 8, 3, padding=1), nn.Linear(11 * 11, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        grid = nn.functional.affine_grid(self.where(x.flatten(1)).view(-1, 2, 3), [2, 8, 11, 11], align_corners=False)
        return nn.functional.grid_sample(self.before(x), grid, "bicubic", align_corners=False).flatten(1)[:, :TAKEN]


@pytest.mark.slow
def test_neighbours_of_a_point_are_looked_up_again() -> None:
    """All 16 at once took 14 times what PyTorch stores."""
    user = user_of("SGD", Moved(), torch.randn(2, TAKEN), torch.randn(2, 1, 11, 11))
    captured, _ = captured_and_checked(user)
    program = passes.run(lower(user, captured, 1))
    assert at_peak(program, resolve(cores=8, l1="64k", l2="2M")) < 4 * stored(user, 1).total


def test_the_plan_stands_beside_it(tmp_path: Path) -> None:
    x, y = torch.randn(BATCH, GIVEN), torch.randn(BATCH, TAKEN)
    trainlib_deployer.deploy(Net(), x, y, loss=nn.MSELoss(), cores=2, l1="16k", l2="1M", steps=1, out=tmp_path / "p")
    least = read_plan(tmp_path / "p")["least"]
    assert least["total"] == sum(least[k] for k in ("parameters", "state", "sample", "saved", "flight"))
    assert least["ratio"] == round(least["tensors"] / least["total"], 4) > 0.5
