"""The reference run: the user's own model trained (or only run) by PyTorch itself, in any precision, recorded tensor
by tensor.

Eager PyTorch, `loss.backward()`, `torch.optim`; this folder needs nothing else, so that a copy works in a generated
project.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils import _pytree as pytree

from golden import dither
from golden.autocast import without_autocast
from golden.borrow import borrowed, uncompiled
from golden.drawing import Drawing
from golden.examples import leaves, opened
from golden.halves import Halves, unmark
from golden.layers import inside
from golden.optimizers import make_optimizer, make_scheduler
from golden.precision import (
    InOrder,
    Precise,
    as_real,
    as_scalar,
    cast,
    new_tensors_in,
    one_thread,
    saved_tensors,
    shaped_like,
)
from golden.random_numbers import Numbers
from golden.record import Kept, Record
from golden.rounding import otherwise
from golden.scaling import Scaler
from golden.snapshot import Snapshot
from golden.task import Task

Array = np.ndarray[Any, Any]
Key = tuple[int, str, str]  # step, kind, name
EVALUATION = "evaluation"  # the kind of what a model gives as after model.eval(), behind a step
COUNTERS = ("step", "num_batches_tracked", "mu_product", "eta", "mu")  # functions of the step number alone


def run(
    task: Task, steps: int, dtype: torch.dtype, noise: int = 0, resume: Mapping[Key, Array] | None = None
) -> dict[Key, Array]:
    """Everything that `steps` steps compute, tensor by tensor."""
    record = Kept()
    train(task, steps, dtype, record, noise, resume)
    return record


def train(
    task: Task,
    steps: int,
    dtype: torch.dtype,
    record: Record,
    noise: int = 0,
    resume: Mapping[Key, Array] | None = None,
) -> None:
    """Train the module, which gets back what it holds now, on `steps` samples and record everything a step computes.

    With `accumulate`, a step is one backward pass, and the gradient is what has been accumulated after it. The recorded
    gradient is the one before clipping.

    `noise` (a seed) makes every operation round once more by chance, as golden.rounding tells. With `resume`, the
    record of another run, every step but the first starts from the parameters and states which that run had reached.

    The float32 run is that of a user who saves as `task.saved` says; float64 stays exact. Where the task is inference,
    a step is a forward pass.
    """
    with prepared(task, dtype, noise):
        (inferring if task.inference else training)(task, steps, dtype, record, noise, resume)


@contextlib.contextmanager
def prepared(task: Task, dtype: torch.dtype, noise: int = 0) -> Iterator[None]:
    """The module as it was at the start and in this precision, computing in a fixed order."""
    exact: list[Any] = [Precise(dtype)] if dtype is not torch.float32 else []
    modes = (new_tensors_in(dtype), *exact, InOrder())
    with one_thread(), uncompiled(), without_autocast(bfloat=True), contextlib.ExitStack() as stack:
        stack.enter_context(borrowed(task.start or Snapshot(task.module, task.loss), dtype))
        if task.halves:
            dither.nearest(dict(task.module.named_parameters()), task.halves)
        if task.dtype != "fp32":
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        if noise:
            stack.enter_context(otherwise(noise, dtype, task.winograd))
        for mode in modes:
            stack.enter_context(mode)
        yield


def taken(sample: tuple[Any, Any], dtype: torch.dtype) -> tuple[Any, Any]:
    """Inputs and target in this precision; a forward may change them."""
    given, wanted = (copy.deepcopy(cast(v, dtype)) for v in sample)
    return given, wanted


Seen = Callable[[Any], None]  # takes what a network returns, to which a loss may write


def unseen(output: Any) -> None:
    """Takes nothing down."""


def forward(
    task: Task, sample: tuple[Any, Any], dtype: torch.dtype, noise: int = 0, seen: Seen = unseen
) -> tuple[Any, Any]:
    """Output and loss."""
    given, wanted = sample
    with saved_tensors(task.saved if dtype is torch.float32 else "", task.module, (given, wanted), noise):
        output = task.module(*given)
        seen(output)
        return output, as_scalar(task.loss(output, wanted))


def evaluated(
    task: Task, sample: tuple[Any, Any], dtype: torch.dtype, number: int, seen: Seen = unseen
) -> tuple[Any, Any]:
    """Output and loss of a sample as the task evaluates; nothing lasts."""
    sample = taken(sample, dtype)
    mode = halving(task, sample, dtype)
    with Snapshot(task.module).undone(), torch.no_grad(), Drawing(Numbers(number)), mode:
        if task.evaluation is not None:
            task.module.eval()
        return forward(task, sample, dtype, seen=seen)


def first_examples(task: Task, sample: tuple[Any, Any]) -> tuple[Any, Any]:
    """Of a step's sample, what an evaluation takes."""
    if task.evaluated.batch == task.layout.batch:
        return sample
    rows: tuple[Any, Any] = pytree.tree_map(
        lambda t: t[: task.evaluated.batch] if isinstance(t, torch.Tensor) else t, sample
    )
    return rows


