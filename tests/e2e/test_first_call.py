"""Networks that set parameters by the first batch that they see: PyTorch's first step is the program's."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from golden import load
from golden.first_call import first_called
from trainlib_deployer.api import deploy
from trainlib_deployer.check.verify import verify
from trainlib_deployer.cli.main import cli
from trainlib_deployer.errors import Unsupported

FLOW = """\
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Flowed:
    z: torch.Tensor
    log_det: torch.Tensor
    kind: str = "flow"


class ActNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.loc, self.log_s = nn.Parameter(torch.zeros(d)), nn.Parameter(torch.zeros(d))
        self.begun = False

    def forward(self, x):
        if self.training and not self.begun:
            with torch.no_grad():
                self.loc.copy_(-x.mean(0))
                self.log_s.copy_(-torch.log(x.std(0) + 1e-6))
            self.begun = True
        return (x + self.loc) * self.log_s.exp(), self.log_s.sum()


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.mix, self.norm, self.last = ActNorm(5), nn.Linear(5, 5), nn.BatchNorm1d(5), ActNorm(5)
        self.factor = torch.ones(1)

    def forward(self, x):
        x, a = self.first(x)
        x, b = self.last(self.norm(torch.tanh(self.mix(x))))
        return Flowed(x, self.factor * (a + b))


def loss(out, target):
    return (out.z - target).square().mean() - 0.01 * out.log_det


torch.manual_seed(0)
model = Flow()
data = [(torch.randn(7, 5) * 3 + 1, torch.randn(7, 5)) for _ in range(3)]
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
"""


class Scaled(nn.Module):
    """By what the first batch had."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.norm = nn.Linear(3, 4), nn.BatchNorm1d(4)
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("begun", torch.tensor(0, dtype=torch.uint8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.fc(x))
        if self.begun.item() == 0:
            self.scale.data.copy_(1 / y.detach().abs().amax(0))
            self.begun.fill_(1)
        return y * self.scale


def test_a_script(tmp_path: Path) -> None:
    """Its loss has one element and a dimension, its output is a record, what says that it has begun no tensor."""
    path, out = tmp_path / "net.py", tmp_path / "out"
    path.write_text(FLOW)
    options = ["--cores", "3", "--l1", "32k", "--steps", "3", "--out", str(out)]
    done = CliRunner().invoke(cli, ["--model", str(path), *options])
    assert done.exit_code == 0, done.output
    assert "parameter 'first.loc' and 3 more: set by the first call" in done.output
    found = verify(out, "host")
    found.raise_if_failed()
    assert {t.name for t in found.verdict.tensors if t.kind == "output"} == {"z", "log_det"}
    assert found.losses == pytest.approx(plain_losses(path), rel=1e-5)


def plain_losses(path: Path) -> list[float]:
    """By a loop of PyTorch's, from the file as it is."""
    given = load.from_file(path, "model")
    module, data = given["module"], sys.modules["net"].data
    losses = []
    for x, y in data:
        given["optimizer"].zero_grad()
        value = given["loss"](module(x), y)
        value.backward()
        given["optimizer"].step()
        losses.append(value.item())
    return losses


def test_what_the_first_call_sets_and_nothing_else() -> None:
    """Statistics of a norm go on from where they were, so that the first step adds to them once."""
    torch.manual_seed(1)
    module, x = Scaled(), torch.randn(6, 3)
    plain = copy.deepcopy(module)
    assert first_called(module, (x,)) == ("scale",)
    assert torch.equal(module.norm.running_mean, plain.norm.running_mean) and int(module.begun) == 1
    wanted = plain(x)
    assert torch.equal(module(x), wanted)
    assert all(
        torch.equal(a, b) for a, b in zip(module.state_dict().values(), plain.state_dict().values(), strict=True)
    )
    assert first_called(module, (x,)) == ()


def test_nothing_is_set_where_the_first_step_would_be_another(tmp_path: Path) -> None:
    """A count that the results follow goes on with every call, so one more would show: refused, at the line."""

    class Counting(Scaled):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return super().forward(x) / self.calls

    torch.manual_seed(1)
    module = Counting()
    before = copy.deepcopy(module.state_dict())
    assert first_called(module, (torch.randn(6, 3),)) == () and module.calls == 0
    assert all(torch.equal(v, before[n]) for n, v in module.state_dict().items())


@pytest.mark.parametrize("bound", [lambda p: p.clamp_(-0.2, 0.2), lambda p: p.clamp_(min=0), lambda p: p.clamp_(max=0)])
def test_bounds_are_no_first_call(bound: Callable[[torch.Tensor], object]) -> None:
    """Fault: the second call changes nothing there, either, and the model was left other than it was given."""

    class Bounded(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            bound(self.weight.data)
            return super().forward(x)

    torch.manual_seed(1)
    module = Bounded(3, 4)
    before = module.weight.detach().clone()
    assert first_called(module, (torch.randn(6, 3),)) == () and torch.equal(module.weight, before)


class Table(nn.Module):
    """No parameter is set, but an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.offset: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.offset is None
        self.offset = torch.ones(4)
        return self.fc(x) * 2 if first else self.fc(x)


def test_another_first_call_is_refused_at_its_line(tmp_path: Path) -> None:
    with pytest.raises(Unsupported) as found:
        deploy(Table(), torch.randn(6, 3), torch.randn(6, 4), out=tmp_path / "out")
    rendered = found.value.render()
    assert "self.offset = torch.ones(4)" in rendered and "call the model once" in rendered


LAZY = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.LazyConv1d(4, 3), nn.LazyBatchNorm1d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(3))
data = [(torch.randn(5, 2, 7), torch.randn(5, 3)) for _ in range(2)]
"""
GIVEN = """\
other = nn.Sequential(nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Linear(20, 3))
model.load_state_dict(other.state_dict())
"""


@pytest.mark.parametrize("given", ["", GIVEN])
def test_lazy_modules_wait_no_more_when_steps_are_judged(given: str, tmp_path: Path) -> None:
    """Mixed precision is judged by several runs: a hook that came back with a module's state failed in the third."""
    (tmp_path / "net.py").write_text(LAZY + given)
    out = tmp_path / "out"
    words = ["--model", str(tmp_path / "net.py"), *"--cores 2 --l1 64k --steps 2 --dtype mixed --out".split(), str(out)]
    found = CliRunner().invoke(cli, [*words, "--run", "host"])
    assert found.exit_code == 0, found.output
    module = load.load_task(out / "model").module
    assert [type(m) for m in module] == [nn.Conv1d, nn.BatchNorm1d, nn.ReLU, nn.Flatten, nn.Linear]
    assert all(m.training and not m._forward_pre_hooks for m in module)
    assert module[1].num_batches_tracked == 0
