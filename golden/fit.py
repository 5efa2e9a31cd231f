"""Learning from files of examples as `make host DATA=train.bin` does it, by PyTorch itself: the same order of examples,
the same evaluation, the same early end.

    task = load.load_task(Path("model"))
    train, test = (Examples.read(Path(name), task.layout) for name in ("train.bin", "test.bin"))
    print(fit(task, train, test, How(epochs=5)).epochs)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.optim.lr_scheduler import OneCycleLR

from golden import dither
from golden.drawing import Drawing
from golden.examples import Examples
from golden.metrics import default_metrics, measured
from golden.optimizers import make_optimizer, make_scheduler
from golden.precision import cast
from golden.random_numbers import Numbers
from golden.reference import evaluated, first_examples, forward, halving, prepared, taken, update
from golden.scaling import Scaler
from golden.shuffle import shuffled
from golden.task import Task


@dataclass(frozen=True)
class How:
    """What the program takes as EPOCHS, STEPS, SEED, PATIENCE and SHUFFLE."""

    epochs: int = 1
    steps: int = 0  # at most; 0: no limit
    seed: int = 0
    patience: int = 0  # epochs without a lower loss on the held-out examples; 0: no early end
    in_order: bool = False


@dataclass(frozen=True)
class Epoch:
    """Means over samples; the losses of training are those before each update."""

    number: int
    loss: float
    held_out: float | None
    metrics: dict[str, float]
    best: bool  # the lowest loss on the held-out examples so far


@dataclass(frozen=True)
class Fitted:
    """How it went, and what was learned."""

    epochs: list[Epoch]
    losses: list[float]  # step by step
    state: dict[str, torch.Tensor]


def fit(task: Task, train: Examples, held_out: Examples | None, how: How, dtype: torch.dtype = torch.float32) -> Fitted:
    """The module gets back what it holds now."""
    with prepared(task, dtype):
        run = Run(task, train, held_out, how, dtype)
        epochs = list(run.epochs())
        state = {n: v.detach().clone() for n, v in task.module.state_dict().items() if isinstance(v, torch.Tensor)}
        return Fitted(epochs, run.losses, state)


class Run:
    """One training, under way."""

    def __init__(self, task: Task, train: Examples, held_out: Examples | None, how: How, dtype: torch.dtype) -> None:
        self.task, self.train, self.held_out, self.how, self.dtype = task, train, held_out, how, dtype
        self.parameters = dict(task.module.named_parameters())
        self.optimizer = make_optimizer(task.optimizer, task.groups, task.defaults, self.parameters, task.state)
        self.scheduler = make_scheduler(task.scheduler, self.optimizer)
        self.scaler = None if task.loss_scale is None else Scaler(task.loss_scale)
        self.losses: list[float] = []
        steps = how.epochs * (len(train) // train.layout.batch)
        self.updates = min(steps, how.steps or steps) // task.accumulate
        check_length(self.scheduler, self.updates)

    def epochs(self) -> Iterator[Epoch]:
        best, waited = float("inf"), 0
        for number in range(self.how.epochs):
            if self.ended() or (self.how.patience and waited >= self.how.patience):
                return
            loss = self.epoch(number)
            held_out, metrics = (None, {}) if self.held_out is None else self.evaluated(self.held_out)
            better = held_out is not None and held_out < best
            best = held_out if held_out is not None and better else best
            waited = 0 if better or held_out is None else waited + 1
            yield Epoch(number + 1, loss, held_out, metrics, better)

    def ended(self) -> bool:
        return bool(self.how.steps) and len(self.losses) >= self.how.steps

    def epoch(self, number: int) -> float:
        order = range(len(self.train)) if self.how.in_order else shuffled(len(self.train), self.how.seed, number)
        before = len(self.losses)
        for numbers in samples_of(order, self.train.layout.batch):
            if self.ended():
                break
            self.losses.append(self.step(self.train.sample(self.like, numbers)))
        return mean(self.losses[before:])

    @property
    def like(self) -> tuple[Any, Any]:
        """What a step takes."""
        inputs, target = self.task.samples[0]
        return tuple(inputs), target

    def step(self, sample: tuple[Any, Any]) -> float:
        step, every = len(self.losses), self.task.accumulate
        if step % every == 0:
            self.task.module.zero_grad(set_to_none=True)
        sample = taken(sample, self.dtype)
        with Drawing(Numbers(step)), halving(self.task, sample, self.dtype):
            _, loss = forward(self.task, sample, self.dtype)
            ((loss if self.scaler is None else self.scaler.scaled(loss)) / every).backward()
        if (step + 1) % every == 0:
            last = (step + 1) // every == self.updates  # with which a scheduler may end
            schedule = None if last else self.scheduler
            update(self.task, self.parameters, self.optimizer, schedule, float(loss.detach()), self.scaler)
            dither.by_chance(self.parameters, self.task.halves, step)
        return float(loss.detach())

    def evaluated(self, examples: Examples) -> tuple[float, dict[str, float]]:
        """With the random numbers of the next step, if it draws any; nothing is learned."""
        losses: list[float] = []
        found: dict[str, list[float]] = {}
        like = first_examples(self.task, self.like)
        for numbers in samples_of(range(len(examples)), self.task.evaluated.batch):
            sample = examples.sample(like, numbers)
            output, loss = evaluated(self.task, sample, self.dtype, len(self.losses))
            losses.append(float(loss))
            metrics = self.task.metrics or default_metrics(output, sample[1])
            for name, value in measured(metrics, output, cast(sample[1], self.dtype)).items():
                found.setdefault(name, []).append(float(value))
        return mean(losses), {name: mean(values) for name, values in found.items()}


def check_length(scheduler: Any, updates: int) -> None:
    """PyTorch says only in the middle of the training that it was tried to step once more."""
    left = scheduler.total_steps - scheduler.last_epoch if isinstance(scheduler, OneCycleLR) else updates
    if left < updates:
        raise ValueError(f"the scheduler ends after {left} updates; this training makes {updates}")


def samples_of(order: Any, batch: int) -> Iterator[Any]:
    """A rest that is no sample is left out."""
    return (order[i : i + batch] for i in range(0, len(order) - batch + 1, batch))


def mean(values: list[float]) -> float:
    """In float32 and in order, as a chip adds them up."""
    total = np.float32(0)
    for value in values:
        total += np.float32(value)
    return float(total / np.float32(len(values)))
