"""net.py to UserModel, with every mistake a person can make answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from golden.examples import Layout
from golden.metrics import Metrics
from golden.snapshot import Snapshot
from trainlib_deployer.user.labels import Labels


@dataclass(frozen=True)
class Group:
    """Parameters under the same optimizer settings."""

    hyper: Mapping[str, Any]  # lr, momentum, ...: a torch.optim param_group without "params"
    names: tuple[str, ...]  # dotted parameter names


@dataclass(frozen=True)
class OptimizerSpec:
    """Which optimizer, and its groups."""

    kind: str  # the name of the class; none where nothing is trained
    groups: tuple[Group, ...]
    defaults: Mapping[str, Any] = field(default_factory=dict)  # what the constructor was given
    own: type[torch.optim.Optimizer] | None = None  # the class, where it is not one of torch.optim
    state: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # from earlier updates: parameter, label
    updates: int = 0  # made before the first one


@dataclass(frozen=True)
class Plateau:
    """torch.optim.lr_scheduler.ReduceLROnPlateau over the loss, as it stands."""

    factor: float
    patience: int
    threshold: float
    relative: bool  # whether the threshold is a share of the best loss
    cooldown: int
    smallest: tuple[float, ...]  # learning rate of each group
    change: float  # less than this is none
    best: float
    bad: int  # updates since the best
    cooling: int  # updates for which it does not count


@dataclass(frozen=True)
class Schedule:
    """What a scheduler makes of the optimizer's settings: update by update, or by what is measured."""

    rates: tuple[float, ...] = ()  # the first group's learning rate
    momenta: tuple[float, ...] = ()  # of all groups, if it changes: momentum, or the first of betas
    plateau: Plateau | None = None


@dataclass(frozen=True)
class UserModel:
    """What is trained, on what, how; or only run, without target, loss and optimizer."""

    name: str  # identifier-like; names the default output folder
    module: nn.Module
    inputs: tuple[Any, ...]  # the example: positional arguments of forward (tensors, or containers of tensors)
    target: Any  # the example target: a tensor or a container of tensors
    loss: Any  # callable (output, target) -> scalar tensor
    optimizer: OptimizerSpec
    start: Snapshot  # what module and loss hold before anything runs; each run of the user's code ends with this
    samples: Sequence[tuple[tuple[Any, ...], Any]]  # distinct (inputs, target); the first is the example
    source: Path | None = None  # the user's file; None from a notebook
    helpers: tuple[Path, ...] = ()  # the user's own files that the file imports
    attribute: str = "model"  # what in the file makes the model
    notes: tuple[str, ...] = ()  # defaults that were chosen for the user, to be said aloud
    scheduler: Any = None  # a torch.optim.lr_scheduler, or a function making one from an optimizer
    schedule: Schedule = field(default_factory=Schedule)  # what the scheduler makes of the optimizer's settings
    clip_norm: float | None = None
    clip_value: float | None = None
    trains: bool = True
    by_row: bool = True  # the rows of a sample are its examples
    examples: Layout | None = None  # what a file has for it, with targets, where nothing is trained
    metrics: Metrics = field(default_factory=dict)  # functions of output and target
    evaluation: UserModel | None = None  # the same in eval mode, with its loss, in a batch of its own
    labels: Mapping[int, Labels] = field(default_factory=dict)  # what the target's tensors may hold, by number
    differs_in_eval: bool = False  # what it returns, from what it returns as it trains
    first_call: bool = False  # whether the example has set parameters, as the first input that the module ever saw

    @property
    def layout(self) -> Layout:
        """Of files of examples."""
        return Layout.of(self.inputs, self.target, self.by_row)


def parameter_count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def trainable(module: nn.Module) -> dict[str, torch.nn.Parameter]:
    """Parameters without elements, as those of nn.Linear(8, 0), have no gradient to compute."""
    return {n: p for n, p in module.named_parameters() if p.requires_grad and (is_lazy(p) or p.numel())}
