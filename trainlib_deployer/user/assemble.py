"""Module, example, loss, optimizer and data to a UserModel: every mistake is answered before anything is captured."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from trainlib_deployer.capture import remedies
from trainlib_deployer.errors import UsageError
from trainlib_deployer.torch_types import value_fault
from trainlib_deployer.user import samples as sampling
from trainlib_deployer.user.code import source_in_stack, user_code
from trainlib_deployer.user.data import Example, from_data
from trainlib_deployer.user.model import UserModel, trainable
from trainlib_deployer.user.optimizer import clip_limit, read_optimizer, read_schedule
from trainlib_deployer.user.samples import Sample, describe, type_name


@dataclass(frozen=True)
class Parts:
    """What the user gave; None is what they left out."""

    name: str
    module: nn.Module
    example_input: Any
    example_target: Any
    loss: Any
    optimizer: Any
    data: Any
    input_shape: str | None
    count: int  # how many samples are wanted
    where: str  # what the user calls the place of all this, for messages
    source: Path | None = None
    attribute: str = "model"
    scheduler: Any = None
    clip_norm: Any = None
    clip_value: Any = None
    updates: int = 5  # how many updates a verification makes
    helpers: tuple[Path, ...] = ()


def assemble(parts: Parts) -> UserModel:
    """Check everything once by running it once."""
    notes: list[str] = []
    module = parts.module
    check_parameters(module)
    known = given_samples(parts, notes)
    inputs, target = known[0]
    materialize(module, inputs)
    check_values(module)
    freeze_empty(module, notes)
    loss = given_loss(parts, target, notes)
    optimizer = read_optimizer(parts.optimizer, module, parts.where, notes)
    trial(module, loss, inputs, target)
    if parts.data is None:
        known = sampling.perturbed(
            known[0], parts.count, lambda x: output_or_none(module, x), lambda o, t: loss_is_finite(loss, o, t)
        )
    else:
        for i, (given, wanted) in enumerate(known):
            with unchanged(module, loss):
                with user_code(f"the model fails on sample {i} of data"):
                    output = module(*sampling.cloned(given))
                loss_value(loss, output, wanted, f"sample {i} of data")
    return UserModel(
        name=parts.name,
        module=module,
        inputs=inputs,
        target=target,
        loss=loss,
        optimizer=optimizer,
        samples=known,
        source=parts.source,
        attribute=parts.attribute,
        helpers=parts.helpers,
        scheduler=parts.scheduler,
        rates=read_schedule(parts.scheduler, parts.optimizer, optimizer, parts.updates),
        clip_norm=clip_limit(parts.clip_norm, "clip_grad_norm"),
        clip_value=clip_limit(parts.clip_value, "clip_grad_value"),
        notes=tuple(notes),
    )


def given_samples(parts: Parts, notes: list[str]) -> list[Sample]:
    """The samples of `data`, or the example alone."""
    if parts.data is not None:
        with user_code("data cannot be read"):
            example = Example(parts.example_input, parts.example_target, parts.input_shape)
            return from_data(parts.data, example, parts.count, notes)
    inputs = sampling.example_inputs(parts.example_input, parts.input_shape, parts.where)
    if parts.example_target is None:
        raise UsageError(
            f"{parts.where} has no 'example_target' and no 'data': there is nothing to train towards",
            remedy="write a tensor, for instance: example_target = torch.tensor([3])",
        )
    target = sampling.checked(parts.example_target, "example_target")
    if parts.input_shape is not None and parts.example_input is not None:
        old = sampling.checked_inputs(parts.example_input)
        target = sampling.rebatch(target, old[0], inputs[0])
    return [(inputs, target)]


# ---- the module


def check_parameters(module: nn.Module) -> None:
    parameters = dict(module.named_parameters())
    if not parameters:
        raise UsageError(f"the model {type(module).__name__} has no parameters: there is nothing to train")
    if not trainable(module):
        raise UsageError(
            f"all {len(parameters)} parameters of the model are frozen: there is nothing to train",
            remedy="leave requires_grad True on what shall be trained",
        )
    for kind, name, value in tensors_of(module):
        if value.device.type != "cpu":
            raise UsageError(f"{kind} '{name}' is on the device '{value.device}'", remedy="move the model: model.cpu()")
        if (value.is_floating_point() or value.is_complex()) and value.dtype is not torch.float32:
            raise UsageError(
                f"{kind} '{name}' is {type_name(value)}; float32 is needed", remedy="convert the model: model.float()"
            )
        fault = None if torch.nn.parameter.is_lazy(value) else value_fault(value)
        if fault is not None:
            raise UsageError(f"{kind} '{name}' {fault[0]}", remedy=fault[1])


def check_values(module: nn.Module) -> None:
    for name, value in module.named_parameters():
        bad = int((~torch.isfinite(value)).sum())
        if bad:
            raise UsageError(f"parameter '{name}' has {bad} of {value.numel()} values that are NaN or infinite")


def freeze_empty(module: nn.Module, notes: list[str]) -> None:
    """Parameters without elements, as those of nn.Linear(8, 0), have no gradient to compute."""
    for name, value in module.named_parameters():
        if value.requires_grad and not value.numel():
            value.requires_grad_(False)
            notes.append(f"parameter '{name}' has no elements: it is not trained")


def tensors_of(module: nn.Module) -> Iterator[tuple[str, str, torch.Tensor]]:
    yield from (("parameter", n, p) for n, p in module.named_parameters())
    yield from (("buffer", n, b) for n, b in module.named_buffers())


def materialize(module: nn.Module, inputs: tuple[Any, ...]) -> None:
    """nn.Lazy* modules get their shapes from a first call; nothing else may change by it."""
    if not any(torch.nn.parameter.is_lazy(p) for p in chain(module.parameters(), module.buffers())):
        return
    modes = [(m, m.training) for m in module.modules()]
    module.eval()
    with torch.no_grad(), user_code("the model fails on example_input"):
        module(*sampling.cloned(inputs))
    for m, training in modes:
        m.training = training


def given_loss(parts: Parts, target: Any, notes: list[str]) -> Any:
    loss = parts.loss
    if loss is None:
        is_float = pytree.tree_leaves(target)[0].is_floating_point()
        loss, name = (nn.MSELoss(), "nn.MSELoss()") if is_float else (nn.CrossEntropyLoss(), "nn.CrossEntropyLoss()")
        notes.append(
            f"loss: {name}, as {parts.where} names none and the target is {'float' if is_float else 'integer'}"
        )
    elif isinstance(loss, type):
        raise UsageError(
            f"'loss' is the class {loss.__name__}, not a loss", remedy=f"write an instance: loss = {loss.__name__}()"
        )
    elif not callable(loss):
        raise UsageError(
            f"'loss' is of type {type(loss).__name__}; it must be callable: loss(output, target) -> scalar",
            remedy="for instance: loss = nn.CrossEntropyLoss()",
        )
    return loss


# ---- the trial step


@contextlib.contextmanager
def unchanged(*things: Any) -> Iterator[None]:
    """Afterwards the buffers of the modules and the random generators are what they were."""
    modules = [m for thing in things if isinstance(thing, nn.Module) for m in thing.modules()]
    kept = [(m, n, b, None if b is None else b.detach().clone()) for m in modules for n, b in m._buffers.items()]
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            for m, name, buffer, value in kept:
                m._buffers[name] = buffer
                if buffer is not None and value is not None:
                    with torch.no_grad():
                        buffer.copy_(value)


def output_or_none(module: nn.Module, inputs: tuple[Any, ...]) -> Any:
    """Of a made-up input, without a word; None if the model does not take it."""
    quiet = contextlib.redirect_stdout(io.StringIO())
    with unchanged(module), quiet, warnings.catch_warnings(action="ignore"), contextlib.suppress(Exception):
        return module(*sampling.cloned(inputs))
    return None


def trial(module: nn.Module, loss: Any, inputs: tuple[Any, ...], target: Any) -> None:
    """Forward, loss and gradients of the example, in the module's own mode."""
    with unchanged(module, loss), torch.enable_grad():
        shapes = ", ".join(describe(x) for x in inputs)
        with user_code("the model fails on example_input", remedy=f"forward was called with {shapes}"):
            output = module(*sampling.cloned(inputs))
        if not any(isinstance(x, torch.Tensor) for x in pytree.tree_leaves(output)):
            raise UsageError(f"forward returns {describe(output)}, not a tensor")
        odd = [n for n, v in (("example_input", inputs), ("example_target", target)) if not sampling.all_finite(v)]
        found = f" ({' and '.join(odd)} has values that are NaN or infinite)" if odd else ""
        value = loss_value(loss, output, target, f"example_target{found}")
        check_gradients(module, value, lambda: loss(module(*sampling.cloned(inputs)), target))


