"""A user-written optimizer as a graph: its own step() is traced for one parameter at a time.

The learning rate must stay a number of the run. So the step is traced with three of them; constants that differ must
depend on it linearly, and become inputs of the graph.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from golden import optimizers
from trainlib_deployer.errors import DeployError, Unsupported
from trainlib_deployer.user.code import message_of, source_of
from trainlib_deployer.user.model import OptimizerSpec

aten = torch.ops.aten
Tensor = torch.Tensor
RATES = (0.0123, 0.0457, 0.0311)  # arbitrary; the third one checks the line through the first two
CLOSE = 1e-4
ULPS = 2.0**-21
STEPS = 7  # of an optimizer that lives on: what is done every second or fifth step shows
SCALED = {aten.add.Tensor: ("alpha", 1), aten.sub.Tensor: ("alpha", 1)}
SCALED |= {aten.addcmul.default: ("value", 1), aten.addcdiv.default: ("value", 1)}
TAKES_TENSOR = {
    aten.mul.Tensor,
    aten.mul.Scalar,
    aten.div.Tensor,
    aten.div.Scalar,
    aten.add.Scalar,
    aten.sub.Scalar,
    aten.lerp.Scalar,
}


@dataclass(frozen=True)
class Update:
    """graph(parameter, gradient, states..., rates...) gives the new (parameter, states...)."""

    graph: fx.GraphModule
    states: tuple[tuple[str, Tensor], ...]  # label, contents before the first update
    rates: tuple[tuple[float, float], ...]  # (a, b): the input is a + b * learning rate


@dataclass(frozen=True)
class Subject:
    """One parameter under one group's settings."""

    spec: OptimizerSpec
    settings: Mapping[str, Any]
    value: Tensor

    def optimizer(self, parameters: Mapping[str, Tensor], rate: float) -> torch.optim.Optimizer:
        assert self.spec.own is not None
        groups = [({**self.settings, "lr": rate}, tuple(parameters))]
        return optimizers.make_optimizer(self.spec.own, groups, self.spec.defaults, parameters)  # type: ignore[arg-type]

    def step(self, p: Tensor, g: Tensor, state: dict[str, Any], rate: float) -> dict[str, Any]:
        """Update p in place; the new state."""
        optimizer = self.optimizer({"p": p}, rate)
        p.grad = g
        if state:
            optimizer.state[p] = state
        step_of(optimizer)
        return dict(optimizer.state[p])


def step_of(optimizer: torch.optim.Optimizer) -> None:
    """One step, without the profiler around it."""
    step: Any = type(optimizer).step
    step = step.__wrapped__ if getattr(step, "hooked", False) else step
    with torch.no_grad():
        step(optimizer)


