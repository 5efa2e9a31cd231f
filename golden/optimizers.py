"""The user's optimizer and scheduler over other parameters."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn


def make_optimizer(
    given: str | type[torch.optim.Optimizer],
    wanted: Sequence[tuple[Mapping[str, Any], Sequence[str]]],
    defaults: Mapping[str, Any],
    parameters: Mapping[str, nn.Parameter],
) -> torch.optim.Optimizer:
    """An optimizer of this class over groups of (settings, names of parameters)."""
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
    return optimizer  # type: ignore[no-any-return]


def make_scheduler(given: Any, optimizer: torch.optim.Optimizer) -> Any:
    """The user's scheduler as it stands, but over this optimizer."""
    if given is None or isinstance(given, torch.optim.lr_scheduler.LRScheduler):
        return given and copy.deepcopy(given, {id(given.optimizer): optimizer})
    return given(optimizer)