@contextlib.contextmanager
def halving(task: Task, sample: Any, dtype: torch.dtype, noise: int = 0, step: int | None = None) -> Iterator[None]:
    """Around forward and backward: what a program of mixed precision rounds, with odd noise as little as it may. Beside
    a step, where there is none, nobody knows what the program had."""
    if task.dtype == "fp32":
        yield
        return
    floats = (*task.module.parameters(), *task.module.buffers(), *pytree.tree_leaves(sample))
    branches, memory = task.doubt.of(step or 0, task.half), task.memory.of(step, task.half)
    with (
        inside(task.module, task.keep) as kept,
        inside(task.module, [""]) as network,
        Halves(dtype, floats, noise % 2 == 1, kept, branches, task.tiles, memory, network),
    ):
        try:
            yield
        finally:
            unmark(floats)


def inferring(
    task: Task, steps: int, dtype: torch.dtype, record: Record, noise: int, resume: Mapping[Key, Array] | None
) -> None:
    module = task.module
    shapes = {n: b.shape for n, b in module.named_buffers()}
    for step in range(steps):
        if resume is not None and step:
            take_over(module, None, reached(resume, step))
        before = {n: b.detach().clone() for n, b in module.named_buffers() if b.shape == shapes.get(n)}
        given, wanted = taken(task.samples[step % len(task.samples)], dtype)
        with Drawing(Numbers(step)), halving(task, given, dtype, noise, step):
            output = module(*given)
            record_outputs(record, step, output)
            if task.loss is not None:
                record[step, "loss", "loss"] = array(as_scalar(task.loss(output, wanted)))
        record_buffers(record, step, module, before, by_value=dtype is torch.float64 and not noise)


def training(
    task: Task, steps: int, dtype: torch.dtype, record: Record, noise: int, resume: Mapping[Key, Array] | None
) -> None:
    module = task.module
    parameters = dict(module.named_parameters())
    optimizer = make_optimizer(task.optimizer, task.groups, task.defaults, parameters, task.state)
    scheduler = make_scheduler(task.scheduler, optimizer)
    scaler = None if task.loss_scale is None else Scaler(task.loss_scale)
    shapes = {n: b.shape for n, b in module.named_buffers()}
    for step in range(steps):
        first, last = step % task.accumulate == 0, (step + 1) % task.accumulate == 0
        if resume is not None and step:
            take_over(module, optimizer, reached(resume, step))
            if scaler is not None:
                scaler.take_over(reached(resume, step))
        before = {n: b.detach().clone() for n, b in module.named_buffers() if b.shape == shapes.get(n)}
        if first:
            module.zero_grad(set_to_none=True)  # also of what no optimizer updates
        sample = taken(task.samples[step % len(task.samples)], dtype)
        with Drawing(Numbers(step)), halving(task, sample, dtype, noise, step):
            _, loss = forward(task, sample, dtype, noise, partial(record_outputs, record, step))
            ((loss if scaler is None else scaler.scaled(loss)) / task.accumulate).backward()
        record[step, "loss", "loss"] = array(loss)
        for name, p in parameters.items():
            if p.grad is not None and p.numel():
                record[step, "gradient", name] = array(p.grad)
        if resume is not None and task.dtype != "fp32":
            take_gradients(parameters, resume, step)
        if last:
            more = step + task.accumulate < steps  # a scheduler may end with the last update
            update(task, parameters, optimizer, scheduler if more else None, loss.item(), scaler)
            dither.by_chance(parameters, task.halves, step)
        record_state(record, step, module, optimizer, before, by_value=dtype is torch.float64 and not noise)
        for name, value in ({} if scaler is None else scaler.state()).items():
            record[step, "state", name] = value
        if task.evaluation is not None:
            sample = first_examples(task, task.samples[step % len(task.samples)])
            _, loss = evaluated(task, sample, dtype, step + 1, partial(record_outputs, record, step, kind=EVALUATION))
            record[step, EVALUATION, "loss"] = array(loss)


