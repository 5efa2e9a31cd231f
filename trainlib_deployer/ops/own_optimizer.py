"""The update of a user-written optimizer: every node of its traced step through the rule of its family."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import fx

from trainlib_deployer.capture.count import Count, Formula, Line, Made
from trainlib_deployer.capture.optimizer import Update, capture_update, check_independent
from trainlib_deployer.errors import Unsupported
from trainlib_deployer.ops.build import Builder, Where
from trainlib_deployer.ops.registry import RULES
from trainlib_deployer.ops.update import Group, Parameter, entitle, scalars, state, write
from trainlib_deployer.program.expr import Expr, Operand, call
from trainlib_deployer.program.ir import View
from trainlib_deployer.user.model import OptimizerSpec

OPERATIONS: Mapping[str, Callable[..., Operand]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "neg": operator.neg,
    "pow": lambda a, b: call("pow", a, b),
    "sqrt": lambda a: call("sqrt", a),
    "exp": lambda a: call("exp", a),
}


def own_optimizer(b: Builder, spec: OptimizerSpec, group: Group, parameters: list[Parameter]) -> None:
    settings = {k: v for k, v in group.hyper.items() if k not in ("kind", "defaults")}
    rates: dict[Formula, View] = {}
    values = [torch.from_numpy(np.array(b.program.values[q.name])) for q in parameters]
    updates = [capture_update(spec, settings, value) for value in values]
    check_independent(spec, settings, values)
    for q, update in zip(parameters, updates, strict=True):
        for formula in update.rates:
            if formula not in rates:
                rates[formula] = rate_view(b, group, formula)
        b.where = Where("update", q.layer, group.function)
        lower_update(b, q, update, [rates[key] for key in update.rates], group)


def rate_view(b: Builder, group: Group, formula: Formula) -> View:
    match formula:
        case Line(0.0, 1.0):
            return group.lr
        case Line(offset, slope):
            b.where = Where("update", "", group.function)
            made = b.map(lambda lr: lr * slope + offset, group.lr, shape=(), suffix="rate")
            entitle(b, f"group {group.index}", f"{group.function}, {offset:g} + {slope:g} * learning rate")
            return made

    def counted(lr: Expr, step: Expr) -> Sequence[Operand]:
        return (computed(formula, lr, step.float()),)

    return scalars(b, group, "rate_of_this_step", counted, [group.lr, group.step], {}, results=1)[0]


def computed(formula: Formula, lr: Expr, step: Expr) -> Operand:
    """1 - beta^t without its cancellation."""
    match formula:
        case Line(offset, slope):
            return lr * slope + offset if slope else offset
        case Count():
            return step
        case Made("sub", (Line(1.0, 0.0), Made("pow", (Line(beta, 0.0), exponent)))) if 0.0 < beta < 1.0:
            return -call("expm1", computed(exponent, lr, step) * math.log(beta))
        case Made(operation, operands):
            return OPERATIONS[operation](*(computed(f, lr, step) for f in operands))


def lower_update(b: Builder, q: Parameter, update: Update, rates: list[View], group: Group) -> None:
    states = []
    for label, initial in update.states:
        view = state(b, f"{q.name}.{label}", tuple(initial.shape))
        b.program.values[view.tensor] = initial.numpy().astype(np.float32)
        states.append(view)
    given = iter([q.value, q.gradient, *states, *rates])
    env: dict[fx.Node, Any] = {}
    results: list[View] = []
    for node in update.graph.graph.nodes:
        if node.op == "placeholder":
            env[node] = next(given)
        elif node.op == "get_attr":
            env[node] = b.constant(getattr(update.graph, node.target).detach().numpy())
        elif node.op == "call_function":
            env[node] = lowered(b, node, env, group)
        else:
            results = list(fx.node.map_arg(node.args[0], lambda n: env[n]))
    for result, target in zip(results, [q.value, *states], strict=True):
        if result.tensor != target.tensor:
            if target is q.value:
                write(b, group, q, result)
            else:
                b.copy_into(b.reshape(result, target.shape), target)
            entitle(b, q.name if target is q.value else target.tensor, group.function)


def lowered(b: Builder, node: fx.Node, env: dict[fx.Node, Any], group: Group) -> Any:
    rule = RULES.get(node.target)
    if rule is None:
        name = str(node.target).removeprefix("aten.").rpartition(".")[0]
        raise Unsupported(f"the optimizer {group.hyper['kind']} needs the operation '{name}', which cannot be deployed")
    b.meta = node.meta["val"]
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: env[n])
    return rule(b, *args, **kwargs)
