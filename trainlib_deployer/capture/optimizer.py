"""A user-written optimizer as a graph: its own step() is traced for one parameter at a time.

The learning rate must stay a number of the run, and so must a count of steps that is no tensor. So the step is traced
with three rates and two counts; constants that differ become inputs of the graph: those that depend on the rate alone
must do so linearly, of the others it is known how they came of the count.
"""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from golden import optimizers
from trainlib_deployer.capture.count import (
    Count,
    Formula,
    Known,
    Line,
    along_the_rate,
    functions_that_remember,
    value_of,
)
from trainlib_deployer.capture.line_that_sets import line_that_sets
from trainlib_deployer.errors import DeployError, Unsupported
from trainlib_deployer.torch_types import type_fault
from trainlib_deployer.user.code import message_of, source_of
from trainlib_deployer.user.model import OptimizerSpec

aten = torch.ops.aten
Tensor = torch.Tensor
RATES = (0.0123, 0.0457, 0.0311)  # arbitrary; the third one checks the line through the first two
COUNTS = (7, 19)  # likewise
COUNTED = "count in the state of each parameter: state['step'] = 0, then state['step'] += 1"
COUNT = "step"  # of an optimizer's state, as those of torch.optim call it
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
    rates: tuple[Formula, ...]


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
    """One step, without the profiler around it, or around that of a class which it calls."""
    step: Any = type(optimizer).step
    step = step.__wrapped__ if getattr(step, "hooked", False) else step
    unseen = mock.patch.object(torch.autograd.profiler, "record_function", lambda *name: contextlib.nullcontext())
    with torch.no_grad(), unseen:
        step(optimizer)


