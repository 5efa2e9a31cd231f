"""The user's optimizer and scheduler over other parameters."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

State = dict[str, dict[str, Any]]  # of an optimizer: parameter, label


def make_optimizer(
    given: str | type[torch.optim.Optimizer],
    wanted: Sequence[tuple[Mapping[str, Any], Sequence[str]]],
    defaults: Mapping[str, Any],
    parameters: Mapping[str, nn.Parameter],
    state: Mapping[str, Mapping[str, Any]] | None = None,
) -> torch.optim.Optimizer:
    """An optimizer of this class over groups of (settings, names of parameters), with `state` from earlier updates."""
    kind: Any = getattr(torch.optim, given) if isinstance(given, str) else given
    accepted = inspect.signature(kind.__init__).parameters
    anything = any(a.kind is a.VAR_KEYWORD for a in accepted.values())
    groups = [
        {k: v for k, v in settings.items() if anything or k in accepted} | {"params": [parameters[n] for n in names]}
        for settings, names in wanted
    ]
    optimizer = kind(groups, **{k: v for k, v in defaults.items() if k in accepted})
    for group, (settings, _) in zip(optimizer.param_groups, wanted, strict=True):
        group.update({k: v for k, v in settings.items() if k not in accepted})
    for name, entries in (state or {}).items():
        optimizer.state[parameters[name]] = {k: own_copy(k, v, parameters[name]) for k, v in entries.items()}
    return optimizer  # type: ignore[no-any-return]


def own_copy(label: str, value: Any, p: nn.Parameter) -> Any:
    """In the precision of the parameter; the number of updates as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    floats = value.is_floating_point() and label != "step"
    return value.detach().clone().to(p.dtype if floats else value.dtype)


def make_scheduler(given: Any, optimizer: torch.optim.Optimizer) -> Any:
    """The user's scheduler as it stands, but over this optimizer."""
    if given is None or isinstance(given, torch.optim.lr_scheduler.LRScheduler):
        return given and copy.deepcopy(given, {id(given.optimizer): optimizer})
    return given(optimizer)
