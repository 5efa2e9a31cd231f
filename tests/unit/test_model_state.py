"""What a captured step is made of where the model changes itself; wrapped and compiled models; training that fails."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests import stateful_networks as networks
from tests.fingerprint import changes, fingerprint
from trainlib_deployer.api import deploy
from trainlib_deployer.capture.agreement import captured_and_checked, check_golden_model
from trainlib_deployer.capture.eager import first_steps
from trainlib_deployer.check.verify import task_of
from trainlib_deployer.errors import DeployError, Unsupported, UsageError
from trainlib_deployer.user.assemble import Parts, assemble
from trainlib_deployer.user.model import UserModel

pytestmark = pytest.mark.slow


def user_of(model: nn.Module, x: Any, y: Any, **more: Any) -> UserModel:
    given = {"loss": None, "optimizer": None, "data": None, "input_shape": None, "count": 2, "where": "the test"}
    return assemble(Parts(name="net", module=model, example_input=x, example_target=y, **given | more))


def written(network: Any) -> set[tuple[str, str]]:
    user = user_of(networks.made(network), *networks.example(torch.Generator().manual_seed(5)))
    before = fingerprint(user.module)
    captured, _ = captured_and_checked(user)
    assert not changes(before, fingerprint(user.module))
    return {(out.kind, out.name) for out in captured.outputs if out.kind in ("buffer", "parameter")}


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (networks.Rotary, {("buffer", "table")}),
        (networks.Relative, set()),
        (networks.Spiking, set()),
        (networks.Carried, {("buffer", "h")}),
        (networks.Averages, {("buffer", n) for n in ("mean", "a", "b", "plain", "inner.list.0")}),
        (networks.Constrained, {("parameter", n) for n in ("fc.weight", "fc.bias", "out.weight")}),
    ],
)
def test_what_a_step_leaves_behind(network: Any, expected: set[tuple[str, str]]) -> None:
    found = written(network)
    assert {pair for pair in found if not pair[1].startswith("norm.")} == expected


class Grows(nn.Module):
    """No fixed step does what this does: every call sums over one row more."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 3)
        self.register_buffer("seen", torch.zeros(0, 6))

    def forward(self, x: torch.Tensor) -> Any:
        self.seen = torch.cat([self.seen, x.mean((0, 1))[None]])
        return self.fc(x.mean(1) + self.seen.sum(0))


class Undetached(nn.Module):
    """The second step's gradient runs into the first one's graph."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 3)
        self.h = torch.zeros(3)

    def forward(self, x: torch.Tensor) -> Any:
        self.h = self.fc(x).mean((0, 1)).tanh() + self.h
        return self.fc(x).mean(1) * self.h


class Ends(nn.Module):
    """It counts its calls, and gives up after two."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 3)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> Any:
        self.calls += 1
        if self.calls > 2:
            raise RuntimeError("no more data")
        return self.fc(x).mean(1)


ENDS = "training fails in step 3: RuntimeError: no more data"


@pytest.mark.parametrize(
    ("network", "phrase"),
    [(Grows, "changes the shape of 'seen'"), (Undetached, "training fails in step 2"), (Ends, ENDS)],
)
def test_what_no_step_can_repeat_is_refused(network: Any, phrase: str) -> None:
    model = networks.made(network)
    before = fingerprint(model)
    user = user_of(model, *networks.example(torch.Generator().manual_seed(5)))
    with pytest.raises(DeployError, match=phrase):
        captured_and_checked(user)
    assert not changes(before, fingerprint(model))


def test_a_golden_model_of_another_state_is_found() -> None:
    """Fault: the reference trains what the trial left of the model."""
    user = user_of(networks.made(networks.Rotary), *networks.example(torch.Generator().manual_seed(5)))
    steps = first_steps(user)
    check_golden_model(task_of(user, 1), steps)
    user.module.filled = 7  # type: ignore[assignment]
    damaged = user_of(user.module, user.inputs[0], user.target)
    with pytest.raises(Unsupported, match="golden model and eager PyTorch disagree on output"):
        check_golden_model(task_of(damaged, 1), steps)


def net() -> nn.Module:
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3))


def traced(model: nn.Module) -> UserModel:
    user = user_of(model, torch.randn(4, 6, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 2, 1, 1]))
    captured_and_checked(user)
    return user


def test_data_parallel_is_unwrapped_and_said() -> None:
    user = traced(nn.DataParallel(net()))
    assert "model: the Sequential inside of DataParallel is deployed" in user.notes
    assert next(n for n, _ in user.module.named_parameters()) == "0.weight"