def check_independent(spec: OptimizerSpec, settings: Mapping[str, Any], values: Sequence[Tensor]) -> None:
    """Parameters are traced one at a time, so none may depend on another."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        together = {str(i): v.detach().clone() for i, v in enumerate(values)}
        gradients = [torch.randn(p.shape) for p in together.values()]
        for p, g in zip(together.values(), gradients, strict=True):
            p.grad = g.clone()
        step_of(Subject(spec, settings, values[0]).optimizer(together, RATES[0]))
    for before, p, g in zip(values, together.values(), gradients, strict=True):
        alone = before.detach().clone()
        Subject(spec, settings, before).step(alone, g, {}, RATES[0])
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


@dataclass(frozen=True)
class Traced:
    """The step at a learning rate and a count."""

    graph: fx.GraphModule
    rate: float
    count: int = 0
    known: Known = field(default_factory=Known)


def traced(subject: Subject) -> Update:
    early, late = state_after(subject, 1), state_after(subject, 5)
    labels = [k for k, v in early.items() if isinstance(v, Tensor)]
    if type(early.get(COUNT)) is int and (early[COUNT], late[COUNT]) == (1, 5):
        points = [*((rate, COUNTS[0]) for rate in RATES), *((rate, COUNTS[1]) for rate in RATES[:2])]
        found = [counting(subject, early, labels, *point) for point in points]
    else:
        found = [Traced(trace(subject, early, labels, rate), rate) for rate in RATES]
        if differing(found[0].graph, trace(subject, late, labels, RATES[0])):
            raise refused(subject.spec, "it counts its steps in a Python number", remedy=COUNTED)
    check_operations(subject.spec, found[0].graph.graph)
    rates = take_rates_out(subject.spec, found)
    states = initial_states(subject, found[0].graph, labels, early, rates)
    check_carried(subject, found[0].graph, states, rates)
    return Update(found[0].graph, states, rates)


def check_operations(spec: OptimizerSpec, graph: fx.Graph) -> None:
    for node in graph.nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise refused(spec, "it draws random numbers")
        for made in pytree.tree_leaves(node.meta.get("val")):
            fault = type_fault(made.dtype) if isinstance(made, Tensor) else None
            if fault is not None:
                raise Unsupported(f"the optimizer {spec.kind} makes a tensor that {fault[0]}", remedy=fault[1])


def counting(subject: Subject, state: Mapping[str, Any], labels: Sequence[str], rate: float, count: int) -> Traced:
    """With a number that remembers in place of the count."""
    known = Known()
    with functions_that_remember():
        given = {**state, COUNT: known.counted(float(count), Count())}
        return Traced(trace(subject, given, labels, rate), rate, count, known)


def numbers(rates: Sequence[Formula], count: int) -> list[float]:
    return [value_of(f, RATES[0], count) for f in rates]


def check_carried(
    subject: Subject, graph: fx.GraphModule, states: Sequence[tuple[str, Tensor]], rates: Sequence[Formula]
) -> None:
    """Whether the states are all that goes on: an optimizer that lives for some steps does what the graph does."""
    p, ours = subject.value.clone(), [subject.value.clone(), *(v.clone() for _, v in states)]
    optimizer = subject.optimizer({"p": p}, RATES[0])
    began = kept_numbers(optimizer)
    for count in range(STEPS):
        before = p.clone()
        p.grad = torch.randn(p.shape)
        after = graph(ours[0].clone(), p.grad.clone(), *(v.clone() for v in ours[1:]), *numbers(rates, count))
        step_of(optimizer)
        if not near(after[0] - ours[0], p - before, rounding=float(before.abs().max())):
            more = {n for n, v in kept_numbers(optimizer).items() if began.get(n) is not v}
            why = "it keeps more from step to step than its state, as a count in a group"
            raise refused(subject.spec, why, line_that_sets([optimizer], more), COUNTED)
        ours = after


def kept_numbers(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """What it holds beside its state: in attributes, and in its groups."""
    groups = {k: v for g in optimizer.param_groups for k, v in g.items() if k != "params"}
    return {**{k: v for k, v in vars(optimizer).items() if k not in ("state", "param_groups")}, **groups}


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
    subject: Subject, graph: fx.GraphModule, labels: Sequence[str], like: Mapping[str, Any], rates: Sequence[Formula]
) -> tuple[tuple[str, Tensor], ...]:
    """Contents from which the traced step does what the first step does: zeros, ones, or the parameter itself."""
    g = torch.randn(subject.value.shape)
    p = subject.value.clone()
    after = subject.step(p, g.clone(), {}, RATES[0])  # which may calculate where the gradient lies
    wanted = [p, *(after[k] for k in labels)]
    given = subject.optimizer({"p": subject.value.clone()}, RATES[0]).state  # what __init__ sets
    set_before: dict[str, Any] = next(iter(given.values()), {})
    choices = [[*beginnings(subject, like[k]), *(v for n, v in set_before.items() if n == k)] for k in labels]
    for values in itertools.product(*choices):
        found = graph(subject.value.clone(), g.clone(), *(v.clone() for v in values), *numbers(rates, 0))
        if all(near(a, b) for a, b in zip(found, wanted, strict=True)):
            return tuple(zip(labels, values, strict=True))
    why = "its state begins with something else than zeros, ones, the parameter, or what its __init__ sets"
    raise refused(subject.spec, why, line_that_sets([subject.optimizer({"p": p}, RATES[0])], labels))


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


def take_rates_out(spec: OptimizerSpec, found: Sequence[Traced]) -> tuple[Formula, ...]:
    """Constants of the first graph that follow the learning rate or the count become placeholders."""
    graph = found[0].graph.graph
    others = [{(n, place): y for n, place, _, y in differing(found[0].graph, t.graph)} for t in found[1:]]
    rates: dict[Formula, fx.Node] = {}
    last = [n for n in graph.nodes if n.op == "placeholder"][-1]
    for node, place in dict.fromkeys(key for values in others for key in values):
        if place is None:
            raise refused(spec, "what it does depends on the learning rate's value, or on the count of its steps")
        here = float(node.args[place] if isinstance(place, int) else node.kwargs[place])
        formula = formula_through(spec, found, [here, *(values.get((node, place), here) for values in others)])
        if formula not in rates:
            with graph.inserting_after(last):
                last = graph.placeholder(f"rate{len(rates)}")
            last.meta["val"] = torch.zeros(())
            rates[formula] = last
        put_rate(spec, graph, node, place, rates[formula])
    found[0].graph.recompile()
    return tuple(rates)


def formula_through(spec: OptimizerSpec, found: Sequence[Traced], values: Sequence[float]) -> Formula:
    """What a constant is that has these values in these traces."""
    counted = any(v != values[0] for v, t in zip(values, found, strict=True) if t.rate == RATES[0])
    ways: list[Formula | None] = [Line(v) for v in values[:2]]
    if counted:
        ways = [t.known.formulas.get(v) for v, t in zip(values[:2], found[:2], strict=True)]
    if ways[0] is None or ways[1] is None or (formula := along_the_rate(ways[0], ways[1], RATES[:2])) is None:
        raise refused(spec, "it counts its steps in a Python number", remedy=COUNTED)
    for value, t in zip(values, found, strict=True):
        if abs(value_of(formula, t.rate, t.count) - value) > 1e-9 * max(abs(v) for v in values):
            raise refused(spec, "it uses the learning rate in more than sums and products")
    return formula


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
