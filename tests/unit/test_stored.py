"""What a step must store, counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import trainlib_deployer
from trainlib_deployer.capture.stored import Stored, stored
from trainlib_deployer.check.verify import read_plan
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


def user_of(optimizer: str) -> UserModel:
    torch.manual_seed(5)
    model = Net()
    parts = Parts(
        name="net",
        module=model,
        example_input=torch.randn(BATCH, GIVEN),
        example_target=torch.randn(BATCH, TAKEN),
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
    saved = 4 * BATCH * (HIDDEN + TAKEN)  # of tanh, which is a view's, too, and what the loss is worked out from
    expected = Stored(PARAMETERS, state, sample, saved, flight=4 * BATCH * TAKEN)
    assert stored(user, accumulate) == expected
    assert expected.total == PARAMETERS + state + sample + saved + 4 * BATCH * TAKEN
    assert all(torch.equal(t, before[n]) for n, t in user.module.state_dict().items()), "the model is as it was"
    assert all(p.grad is None for p in user.module.parameters())


def test_the_plan_stands_beside_it(tmp_path: Path) -> None:
    x, y = torch.randn(BATCH, GIVEN), torch.randn(BATCH, TAKEN)
    trainlib_deployer.deploy(Net(), x, y, loss=nn.MSELoss(), cores=2, l1="16k", l2="1M", steps=1, out=tmp_path / "p")
    least = read_plan(tmp_path / "p")["least"]
    assert least["total"] == sum(least[k] for k in ("parameters", "state", "sample", "saved", "flight"))
    assert least["ratio"] == round(least["tensors"] / least["total"], 4) > 0.5