def loss_value(loss: Any, output: Any, target: Any, what: str) -> torch.Tensor:
    """The loss as a finite scalar, or what is wrong with it."""
    remedy = f"the loss was called with output {describe(output)} and target {describe(target)}"
    if isinstance(loss, nn.CrossEntropyLoss):
        check_classes(loss, output, target, what)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with user_code(f"the loss fails on {what}", remedy=remedy):
            value = loss(output, sampling.cloned(target))
    for warning in caught:
        if "target size" in str(warning.message):
            raise UsageError(f"the loss broadcasts on {what}: output and target differ in shape", remedy=remedy)
    if not isinstance(value, torch.Tensor):
        raise UsageError(f"the loss returns {describe(value)}, not a scalar tensor", remedy=remedy)
    if value.dim() != 0:
        raise UsageError(
            f"the loss is not a scalar: it returns {describe(value)}", remedy="reduce it: loss(...).mean()"
        )
    if value.dtype is not torch.float32:
        raise UsageError(f"the loss is {type_name(value)}; float32 is needed", remedy=remedy)
    if not bool(torch.isfinite(value)):
        raise UsageError(f"the loss is {float(value.detach())} on {what}", remedy=remedy)
    return value


def check_classes(loss: nn.CrossEntropyLoss, output: Any, target: Any, what: str) -> None:
    """Class indices: PyTorch says only 'out of bounds'."""
    if not isinstance(output, torch.Tensor) or not isinstance(target, torch.Tensor) or target.is_floating_point():
        return
    if output.dim() == 0 or target.numel() == 0:
        return
    classes = output.shape[1 if output.dim() > 1 else 0]
    used = target[target != loss.ignore_index]
    outside = used[(used < 0) | (used >= classes)]
    if outside.numel():
        raise UsageError(
            f"class index {int(outside[0])} in {what} is out of range: the model's output has {classes} classes, "
            f"0 to {classes - 1}",
            remedy=f"output is {describe(output)}, target {describe(target)}",
        )