@pytest.mark.compiler
def test_compiled_modules_run_as_they_were_written() -> None:
    user = traced(torch.compile(net()))  # type: ignore[arg-type]
    assert "model: the Sequential inside of torch.compile is deployed" in user.notes
    inner = net()
    inner[0] = torch.compile(inner[0])  # type: ignore[assignment]
    traced(inner)
    in_place = net()
    in_place.compile()
    before = fingerprint(in_place)
    check_golden_model(task_of(user := traced(in_place), 1), first_steps(user))
    assert not changes(before, fingerprint(in_place))


@pytest.mark.parametrize("how", [torch.jit.script, lambda m: torch.jit.trace(m, torch.zeros(4, 6))])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripted_modules_are_refused(how: Any) -> None:
    with pytest.raises(Unsupported, match="has gone through torch") as err:
        traced(how(net()))
    assert "give the nn.Module" in err.value.remedy
    inner = net()
    inner[2] = how(inner[2]) if how is torch.jit.script else torch.jit.trace(inner[2], torch.zeros(4, 5))
    with pytest.raises(Unsupported, match="the part '2' of the model"):
        traced(inner)


def test_a_loss_that_fails_later_is_refused_with_its_step(tmp_path: Path) -> None:
    """BCELoss takes no output outside of [0, 1], which training may reach in any step."""
    model = nn.Linear(3, 2, bias=False)
    nn.init.constant_(model.weight, 0.3)
    x, y = torch.ones(2, 3), torch.ones(2, 2)
    before = fingerprint(model)
    for rate, phrase in (
        (0.3, "training fails in step 2: RuntimeError: all elements of input"),
        (0.03, "PyTorch fails"),
    ):
        with pytest.raises(UsageError, match=phrase) as err:
            data = [(x, y)] * 4
            deploy(
                model,
                data=data,
                example_input=x,
                loss=nn.BCELoss(),
                optimizer=torch.optim.SGD(model.parameters(), lr=rate),
                out=tmp_path / "net",
                steps=4,
            )
        assert "a smaller learning rate" in err.value.remedy
        assert not changes(before, fingerprint(model))


def test_lazy_modules_get_their_shapes_and_nothing_else_changes() -> None:
    model = nn.Sequential(nn.LazyLinear(5), networks.Rotary())
    model[1].fc = nn.Linear(5, 6)
    generator = torch.random.get_rng_state()
    user = user_of(model, torch.randn(2, 5, 4), torch.tensor([0, 2]))
    assert type(model[0]) is nn.Linear and model[0].weight.shape == (5, 4) and model.training
    assert model[1].filled == 0 and not model[1].table.any()  # type: ignore[operator]
    captured_and_checked(user)
    copy.deepcopy(model)
    del generator


@pytest.mark.compiler
def test_an_empty_parameter_is_left_trainable() -> None:
    """Fault: a parameter without elements was frozen, for good."""
    model = nn.ModuleList([nn.Linear(6, 3), nn.Linear(6, 0)])

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = model

        def forward(self, x: torch.Tensor) -> Any:
            return torch.cat([self.parts[0](x), self.parts[1](x)], 1)

    whole, x = Net(), torch.randn(4, 6)
    before = fingerprint(whole)
    with tempfile.TemporaryDirectory() as folder:
        done = deploy(whole, x, torch.tensor([0, 2, 1, 1]), out=Path(folder) / "net", steps=2)
        done.verify().raise_if_failed()
    assert not changes(before, fingerprint(whole))


class Blank(nn.Module):
    """A buffer that is no number where nothing is known, and is never written."""

    def __init__(self, known: torch.Tensor) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 5)
        self.register_buffer("known", known)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x) + self.known.to_dense().nan_to_num()


def test_a_buffer_without_numbers_does_not_change() -> None:
    known = torch.tensor([1.0, float("nan"), 2.0, float("nan"), 3.0])
    captured, _ = captured_and_checked(user_of(Blank(known), torch.randn(2, 3), torch.randn(2, 5)))
    assert not [out for out in captured.outputs if out.kind == "buffer"]


def test_a_sparse_buffer_is_refused() -> None:
    user = user_of(Blank(torch.eye(2, 5).to_sparse_csr()), torch.randn(2, 3), torch.randn(2, 5))
    with pytest.raises(Unsupported, match="Sparse") as found:
        captured_and_checked(user)
    assert "dense" in found.value.remedy
