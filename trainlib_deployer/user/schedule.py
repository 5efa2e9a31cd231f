"""What the user calls `scheduler` to settings of each update, or to a rule that watches the loss."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR, ReduceLROnPlateau

from golden import optimizers
from trainlib_deployer.errors import Unsupported, UsageError
from trainlib_deployer.user.code import a_type, user_code
from trainlib_deployer.user.model import OptimizerSpec, Plateau, Schedule
from trainlib_deployer.user.optimizer import plain

CYCLED = ("SGD", "RMSprop", "Adam", "AdamW", "NAdam", "RAdam", "Adamax")  # whose momentum may be a tensor
NOT_CYCLED = "switch that off, for instance with cycle_momentum=False"
OF_SCHEDULES = ("params", "lr", "initial_lr", "max_lr", "min_lr", "momentum", "base_momentum", "max_momentum")


def read_schedule(given: Any, over: Any, spec: OptimizerSpec, updates: int) -> Schedule:
    """The settings of so many updates. The groups' learning rates must keep their ratio, their momentum be one."""
    if given is None:
        return Schedule()
    optimizer, scheduler = scheduled(given, over, spec)
    if isinstance(scheduler, ReduceLROnPlateau):
        with user_code("the scheduler fails"):
            return Schedule(plateau=read_plateau(scheduler, spec))
    check_length(scheduler, updates)
    rates, momenta = [], []
    fixed = other_settings(optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for update in range(updates):
            if update:
                one_update(optimizer, scheduler, update)
            rates.append([float(g["lr"]) for g in optimizer.param_groups])
            momenta.append([momentum_of(g) for g in optimizer.param_groups])
            if other_settings(optimizer) != fixed:
                raise Unsupported(
                    f"{type(scheduler).__name__} changes more than the learning rate and the momentum",
                    remedy="use a scheduler that leaves the rest alone",
                )
    check_ratios(rates, [float(g.hyper.get("initial_lr", g.hyper["lr"])) for g in spec.groups])
    before = [momentum_of(g.hyper) for g in spec.groups]
    if all(row == before == momenta[0] for row in momenta):
        return Schedule(rates=tuple(row[0] for row in rates))
    if spec.own is not None or spec.kind not in CYCLED:
        raise Unsupported(f"{type(scheduler).__name__} changes the momentum of {spec.kind}", remedy=NOT_CYCLED)
    if any(len(set(row)) > 1 for row in momenta):
        raise Unsupported(f"{type(scheduler).__name__} gives the groups different momenta", remedy=NOT_CYCLED)
    return Schedule(tuple(row[0] for row in rates), tuple(row[0] for row in momenta))


def check_length(scheduler: LRScheduler, updates: int) -> None:
    """PyTorch says only that it was tried to step once more."""
    left = scheduler.total_steps - scheduler.last_epoch if isinstance(scheduler, OneCycleLR) else updates
    if left < updates:
        longer = f"OneCycleLR(..., total_steps={scheduler.last_epoch + updates})"
        raise UsageError(
            f"the scheduler ends after {plural(left)}, {updates} are asked for",
            remedy=f"--steps and --updates of at most {left}, or {longer}" if left > 0 else longer,
        )


def plural(updates: int) -> str:
    return f"{updates} update{'s' * (updates != 1)}"


def one_update(optimizer: torch.optim.Optimizer, scheduler: LRScheduler, done: int) -> None:
    """To the settings of the next; after the last there are none to ask for. One's own optimizer may need gradients."""
    with contextlib.suppress(Exception):
        optimizer.step()
    remedy = f"{done + 1} or more are asked for (--steps, --updates)"
    with user_code(f"the scheduler fails after {plural(done)}", remedy=remedy):
        scheduler.step()


def sentence(schedule: Schedule) -> str:
    """What was assumed of it: scripts step a scheduler where they like."""
    if schedule.plateau is not None:
        return "scheduler: it watches the loss of every update"
    return "scheduler: one step an update" if schedule.rates else ""


def check_ratios(rates: list[list[float]], base: list[float]) -> None:
    for row in rates:
        if any(
            abs(rate * base[0] - row[0] * own) > 1e-12 * abs(row[0] * own) for rate, own in zip(row, base, strict=True)
        ):
            raise Unsupported(
                "the scheduler changes the ratio of the groups' learning rates",
                remedy="a step is given one learning rate: use the same schedule for all groups",
            )


def scheduled(given: Any, over: Any, spec: OptimizerSpec) -> tuple[torch.optim.Optimizer, Any]:
    """A copy of the scheduler over an optimizer without gradients, whose steps do nothing."""
    if not isinstance(given, LRScheduler) and not callable(given):
        raise UsageError(
            f"'scheduler' is {a_type(given)}, not a torch.optim.lr_scheduler",
            remedy="for instance: scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)",
        )
    if isinstance(given, LRScheduler) and given.optimizer is not over:
        raise UsageError(
            "'scheduler' belongs to another optimizer", remedy="make it over the one that is called 'optimizer'"
        )
    parameters = {n: nn.Parameter(torch.zeros(1)) for g in spec.groups for n in g.names}
    settings = [(g.hyper, g.names) for g in spec.groups]
    optimizer = optimizers.make_optimizer(spec.own or spec.kind, settings, spec.defaults, parameters)
    with user_code("the scheduler fails", remedy="it must be a torch.optim.lr_scheduler, or take an optimizer"):
        scheduler = optimizers.make_scheduler(given, optimizer)
    if not isinstance(scheduler, LRScheduler):
        raise UsageError(f"'scheduler' returns {a_type(scheduler)}, not a torch.optim.lr_scheduler")
    return optimizer, scheduler


def read_plateau(scheduler: ReduceLROnPlateau, spec: OptimizerSpec) -> Plateau:
    if scheduler.mode != "min":
        raise Unsupported(
            "ReduceLROnPlateau(mode='max') watches something else than the loss",
            remedy="net_train_step takes the learning rate: decide in the program that calls it, or watch the loss",
        )
    if any(g.hyper["lr"] <= 0 for g in spec.groups):
        raise UsageError("ReduceLROnPlateau needs a learning rate above 0")
    return Plateau(
        factor=float(scheduler.factor),
        patience=int(scheduler.patience),
        threshold=float(scheduler.threshold),
        relative=scheduler.threshold_mode == "rel",
        cooldown=int(scheduler.cooldown),
        smallest=tuple(float(least) for least in scheduler.min_lrs),
        change=float(scheduler.eps),
        best=float(scheduler.best),
        bad=int(scheduler.num_bad_epochs),
        cooling=int(scheduler.cooldown_counter),
    )


def momentum_of(group: Any) -> float:
    """What schedules call the momentum of a group."""
    return float(group["betas"][0] if "betas" in group else group.get("momentum", 0.0))


def other_settings(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """All but the learning rate and the momentum."""
    rest = ({k: plain(v) for k, v in g.items() if k not in OF_SCHEDULES} for g in optimizer.param_groups)
    return [{k: v[1:] if k == "betas" else v for k, v in g.items()} for g in rest]