def check_gradients(module: nn.Module, value: torch.Tensor, again: Callable[[], torch.Tensor]) -> None:
    """`again` computes `value` once more, to find the line behind an error."""
    parameters = trainable(module)
    gradients: tuple[torch.Tensor | None, ...] = (None,)
    if value.requires_grad:
        leaves = list(parameters.values())
        with (
            user_code("the backward pass fails"),
            not_overwritten(lambda: torch.autograd.grad(again(), leaves, allow_unused=True)),
        ):
            gradients = torch.autograd.grad(value, leaves, allow_unused=True)
    if all(g is None for g in gradients):
        raise UsageError(
            "the loss does not depend on any trainable parameter: there is nothing to train",
            remedy="look for detach(), no_grad() or argmax between the model and the loss",
        )
    for name, gradient in zip(parameters, gradients, strict=True):
        if gradient is not None and not bool(torch.isfinite(gradient).all()):
            raise UsageError(f"the gradient of parameter '{name}' is NaN or infinite on the example")


@contextlib.contextmanager
def not_overwritten(again: Callable[[], object]) -> Iterator[None]:
    """PyTorch names no line of the user's when a tensor has changed since it was saved; done again under its anomaly
    detection, it does."""
    try:
        yield
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        with warnings.catch_warnings(record=True) as said, torch.autograd.set_detect_anomaly(True, check_nan=False):
            warnings.simplefilter("always")
            with contextlib.suppress(RuntimeError):
                again()
        raise UsageError(
            "the backward pass fails: a tensor that the gradient of a line needs is changed in place later",
            source=source_in_stack("\n".join(str(w.message) for w in said)),
            remedy=remedies.IN_PLACE,
        ) from error


def loss_is_finite(loss: Any, output: Any, target: Any) -> bool:
    """Whether a made-up target is one that the loss accepts."""
    try:
        with unchanged(loss):
            loss_value(loss, output, target, "a random target")
    except UsageError:
        return False
    return True