def reached(record: Mapping[Key, Array], step: int) -> dict[tuple[str, str], Array]:
    """What a step begins with, in the record of a run."""
    return {k[1:]: v for k, v in record.items() if k[0] == step - 1}


def update(
    task: Task,
    parameters: Mapping[str, nn.Parameter],
    optimizer: torch.optim.Optimizer,
    schedule: Any,
    loss: float,
    scaler: Scaler | None = None,
) -> None:
    """What a scheduler watches is the loss of the last sample."""
    if scaler is not None:
        scaler.unscale(optimizer)
    if task.clip_norm is not None:
        torch.nn.utils.clip_grad_norm_(parameters.values(), task.clip_norm)
    if task.clip_value is not None:
        torch.nn.utils.clip_grad_value_(parameters.values(), task.clip_value)
    (optimizer.step if scaler is None else partial(scaler.step, optimizer))()
    if schedule is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the copy's optimizer does not count its steps for it
            schedule.step(*([loss] if isinstance(schedule, ReduceLROnPlateau) else []))


def record_outputs(record: Record, step: int, output: Any, kind: str = "output") -> None:
    """Copies: a loss may write to its output."""
    for name, value in named_outputs(output):
        if value.numel():
            record[step, kind, name] = array(value).copy()


def record_state(
    record: Record,
    step: int,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    before: Mapping[str, torch.Tensor],
    by_value: bool,
) -> None:
    for name, p in module.named_parameters():
        if p.grad is None or not p.numel():
            continue
        record[step, "parameter", name] = array(p)
        for label, value in optimizer.state[p].items():
            if label not in COUNTERS and isinstance(value, torch.Tensor):
                record[step, "state", f"{name}.{label}"] = array(value)
    record_buffers(record, step, module, before, by_value)


def record_buffers(
    record: Record, step: int, module: nn.Module, before: Mapping[str, torch.Tensor], by_value: bool
) -> None:
    """With `by_value`, only those whose value has changed; any other run records them all. So it has all that such a
    run has, whatever rounding does: batch norm does not even count as a write to its statistics."""
    for name, b in module.named_buffers():
        was = before.get(name)
        if was is None or b.shape != was.shape:  # forward makes it anew, in the shape of its input
            continue
        if name.rpartition(".")[2] in COUNTERS:
            continue
        # What changed once is recorded from then on: by rounding alone, one run changes it again and another does not.
        if not by_value or not torch.equal(b, was) or (step - 1, "state", name) in record:
            record[step, "state", name] = array(b)


def take_over(
    module: nn.Module, optimizer: torch.optim.Optimizer | None, state: Mapping[tuple[str, str], Array]
) -> None:
    """Continue from recorded parameters, accumulated gradients, optimizer states and buffers."""

    def load(target: torch.Tensor, *key: str) -> None:
        if key in state:
            target.copy_(shaped_like(torch.from_numpy(np.array(state[key[0], key[1]])), target))

    with torch.no_grad():
        for name, p in module.named_parameters():
            load(p, "parameter", name)
            if p.grad is not None:
                load(p.grad, "gradient", name)
            for label, value in optimizer.state[p].items() if optimizer else ():
                if isinstance(value, torch.Tensor) and label not in COUNTERS:
                    load(value, "state", f"{name}.{label}")
        for name, b in module.named_buffers():
            load(b, "state", name)


def take_gradients(parameters: Mapping[str, nn.Parameter], record: Mapping[Key, Array], step: int) -> None:
    """For the update, those of another run: they are judged for themselves, and an optimizer that divides them by their
    own size makes a whole step of a sum that rounding alone keeps from zero."""
    for name, p in parameters.items():
        if p.grad is not None and (found := record.get((step, "gradient", name))) is not None:
            p.grad.copy_(shaped_like(torch.from_numpy(np.array(found)), p.grad))


def named_outputs(output: Any) -> list[tuple[str, torch.Tensor]]:
    """One tensor is 'output'; several are numbered in the order of the tree, or take their keys."""
    if isinstance(output, torch.Tensor):
        return [("output", output)]
    output = opened(output)
    if isinstance(output, dict):
        return [(str(k), v) for k, v in output.items() if isinstance(v, torch.Tensor)]
    return [(f"output{i}", v) for i, v in enumerate(leaves(output))]


def array(value: torch.Tensor | None) -> Array:
    """Complex numbers as pairs. Where it can be, this is the tensor's own memory."""
    assert value is not None
    return np.asarray(as_real(value).detach().numpy(force=True))
