"""Dropout in training mode, and numbers as such: the program draws what the reference draws, in every step anew."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from golden.drawing import Drawing
from golden.random_numbers import Numbers
from trainlib_deployer.api import Deployment, deploy


class Kinds(nn.Module):
    """All kinds of dropout, on odd shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 7, 3)
        self.channels = nn.Dropout2d(0.4)
        self.rows = nn.Dropout1d(0.3)
        self.first = nn.Linear(7 * 15, 131)
        self.drop = nn.Dropout(0.25)
        self.alpha = nn.AlphaDropout(0.35)
        self.second = nn.Linear(131, 5)
        self.attention = nn.MultiheadAttention(5, 1, dropout=0.2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.channels(self.conv(x))
        y = self.rows(y.flatten(2)).flatten(1)
        y = self.drop(torch.tanh(self.first(y)))
        y = self.second(self.alpha(y))
        y = F.dropout(y, 0.0) + F.dropout(y, 0.5, training=False)
        z, _ = self.attention(y[None], y[None], y[None])
        return y + F.dropout(z[0], 0.6, inplace=True)


def dropped(net: nn.Module, out: Path, shape: tuple[int, ...]) -> Deployment:
    torch.manual_seed(5)
    data = [((torch.randn(shape),), torch.randn(shape[0], 5)) for _ in range(3)]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    return deploy(net, *data[0], loss=nn.MSELoss(), optimizer=optimizer, data=data, out=out, l1="128M", steps=3)


def test_all_kinds(project: Path) -> None:
    torch.manual_seed(1)
    deployed = dropped(Kinds(), project, (3, 3, 5, 7))
    result = deployed.verify()
    result.raise_if_failed()
    assert result.disturbed_runs == 0
    again = deployed.verify(cores=3)
    assert {k: v.tobytes() for k, v in again.computed.items()} == {k: v.tobytes() for k, v in result.computed.items()}
    source = (project / "net.c").read_text()
    assert "random numbers are as in the next training step" in (project / "net.h").read_text()
    # a mistake: the wrong probability in one loop, then a mask that is the same in every step
    loops = (project / "loops.c").read_text()
    bound = str(int(0.75 * 2**24))
    assert loops.count(f"< {bound}") >= 2  # forward, and again in the backward
    (project / "loops.c").write_text(loops.replace(f"< {bound}", "< 12000000"))
    assert not deployed.verify().passed
    (project / "loops.c").write_text(loops)
    counter = re.search(r"^.*step_number\+\+;$", source, re.MULTILINE)
    assert counter is not None
    (project / "net.c").write_text(source.replace(counter[0], ""))
    failed = deployed.verify().verdict.first_failure
    assert failed is not None and failed.step == 1


class Recomputed(nn.Module):
    """A checkpointed block draws the same masks when it is computed again; the loss of another layer follows."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(9, 73), nn.Dropout(0.5), nn.Tanh())
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(73, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = checkpoint(self.block, x, use_reentrant=False)
        return self.last(self.drop(y))  # type: ignore[no-any-return]


def test_recomputation(project: Path) -> None:
    deployed = dropped(Recomputed(), project, (3, 9))
    deployed.verify().raise_if_failed()
    net = Recomputed()
    x = torch.randn(3, 9)
    weight = net.block[0].weight
    gradients: list[torch.Tensor] = []
    for y in (lambda: net(x), lambda: net.last(net.drop(net.block(x)))):
        with Drawing(Numbers(4)):
            gradients += torch.autograd.grad(y().sum(), [weight])  # type: ignore[no-untyped-call,arg-type]
    assert torch.equal(gradients[0], gradients[1])


def test_masks_are_random() -> None:
    """The share of ones, and no relation between steps, calls and neighbours."""
    for q in (0.1, 0.5, 0.85):
        drawn = [Numbers(step).keep((101, 211), q, call).double().flatten() for call in (0, 1) for step in (0, 1, 2)]
        spread = (q * (1 - q) / drawn[0].numel()) ** 0.5
        for mask in drawn:
            assert abs(float(mask.mean()) - q) < 4 * spread
        series = torch.stack([*drawn, drawn[0].roll(1), drawn[0].roll(211), drawn[0].roll(64)])
        relation = torch.corrcoef(series) - torch.eye(len(series))
        assert float(relation.abs().max()) < 0.035


def test_evaluation_mode_has_no_masks(project: Path) -> None:
    deployed = dropped(Recomputed().eval(), project, (2, 9))
    assert not [n for n in deployed.plan.program.tensors if n.startswith("random")]
    assert "random numbers are as in" not in (project / "net.h").read_text()


SHAPES = [(1,), (67,), (2, 134, 1), (5, 1, 3), (3, 4096)]


class EveryShape(nn.Module):
    """Element numbers through tables: long, prime and single dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.gains = nn.ParameterList([nn.Parameter(torch.ones(shape)) for shape in SHAPES])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return sum(F.dropout(gain, 0.5).square().sum() for gain in self.gains) * x + x


def test_every_shape(project: Path) -> None:
    x = torch.randn(1)
    deployed = deploy(EveryShape(), x, -x, loss=nn.MSELoss(), out=project, l1="1M", steps=2)
    deployed.verify().raise_if_failed()
    assert deployed.plan.program.tensors["random.index"].numel == 67


class Bare(nn.Module):
    """The numbers themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x * self.gain, torch.rand(3, 67), torch.randint(0, 2**31 - 1, (134,))


def test_the_same_bits(project: Path) -> None:
    x = torch.randn(1)
    deployed = deploy(Bare(), x, -x, loss=lambda y, target: (y[0] - target).square().sum(), out=project, steps=2)
    computed = deployed.verify().computed
    for step in range(2):
        numbers = Numbers(step)
        drawn = (numbers.uniform((3, 67), 0).float(), numbers.integers((134,), 1) % (2**31 - 1))
        for i, wanted in enumerate(drawn):
            assert computed[step, "output", f"output{i + 1}"].ravel().tolist() == wanted.flatten().tolist()
