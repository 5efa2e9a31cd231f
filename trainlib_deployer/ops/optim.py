"""Optimizers: the update of every parameter as pointwise loops, in PyTorch's own order of arithmetic.

`lr` and `step` are run-time scalars. A group whose learning rate differs from the first group's gets a constant
factor on `lr`.
Bias corrections 1 - beta^t are carried as c <- beta*c + (1 - beta), which keeps full precision in the first steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainlib_deployer.ir import DType, Role, Tensor, View
from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.expr import Expr, Operand, call, select

Hyper = Mapping[str, Any]


@dataclass(frozen=True)
class Parameter:
    """What a rule updates: the parameter and its gradient, both dense."""

    name: str
    value: View
    gradient: View


@dataclass
class Group:
    """Parameters under the same settings, and the run-time scalars they share."""

    hyper: Hyper
    lr: View
    step: View
    index: int


Rule = Callable[[Builder, Group, list[Parameter]], None]
OPTIMIZERS: dict[str, Rule] = {}


def optimizer(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        for name in names:
            OPTIMIZERS[name] = rule
        return rule

    return register


def state(b: Builder, name: str, shape: tuple[int, ...], value: float = 0.0) -> View:
    """A tensor that lives from step to step."""
    tensor = Tensor(b.fresh(name), shape, DType.F32, Role.STATE, b.where.layer, b.where.source)
    b.program.tensors[tensor.name] = tensor
    b.program.values[tensor.name] = np.full(shape, value, np.float32)
    return View.whole(tensor)


def signed(hyper: Hyper, g: Expr) -> Expr:
    return -g if hyper.get("maximize") else g


def decayed(hyper: Hyper, g: Expr, p: Expr) -> Expr:
    """The gradient with L2 decay added."""
    decay = hyper.get("weight_decay", 0.0)
    return g + p * float(decay) if decay else g


@optimizer("SGD")
def sgd(b: Builder, group: Group, parameters: list[Parameter]) -> None:
    h = group.hyper
    momentum, dampening = float(h.get("momentum", 0.0)), float(h.get("dampening", 0.0))

    def plain(p: Expr, g: Expr, lr: Expr) -> tuple[Operand, ...]:
        return (p - lr * decayed(h, signed(h, g), p),)

    def heavy(p: Expr, g: Expr, lr: Expr, buf: Expr, step: Expr) -> tuple[Operand, ...]:
        d = decayed(h, signed(h, g), p)
        later = buf * momentum + d * (1.0 - dampening)
        new = later if dampening == 0 else select(step.equals(0), d, later)
        direction = d + new * momentum if h.get("nesterov") else new
        return p - lr * direction, new

    for q in parameters:
        reads = [q.value, q.gradient, group.lr]
        if not momentum:
            b.maps(plain, *reads, shape=q.value.shape, into=[q.value], suffix=q.name)
        else:
            buf = state(b, f"{q.name}.momentum_buffer", q.value.shape)
            b.maps(
                heavy,
                *reads,
                buf,
                group.step,
                dtypes=(None, None),
                shape=q.value.shape,
                into=[q.value, buf],
                suffix=q.name,
            )


def bias_correction(b: Builder, group: Group, beta: float, label: str) -> View:
    """1 - beta^t, advanced once a step."""
    c = state(b, f"group{group.index}.{label}", ())
    b.maps(lambda c: (c * beta + (1.0 - beta),), c, shape=(), into=[c], suffix=label)
    return c


@optimizer("Adam", "AdamW")
def adam(b: Builder, group: Group, parameters: list[Parameter]) -> None:
    h = group.hyper
    beta1, beta2 = (float(v) for v in h.get("betas", (0.9, 0.999)))
    eps, decay = float(h.get("eps", 1e-8)), float(h.get("weight_decay", 0.0))
    decoupled = bool(h.get("decoupled_weight_decay", h.get("kind") == "AdamW"))
    amsgrad = bool(h.get("amsgrad"))
    c1 = bias_correction(b, group, beta1, "correction1")
    c2 = bias_correction(b, group, beta2, "correction2")

    def rates(lr: Expr, c1: Expr, c2: Expr) -> tuple[Operand, ...]:
        return lr / c1, call("rsqrt", c2)

    rate, root = b.maps(rates, group.lr, c1, c2, dtypes=(None, None), shape=(), suffix="rate")

    def update(p: Expr, g: Expr, lr: Expr, rate: Expr, root: Expr, m: Expr, v: Expr, *top: Expr) -> tuple[Operand, ...]:
        g = signed(h, g)
        if decay and decoupled:
            p = p * (1.0 - lr * decay)
        elif decay:
            g = g + p * decay
        m = m + (g - m) * (1.0 - beta1)
        v = v * beta2 + g * g * (1.0 - beta2)
        largest = [call("max", before, v) for before in top]
        denominator = call("sqrt", largest[0] if largest else v) * root + eps
        return (p - rate * (m / denominator), m, v, *largest)

    for q in parameters:
        shape = q.value.shape
        moments = [
            state(b, f"{q.name}.{label}", shape)
            for label in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")[: 3 if amsgrad else 2]
        ]
        into = [q.value, *moments]
        b.maps(
            update,
            q.value,
            q.gradient,
            group.lr,
            rate,
            root,
            *moments,
            dtypes=(None,) * len(into),
            shape=shape,
            into=into,
            suffix=q.name,
        )


@optimizer("RMSprop")
def rmsprop(b: Builder, group: Group, parameters: list[Parameter]) -> None:
    h = group.hyper
    alpha, eps, momentum = float(h.get("alpha", 0.99)), float(h.get("eps", 1e-8)), float(h.get("momentum", 0.0))
    centered = bool(h.get("centered"))

    def update(p: Expr, g: Expr, lr: Expr, square: Expr, *rest: Expr) -> tuple[Operand, ...]:
        left = list(rest)
        g = decayed(h, signed(h, g), p)
        square = square * alpha + g * g * (1.0 - alpha)
        out: list[Operand] = [square]
        spread = square
        if centered:
            average = left.pop(0)
            average = average + (g - average) * (1.0 - alpha)
            out.append(average)
            spread = square - average * average
        direction = g / (call("sqrt", spread) + eps)
        if momentum:
            direction = left.pop(0) * momentum + direction
            out.append(direction)
        return (p - lr * direction, *out)

    labels = ["square_avg"] + (["grad_avg"] if centered else []) + (["momentum_buffer"] if momentum else [])
    with_states(b, group, parameters, labels, update)


@optimizer("Adagrad")
def adagrad(b: Builder, group: Group, parameters: list[Parameter]) -> None:
    h = group.hyper
    decay, eps = float(h.get("lr_decay", 0.0)), float(h.get("eps", 1e-10))

    def update(p: Expr, g: Expr, lr: Expr, total: Expr, step: Expr) -> tuple[Operand, ...]:
        g = decayed(h, signed(h, g), p)
        total = total + g * g
        rate = lr / (step.float() * decay + 1.0) if decay else lr
        return p - rate * (g / (call("sqrt", total) + eps)), total

    with_states(
        b, group, parameters, ["sum"], update, group.step, initial=float(h.get("initial_accumulator_value", 0.0))
    )


@optimizer("Adadelta")
def adadelta(b: Builder, group: Group, parameters: list[Parameter]) -> None:
    h = group.hyper
    rho, eps = float(h.get("rho", 0.9)), float(h.get("eps", 1e-6))

    def update(p: Expr, g: Expr, lr: Expr, square: Expr, delta: Expr) -> tuple[Operand, ...]:
        g = decayed(h, signed(h, g), p)
        square = square * rho + g * g * (1.0 - rho)
        change = call("sqrt", delta + eps) / call("sqrt", square + eps) * g
        return p - lr * change, square, delta * rho + change * change * (1.0 - rho)

    with_states(b, group, parameters, ["square_avg", "acc_delta"], update)


def with_states(
    b: Builder,
    group: Group,
    parameters: list[Parameter],
    labels: list[str],
    update: Callable[..., tuple[Operand, ...]],
    *extra: View,
    initial: float = 0.0,
) -> None:
    """One loop a parameter: (p, g, lr, states..., extra...) -> (p, states...)."""
    for q in parameters:
        states = [state(b, f"{q.name}.{label}", q.value.shape, initial) for label in labels]
        into = [q.value, *states]
        b.maps(
            update,
            q.value,
            q.gradient,
            group.lr,
            *states,
            *extra,
            dtypes=(None,) * len(into),
            shape=q.value.shape,
            into=into,
            suffix=q.name,
        )
