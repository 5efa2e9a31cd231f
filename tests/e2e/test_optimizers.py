"""Every optimizer, with its settings, trains as torch.optim does: parameters and states after each of five steps."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.errors import Unsupported

SETTINGS: dict[str, list[dict[str, Any]]] = {  # one parameter group each
    "SGD": [
        {"lr": 0.11},
        {"lr": 0.05, "momentum": 0.85, "weight_decay": 0.02},
        {"lr": 0.04, "momentum": 0.8, "dampening": 0.3, "maximize": True},
        {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    ],
    "Adam": [
        {"lr": 0.01},
        {"lr": 0.02, "amsgrad": True, "weight_decay": 0.05, "betas": (0.7, 0.9)},
        {"lr": 0.01, "maximize": True, "eps": 1e-3},
    ],
    "AdamW": [{"lr": 0.02, "weight_decay": 0.2}, {"lr": 0.03, "amsgrad": True, "maximize": True}],
    "NAdam": [{"lr": 0.01, "weight_decay": 0.04}, {"lr": 0.02, "weight_decay": 0.3, "decoupled_weight_decay": True}],
    "RAdam": [{"lr": 0.02, "betas": (0.8, 0.999)}, {"lr": 0.01, "weight_decay": 0.1}],
    "Adamax": [{"lr": 0.01, "weight_decay": 0.03}, {"lr": 0.03, "betas": (0.6, 0.8), "maximize": True}],
    "RMSprop": [
        {"lr": 0.01, "alpha": 0.9},
        {"lr": 0.02, "centered": True, "momentum": 0.8, "weight_decay": 0.02, "alpha": 0.7},
        {"lr": 0.01, "momentum": 0.5},
    ],
    "Adagrad": [
        {"lr": 0.05, "lr_decay": 0.2, "initial_accumulator_value": 0.1, "weight_decay": 0.01},
        {"lr": 0.1, "maximize": True},
    ],
    "Adadelta": [{"lr": 0.9, "rho": 0.8, "weight_decay": 0.05}, {"lr": 0.3}],
    "Rprop": [{"lr": 0.003}, {"lr": 0.01, "etas": (0.4, 1.3), "step_sizes": (0.002, 0.015)}],
    "ASGD": [{"lr": 0.05, "lambd": 0.02, "t0": 2.0, "alpha": 0.6}, {"lr": 0.1, "weight_decay": 0.1}],
}


class Net(nn.Module):
    """Parameters of odd and unequal shapes, a scalar and a frozen one among them."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = nn.Sequential(nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 3, bias=False))
        self.gain = nn.Parameter(torch.tensor(1.3))
        self.fixed = nn.Parameter(torch.randn(3), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.stack(x) * self.gain + self.fixed  # type: ignore[no-any-return]


def deployed(optimizer: Any, out: Path, **options: Any) -> Deployment:
    """The network above under an optimizer, on five random samples."""
    torch.manual_seed(3)
    net = Net()
    data = [((torch.randn(3, 7),), torch.randn(3, 3)) for _ in range(5)]
    return deploy(net, *data[0], loss=nn.MSELoss(), optimizer=optimizer, data=data, out=out, l1="128M", **options)


@pytest.mark.parametrize("kind", SETTINGS)
def test_optimizer(kind: str, project: Path) -> None:
    """The settings are dealt out to the parameters in turn."""

    def optimizer(parameters: Any) -> torch.optim.Optimizer:
        trained = [p for p in parameters if p.requires_grad]
        settings = SETTINGS[kind]
        groups = [{"params": trained[i :: len(settings)], **s} for i, s in enumerate(settings)]
        return getattr(torch.optim, kind)(groups)  # type: ignore[no-any-return]

    result = deployed(optimizer, project).verify()
    result.raise_if_failed()
    assert result.disturbed_runs == 0
    layers = {t.name: t.layer for t in result.verdict.tensors if t.kind == "parameter"}
    assert layers == {"stack.0.weight": "stack.0", "stack.0.bias": "stack.0", "stack.2.weight": "stack.2", "gain": ""}
    assert f"stack.2.weight: {kind.lower()} */" in (project / "net.c").read_text()


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.RMSprop])
def test_tiny_eps_where_gradients_are_zero(kind: Any, project: Path) -> None:
    def of_two(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return ((found - wanted)[:, :2] ** 2).mean()

    torch.manual_seed(3)
    net = nn.Linear(7, 3)
    optimizer = kind(net.parameters(), lr=0.01, eps=1e-40)
    made = deploy(net, torch.randn(3, 7), torch.randn(3, 3), loss=of_two, optimizer=optimizer, out=project, l1="128M")
    made.verify().raise_if_failed()


@pytest.mark.parametrize(("kind", "settings"), [("RMSprop", {"alpha": 0.0}), ("Adam", {"betas": (0.0, 0.01)})])
def test_small_gradients_behind_large_ones(kind: str, settings: dict[str, Any], project: Path) -> None:
    """Where little or nothing of an average stays, its rounding does not stay either."""

    def product(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return (found * wanted).sum()

    torch.manual_seed(3)
    net = nn.Linear(5, 3)
    data = [(torch.randn(2, 5) * size, torch.randn(2, 3) * size) for size in (30.0, 0.003, 3.0, 0.001)]
    optimizer = getattr(torch.optim, kind)(net.parameters(), lr=0.01, **settings)
    made = deploy(net, *data[0], loss=product, optimizer=optimizer, data=data, out=project, l1="128M")
    made.verify(steps=4).raise_if_failed()


class Lion(torch.optim.Optimizer):
    """As published, written the usual way; with a slow copy of the parameter and a count on top."""

    def __init__(
        self, params: Any, lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99), decay: float = 0.0
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "decay": decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state, (beta1, beta2), lr = self.state[p], group["betas"], group["lr"]
                if not state:
                    state["exp_avg"] = torch.zeros_like(p)
                    state["slow"] = p.clone()
                    state["count"] = torch.zeros(())
                state["count"] += 1
                p.data.mul_(1 - lr * group["decay"])
                update = state["exp_avg"].clone().mul_(beta1).add(p.grad, alpha=1 - beta1).sign_()
                p.add_(update / state["count"], alpha=-lr)
                state["exp_avg"].mul_(beta2).add_(p.grad, alpha=1 - beta2)
                state["slow"].lerp_(p, 0.25)
                p.lerp_(state["slow"], 0.125)


class Counting(Lion):
    """Its rate falls with a Python number."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for p in self.param_groups[0]["params"]:
            count = self.state[p]["count"] = self.state[p].get("count", 0) + 1
            p.add_(p.grad, alpha=-self.param_groups[0]["lr"] / count)


def test_own_optimizer(project: Path) -> None:
    """Traced; the learning rate stays an argument of the step, as the schedule shows."""

    def optimizer(parameters: Any) -> torch.optim.Optimizer:
        first, *others = [p for p in parameters if p.requires_grad]
        return Lion([{"params": [first], "decay": 0.3, "lr": 0.02}, {"params": others}], lr=0.01)

    made = deployed(optimizer, project, scheduler=lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.5))
    result = made.verify()
    result.raise_if_failed()
    names = {t.name for t in result.verdict.tensors if t.kind == "state"}
    assert {"gain.exp_avg", "gain.slow", "gain.count", "stack.0.weight.slow"} <= names
    assert "stack.2.weight: lion" in (project / "net.c").read_text()


class CountingInItsGroup(Lion):
    """As LAMB's authors count."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        group = self.param_groups[0]
        group["count"] = group.get("count", 0) + 1
        for p in group["params"]:
            p.add_(p.grad, alpha=-group["lr"] / (1 - 0.9 ** group["count"]))


class EveryFifth(Lion):
    """It counts in itself."""

    count = 0

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.count += 1
        for p in self.param_groups[0]["params"]:
            p.add_(p.grad, alpha=-self.param_groups[0]["lr"] * (2 if self.count % 5 == 0 else 1))


class Around(torch.optim.Optimizer):
    """Another optimizer, as Lookahead is."""

    def __init__(self, base: Any, lr: float) -> None:
        self.base = torch.optim.SGD(base, lr=lr) if isinstance(base[0], torch.Tensor) else base
        self.param_groups, self.defaults, self.state = self.base.param_groups, self.base.defaults, self.base.state

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.base.step()


class OldAdam(Lion):
    """As it is written in a thousand places: with a count of Python, and all corrections from it."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            (beta1, beta2), lr = group["betas"], group["lr"]
            for p in group["params"]:
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
                state["step"] += 1
                state["exp_avg"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                self.move(p, state, lr, 1 - beta1 ** state["step"], 1.0 - math.pow(beta2, state["step"]))

    def move(self, p: torch.Tensor, state: Any, lr: float, correction1: float, correction2: float) -> None:
        root = state["exp_avg_sq"].sqrt().add_(1e-8)
        p.addcdiv_(state["exp_avg"], root, value=-lr * math.sqrt(correction2) / correction1)


class OtherAdam(OldAdam):
    """The same, with other places for the corrections, and a rate that falls."""

    def move(self, p: torch.Tensor, state: Any, lr: float, correction1: float, correction2: float) -> None:
        root = (state["exp_avg_sq"].sqrt() / correction2**0.5).add_(1e-8)
        p.sub_(lr / (1 + 0.5 * state["step"]) * (state["exp_avg"] / correction1) / root)
        p.mul_(1 - math.exp(-state["step"]) * lr)


class Warming(OldAdam):
    """What it does depends on its count."""

    def move(self, p: torch.Tensor, state: Any, lr: float, correction1: float, correction2: float) -> None:
        p.add_(state["exp_avg"], alpha=-lr if state["step"] > 5 else -0.1 * lr)


@pytest.mark.parametrize("kind", [OldAdam, OtherAdam])
def test_own_optimizer_that_counts_in_python(kind: Any, project: Path) -> None:
    """From the first step on, in full precision; and its state goes back with the count."""

    def optimizer(parameters: Any) -> torch.optim.Optimizer:
        first, *others = [p for p in parameters if p.requires_grad]
        optimizer: torch.optim.Optimizer = kind(
            [{"params": [first], "betas": (0.5, 0.75), "lr": 0.02}, {"params": others, "betas": (0.9, 0.999)}]
        )
        return optimizer

    made = deployed(optimizer, project, scheduler=lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.5))
    made.verify().raise_if_failed()
    assert "expm1" in (project / "loops.c").read_text(), "1 - 0.999 ** 1 keeps its digits"
    made.step(torch.randn(3, 7), torch.randn(3, 3), learning_rate=0.01)
    assert {state["step"] for state in made.session.optimizer_state_dict()["state"].values()} == {1}


class Muon(Lion):
    """A namesake of one that PyTorch has, and that is refused."""


def test_own_optimizer_with_the_name_of_another(project: Path) -> None:
    """Fault: it was told to calculate in bfloat16, as PyTorch's does."""
    made = deployed(lambda parameters: Muon([p for p in parameters if p.requires_grad], lr=0.01), project)
    made.verify().raise_if_failed()


class Joint(Lion):
    """All parameters share one norm."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        parameters = self.param_groups[0]["params"]
        norm = sum(p.grad.square().sum() for p in parameters).sqrt()
        for p in parameters:
            p -= self.param_groups[0]["lr"] * p.grad / norm


class Deciding(Lion):
    """What it does depends on a value."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for p in self.param_groups[0]["params"]:
            if p.grad.sum() > 0:
                p.sub_(p.grad)


class Noisy(Lion):
    """Langevin's."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for p in self.param_groups[0]["params"]:
            p.add_(p.grad + torch.randn_like(p), alpha=-self.param_groups[0]["lr"])


class Short(Lion):
    """It calculates with eight bits after the point."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for p in self.param_groups[0]["params"]:
            p.add_(p.grad.bfloat16().mul(0.5), alpha=-self.param_groups[0]["lr"])


REFUSED = {
    Counting: "counts its steps in a Python number",
    CountingInItsGroup: "keeps more from step to step than its state",
    EveryFifth: "keeps more from step to step than its state",
    Noisy: "draws random numbers",
    Warming: "the count of its steps decides what it does",
    Around: "cannot be made of parameters and its settings",
    Joint: "the update of one parameter depends on the others",
    Deciding: "its step cannot be traced",
    Short: "makes a tensor that is bfloat16",
    torch.optim.LBFGS: "a step runs the network several times",
}


class Controlled(torch.optim.Optimizer):
    """As SCAFFOLD's clients: towards where it began, and off by a control; __init__ sets both."""

    def __init__(self, params: Any, lr: float, mu: float = 0.1) -> None:
        super().__init__(params, {"lr": lr, "mu": mu})
        for p in self.param_groups[0]["params"]:
            self.state[p]["control"] = torch.full_like(p, 0.3)
            self.state[p]["began"] = p.detach().clone()

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        group = self.param_groups[0]
        for p in group["params"]:
            control, began = self.state[p]["control"], self.state[p]["began"]
            p.sub_(group["lr"] * (p.grad + group["mu"] * (p - began) - control))
            control.lerp_(p.grad, 0.1)


class Anchored(Lion):
    """Towards where it was in its first step."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        group = self.param_groups[0]
        for p in group["params"]:
            began = self.state[p].setdefault("began", p.detach().clone())
            p.sub_(group["lr"] * (p.grad + 0.3 * (p - began)))


@pytest.mark.parametrize("kind", [Controlled, Anchored])
def test_own_optimizer_with_a_state_that_is_only_read(kind: Any, project: Path) -> None:
    """Fault: what no step writes was not recorded, and its verification failed for that."""
    made = deployed(lambda parameters: kind([p for p in parameters if p.requires_grad], lr=0.1), project)
    found = made.verify()
    found.raise_if_failed()
    assert any(t.name.endswith(".began") for t in found.verdict.tensors)


LINES = {CountingInItsGroup: 'group["count"] =', EveryFifth: "self.count += 1"}


@pytest.mark.parametrize(("kind", "message"), REFUSED.items(), ids=lambda v: getattr(v, "__name__", ""))
def test_own_optimizer_refused(kind: Any, message: str, project: Path) -> None:
    with pytest.raises(Unsupported, match=message) as found:
        deployed(lambda parameters: kind([p for p in parameters if p.requires_grad], lr=0.1), project)
    line = LINES.get(kind)
    assert line is None or (found.value.source is not None and line in found.value.source.text)


def test_a_mistake_in_an_update_is_caught(project: Path) -> None:
    made = deployed(lambda parameters: torch.optim.Adam(parameters, lr=0.01, betas=(0.9, 0.98)), project)
    loops = (project / "loops.c").read_text()
    assert "0.98f" in loops
    (project / "loops.c").write_text(loops.replace("0.98f", "0.985f"))
    failed = made.verify().verdict.first_failure
    assert failed is not None and failed.kind in ("state", "parameter") and failed.step <= 1