def check_independent(spec: OptimizerSpec, settings: Mapping[str, Any], values: Sequence[Tensor]) -> None:
    """Parameters are traced one at a time, so none may depend on another."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        together = {str(i): v.detach().clone() for i, v in enumerate(values)}
        for p in together.values():
            p.grad = torch.randn(p.shape)
        step_of(Subject(spec, settings, values[0]).optimizer(together, RATES[0]))
    for before, p in zip(values, together.values(), strict=True):
        alone = before.detach().clone()
        assert p.grad is not None
        Subject(spec, settings, before).step(alone, p.grad.clone(), {}, RATES[0])
        if not near(alone - before, p - before):
            raise refused(spec, "the update of one parameter depends on the others")


def capture_update(spec: OptimizerSpec, settings: Mapping[str, Any], value: Tensor) -> Update:
    """The update of one parameter, or what about this optimizer cannot be deployed."""
    subject = Subject(spec, settings, value.detach().clone())
    try:
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            return traced(subject)
    except DeployError:
        raise
    except Exception as error:
        first = message_of(error).splitlines()[0]
        raise refused(spec, f"its step cannot be traced: {first}", source_of(error)) from error


def refused(spec: OptimizerSpec, why: str, source: Any = None, remedy: str = "") -> Unsupported:
    standard = "use torch.optim.SGD, Adam or another one of torch.optim"
    return Unsupported(f"the optimizer {spec.kind} cannot be deployed: {why}", source=source, remedy=remedy or standard)


def traced(subject: Subject) -> Update:
    early, late = state_after(subject, 1), state_after(subject, 5)
    labels = [k for k, v in early.items() if isinstance(v, Tensor)]
    graphs = [trace(subject, early, labels, rate) for rate in RATES]
    if differing(graphs[0], trace(subject, late, labels, RATES[0])):
        remedy = "count in a tensor: state['step'] = torch.zeros(()), then state['step'] += 1"
        raise refused(subject.spec, "it counts its steps in a Python number", remedy=remedy)
    states = initial_states(subject, graphs[0], labels, early)
    check_carried(subject, graphs[0], states)
    rates = take_rates_out(subject.spec, graphs)
    return Update(graphs[0], states, rates)


def check_carried(subject: Subject, graph: fx.GraphModule, states: Sequence[tuple[str, Tensor]]) -> None:
    """Whether the states are all that goes on: an optimizer that lives for some steps does what the graph does."""
    p, ours = subject.value.clone(), [subject.value.clone(), *(v.clone() for _, v in states)]
    optimizer = subject.optimizer({"p": p}, RATES[0])
    for _ in range(STEPS):
        before = p.clone()
        p.grad = torch.randn(p.shape)
        after = graph(ours[0].clone(), p.grad.clone(), *(v.clone() for v in ours[1:]))
        step_of(optimizer)
        if not near(after[0] - ours[0], p - before, rounding=float(before.abs().max())):
            remedy = "keep it in a tensor of the parameter's state: state['step'] = torch.zeros(()), state['step'] += 1"
            raise refused(
                subject.spec, "it keeps more from step to step than its state, as a count in a group", remedy=remedy
            )
        ours = after


def state_after(subject: Subject, steps: int) -> dict[str, Any]:
    """The state that some eager steps leave."""
    p = subject.value.clone()
    state: dict[str, Any] = {}
    for _ in range(steps):
        state = subject.step(p, torch.randn(p.shape), state, RATES[0])
    return state


def trace(subject: Subject, state: Mapping[str, Any], labels: Sequence[str], rate: float) -> fx.GraphModule:
    def update(p: Tensor, g: Tensor, *values: Tensor) -> list[Tensor]:
        p = p.clone()
        given = {**state, **{k: v.clone() for k, v in zip(labels, values, strict=True)}}
        after = subject.step(p, g.clone(), given, rate)
        return [p, *(after[k] for k in labels)]

    values = [subject.value, torch.randn(subject.value.shape), *(state[k] for k in labels)]
    function: Callable[..., Any] = torch.func.functionalize(update, remove="mutations")
    graph = make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True)(*values)
    for node in list(graph.graph.nodes):
        if node.target in (aten.detach.default, aten.alias.default, aten.lift_fresh_copy.default, aten.clone.default):
            node.replace_all_uses_with(node.args[0])
        elif node.target is aten.copy.default and node.meta["val"].shape == node.args[1].meta["val"].shape:
            node.replace_all_uses_with(node.args[1])
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph


# ---- what the state begins with


def initial_states(
    subject: Subject, graph: fx.GraphModule, labels: Sequence[str], like: Mapping[str, Any]
) -> tuple[tuple[str, Tensor], ...]:
    """Contents from which the traced step does what the first step does: zeros, ones, or the parameter itself."""
    g = torch.randn(subject.value.shape)
    p = subject.value.clone()
    after = subject.step(p, g, {}, RATES[0])
    wanted = [p, *(after[k] for k in labels)]
    choices = [list(beginnings(subject, like[k])) for k in labels]
    for values in itertools.product(*choices):
        found = graph(subject.value.clone(), g.clone(), *(v.clone() for v in values))
        if all(near(a, b) for a, b in zip(found, wanted, strict=True)):
            return tuple(zip(labels, values, strict=True))
    raise refused(subject.spec, "its state begins with something else than zeros, ones or the parameter")


def beginnings(subject: Subject, like: Tensor) -> Iterator[Tensor]:
    yield torch.zeros_like(like)
    yield torch.ones_like(like)
    if like.shape == subject.value.shape and like.dtype == subject.value.dtype:
        yield subject.value.clone()


def near(a: Tensor, b: Tensor, rounding: float = 0.0) -> bool:
    """As differences of numbers of the size `rounding` are."""
    scale = float(b.abs().max()) if b.numel() else 0.0
    return torch.allclose(a, b, rtol=0.0, atol=CLOSE * max(scale, 1e-20) + ULPS * rounding)


# ---- the learning rate


def differing(one: fx.GraphModule, other: fx.GraphModule) -> list[tuple[fx.Node, Any, float, float]]:
    """(node, place of the argument, its value here and there) for every constant that differs."""
    ours, theirs = list(one.graph.nodes), list(other.graph.nodes)
    if [n.target for n in ours if n.op != "get_attr"] != [n.target for n in theirs if n.op != "get_attr"]:
        return [(ours[-1], None, 0.0, 0.0)]
    found: list[tuple[fx.Node, Any, float, float]] = []
    for a, b in zip(ours, theirs, strict=True):
        for place, x in (*enumerate(a.args), *a.kwargs.items()):
            y = b.args[place] if isinstance(place, int) else b.kwargs[place]
            if isinstance(x, int | float) and isinstance(y, int | float) and x != y:
                found.append((a, place, float(x), float(y)))
    return found


def take_rates_out(spec: OptimizerSpec, graphs: Sequence[fx.GraphModule]) -> tuple[tuple[float, float], ...]:
    """Constants of the first graph that follow the learning rate become placeholders."""
    graph = graphs[0].graph
    second = {(n, place): y for n, place, _, y in differing(graphs[0], graphs[1])}
    third = {(n, place): y for n, place, _, y in differing(graphs[0], graphs[2])}
    rates: dict[tuple[float, float], fx.Node] = {}
    last = [n for n in graph.nodes if n.op == "placeholder"][-1]
    for (node, place), there in second.items():
        if place is None:
            raise refused(spec, "what it does depends on the learning rate's value")
        here = float(node.args[place] if isinstance(place, int) else node.kwargs[place])
        slope = (there - here) / (RATES[1] - RATES[0])
        offset = here - slope * RATES[0]
        expected = offset + slope * RATES[2]
        if abs(expected - third.get((node, place), here)) > 1e-9 * max(abs(expected), abs(here)):
            raise refused(spec, "it uses the learning rate in more than sums and products")
        key = (round(offset, 12), round(slope, 12))
        if key not in rates:
            with graph.inserting_after(last):
                last = graph.placeholder(f"rate{len(rates)}")
            last.meta["val"] = torch.zeros(())
            rates[key] = last
        put_rate(spec, graph, node, place, rates[key])
    graphs[0].recompile()
    return tuple(rates)


def put_rate(spec: OptimizerSpec, graph: fx.Graph, node: fx.Node, place: Any, rate: fx.Node) -> None:
    """In place of the constant; a factor like alpha= becomes a product of its own."""
    if node.target in SCALED and place == SCALED[node.target][0]:
        factor = SCALED[node.target][1]
        with graph.inserting_before(node):
            product = graph.call_function(aten.mul.Tensor, (node.args[factor], rate))
        product.meta["val"] = node.args[factor].meta["val"]
        node.update_arg(factor, product)
        node.kwargs = {k: v for k, v in node.kwargs.items() if k != place}
    elif node.target in TAKES_TENSOR and place in (1, 2):
        node.update_arg(place, rate)
    else:
        raise refused(spec, f"it gives the learning rate to the operation {node.target}")
