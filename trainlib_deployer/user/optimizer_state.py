"""The optimizer's state that a checkpoint holds beside the weights: training goes on with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from golden.optimizers import State, make_optimizer
from trainlib_deployer.user.model import OptimizerSpec
from trainlib_deployer.user.weights import DEEPEST, read_weights


def with_stored_state(spec: OptimizerSpec, path: Path, module: nn.Module) -> tuple[OptimizerSpec, list[str]]:
    """The optimizer as far as the file has brought it, where its state fits; and what to say about that."""
    stored = next(optimizer_states(read_weights(path)), None)
    if stored is None or not stored["state"]:
        return spec, []
    state = by_name(spec, stored)
    fault = misfit(spec, state, dict(module.named_parameters()))
    if fault:
        return spec, [f"optimizer: its state in {path} is not used, as {fault}; training starts with a fresh one"]
    updates = updates_of(state)
    return replace(spec, state=state, updates=updates), [
        f"optimizer: goes on after {updates} updates with its state in {path}; its settings are the model's"
    ]


def optimizer_states(content: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """What looks like optimizer.state_dict(), under any key, also in a list, as Lightning has it."""
    if depth > DEEPEST:
        return
    if isinstance(content, Mapping):
        if isinstance(content.get("state"), Mapping) and isinstance(content.get("param_groups"), list):
            yield dict(content)
        for value in content.values():
            yield from optimizer_states(value, depth + 1)
    elif isinstance(content, list | tuple):
        for value in content:
            yield from optimizer_states(value, depth + 1)


def by_name(spec: OptimizerSpec, stored: Mapping[str, Any]) -> State:
    """Numbers of parameters count through the groups; those of the file must be like the optimizer's."""
    numbers = [n for g in stored["param_groups"] if isinstance(g, Mapping) for n in g.get("params", ())]
    names = [n for g in spec.groups for n in g.names]
    if len(numbers) != len(names):
        return {}
    found = {n: stored["state"].get(i) for n, i in zip(names, numbers, strict=True)}
    return {n: dict(s) for n, s in found.items() if isinstance(s, Mapping) and s}


def misfit(spec: OptimizerSpec, state: State, parameters: Mapping[str, nn.Parameter]) -> str:
    """Why this is no state of this optimizer."""
    if not state:
        return "it is of other parameters"
    for name, entries in expected(spec, parameters).items():
        if name not in state:
            return f"it lacks '{name}'"
        for label, like in entries.items():
            value = state[name].get(label)
            if value is None:
                return f"it is of another optimizer than {spec.kind}"
            if isinstance(like, torch.Tensor) and (not isinstance(value, torch.Tensor) or value.shape != like.shape):
                return f"'{name}' has another shape there"
    if len({float(s["step"]) for s in state.values() if "step" in s}) > 1:
        return "its parameters have been updated unequally often"
    return ""


def expected(spec: OptimizerSpec, parameters: Mapping[str, nn.Parameter]) -> State:
    """The entries that such an optimizer has after a step."""
    shapes = {n: parameters[n].shape for g in spec.groups for n in g.names}
    trained = [n for n in shapes if parameters[n].requires_grad]
    groups = [(g.hyper, g.names) for g in spec.groups]
    try:
        optimizer, dummies = after_a_step(spec.own or spec.kind, groups, spec.defaults, shapes, trained)
    except Exception:  # what is wrong with the user's own optimizer is said when it is traced
        return {}
    return {n: dict(optimizer.state[dummies[n]]) for n in trained}


def after_a_step(
    kind: str | type[torch.optim.Optimizer],
    groups: Sequence[tuple[Mapping[str, Any], Sequence[str]]],
    defaults: Mapping[str, Any],
    shapes: Mapping[str, Sequence[int]],
    trained: Sequence[str],
) -> tuple[torch.optim.Optimizer, dict[str, nn.Parameter]]:
    """An optimizer over zeros, to see what its state consists of."""
    parameters = {n: nn.Parameter(torch.zeros(tuple(shape))) for n, shape in shapes.items()}
    optimizer = make_optimizer(kind, groups, defaults, parameters)
    for n in trained:
        parameters[n].grad = torch.zeros_like(parameters[n])
    optimizer.step()
    return optimizer, parameters


def updates_of(state: State) -> int:
    """Optimizers that do not count have made at least one."""
    return max(int(s.get("step", 1)) for s in state.values())
