"""Module, example, loss, optimizer and data to a UserModel: every mistake is answered before anything is captured."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from golden import lightning
from golden.borrow import uncompiled, unwrapped
from golden.load import EachLoss, default_loss
from golden.precision import as_real
from golden.snapshot import Snapshot
from trainlib_deployer.errors import Unsupported, UsageError
from trainlib_deployer.torch_types import value_fault
from trainlib_deployer.user import samples as sampling
from trainlib_deployer.user.code import user_code
from trainlib_deployer.user.data import Example, from_data
from trainlib_deployer.user.model import OptimizerSpec, UserModel, trainable
from trainlib_deployer.user.optimizer import clip_limit, read_optimizer
from trainlib_deployer.user.samples import Sample, type_name
from trainlib_deployer.user.schedule import read_schedule
from trainlib_deployer.user.trial import Trial


@dataclass(frozen=True)
class Inference:
    """The forward pass alone, as after model.eval()."""

    batch: int | None = None  # where it is another than the example's


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
    count: int  # how many samples are wanted; fewer serve, unless
    where: str  # what the user calls the place of all this, for messages
    source: Path | None = None
    attribute: str = "model"
    scheduler: Any = None
    clip_norm: Any = None
    clip_value: Any = None
    metrics: Any = None
    updates: int = 5  # how many updates a verification makes
    helpers: tuple[Path, ...] = ()
    exactly: bool = False  # so many were asked for
    inference: Inference | None = None  # else target, loss, optimizer and what belongs to it are looked at


def assemble(parts: Parts) -> UserModel:
    """Check everything once by running it once. Neither the model nor the random generators notice."""
    with Snapshot().undone(), uncompiled():
        return checked_model(parts)


def checked_model(parts: Parts) -> UserModel:
    notes: list[str] = []
    module = plain_module(parts.module, notes)
    if parts.inference is not None:
        return forward_only(parts, parts.inference.batch, module, notes)
    check_trained(module)
    check_tensors(module)
    known = given_samples(parts, notes)
    inputs, target = known[0]
    materialize(module, inputs)
    check_values(module)
    notes += [f"parameter '{n}' has no elements: it is not trained" for n in empty_parameters(module)]
    parts = with_own_optimizer(parts, module, notes)
    module, parts = with_own_step(parts, module, known[0], notes)
    loss = given_loss(parts, target, notes)
    start = Snapshot(module, loss)
    with start.undone():
        optimizer = read_optimizer(parts.optimizer, module, parts.where, notes)
    model = Trial(module, loss, start)
    model.run(inputs, target)
    if parts.data is None:
        known = sampling.perturbed(known[0], parts.count, model.output_or_none, model.accepts)
    else:
        for i, (given, wanted) in enumerate(known):
            model.check_sample(given, wanted, f"sample {i} of data")
    return UserModel(
        name=parts.name,
        module=module,
        inputs=inputs,
        target=target,
        loss=loss,
        optimizer=optimizer,
        start=start,
        samples=known,
        source=parts.source,
        attribute=parts.attribute,
        helpers=parts.helpers,
        scheduler=parts.scheduler,
        schedule=read_schedule(parts.scheduler, parts.optimizer, optimizer, parts.updates),
        clip_norm=clip_limit(parts.clip_norm, "clip_grad_norm"),
        clip_value=clip_limit(parts.clip_value, "clip_grad_value"),
        notes=tuple(notes),
        metrics=model.measured(parts.metrics, inputs, target),
    )


def forward_only(parts: Parts, batch: int | None, module: nn.Module, notes: list[str]) -> UserModel:
    """The model as PyTorch's eval mode has it."""
    check_tensors(module)
    known = given_inputs(parts, module, batch, notes)
    materialize(module, known[0][0])
    check_values(module)
    module.eval()
    model = Trial(module, None, Snapshot(module))
    with model.start.undone():
        model.forward(known[0][0])
    if parts.data is None:
        known = sampling.perturbed(known[0], parts.count, model.output_or_none, lambda output, target: True)
    return UserModel(
        name=parts.name,
        module=module,
        inputs=known[0][0],
        target=(),
        loss=None,
        optimizer=OptimizerSpec("", ()),
        start=model.start,
        samples=known,
        source=parts.source,
        attribute=parts.attribute,
        helpers=parts.helpers,
        notes=tuple(notes),
        trains=False,
    )


def given_inputs(parts: Parts, module: nn.Module, batch: int | None, notes: list[str]) -> list[Sample]:
    """The inputs of `data`, or the example alone, in the batch that is wanted."""
    if parts.data is not None:
        inputs = [x for x, _ in samples_of_data(parts, None, notes)]
    else:
        given = sampling.example_inputs(parts.example_input, parts.input_shape, parts.where)
        inputs = [with_indices(module, given, notes) if parts.example_input is None else given]
    if batch is not None:
        inputs = [tuple(sampling.rebatch(x, rows[0], torch.empty(batch)) for x in rows) for rows in inputs]
    return [(x, ()) for x in inputs]


def given_samples(parts: Parts, notes: list[str]) -> list[Sample]:
    """The samples of `data`, or the example alone."""
    if parts.data is not None:
        return samples_of_data(parts, parts.example_target, notes)
    inputs = sampling.example_inputs(parts.example_input, parts.input_shape, parts.where)
    if parts.example_input is None:
        inputs = with_indices(plain_module(parts.module, []), inputs, notes)
    known_loss = parts.loss is None or isinstance(parts.loss, nn.CrossEntropyLoss)
    if parts.example_target is None and parts.example_input is None and known_loss:
        made = made_up_target(plain_module(parts.module, []), inputs, notes)
        if made is not None:
            return [(inputs, made)]
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


def samples_of_data(parts: Parts, target: Any, notes: list[str]) -> list[Sample]:
    with user_code("data cannot be read"):
        example = Example(parts.example_input, target, parts.input_shape)
        known = from_data(parts.data, example, parts.count, notes)
    if parts.exactly and len(known) < parts.count:
        there = f"data has {len(known)}, of {', '.join(map(sampling.describe, known[0][0]))} each"
        raise UsageError(f"{parts.count} samples were asked for; {there}")
    return known


def with_indices(module: nn.Module, inputs: tuple[Any, ...], notes: list[str]) -> tuple[Any, ...]:
    """Inputs of which only the shape is known: indices into the model's tables where it does not take numbers."""
    sizes = [m.num_embeddings for m in module.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag)]
    if not sizes:
        return inputs
    indices = tuple(torch.randint(min(sizes), x.shape) for x in inputs)
    for made in itertools.product(*zip(inputs, indices, strict=True)):
        with Snapshot(module).undone(), torch.no_grad(), contextlib.suppress(Exception):
            module(*sampling.cloned(made))
            if any(not x.is_floating_point() for x in made):
                notes.append(f"example_input: random indices below {min(sizes)}, as none is given")
            return made
    return inputs


def made_up_target(module: nn.Module, inputs: tuple[Any, ...], notes: list[str]) -> Any:
    """Where only the shape of the input is known, of what the network returns for it."""
    materialize(module, inputs)
    with Snapshot(module).undone(), torch.no_grad(), user_code("the model fails on --input"):
        output = module(*sampling.cloned(inputs))
    leaves = pytree.tree_leaves(output)
    if not leaves or not all(isinstance(t, torch.Tensor) and t.is_floating_point() for t in leaves):
        return None
    if isinstance(output, torch.Tensor) and output.dim() == 2 and output.shape[1] > 1:
        notes.append(f"example_target: random labels of {output.shape[1]} classes, as none is given")
        return torch.randint(output.shape[1], output.shape[:1])
    notes.append("example_target: random numbers like the output, as none is given")
    return pytree.tree_map(lambda t: torch.randn(t.shape), output)


# ---- a module that knows its loss and its optimizer, as Lightning's do


def with_own_optimizer(parts: Parts, module: nn.Module, notes: list[str]) -> Parts:
    if parts.optimizer is not None or not callable(getattr(module, "configure_optimizers", None)):
        return parts
    what = f"configure_optimizers of {type(module).__name__}"
    with Snapshot(module).undone(), user_code(f"{what} fails", f"write in {parts.where}: optimizer = ..."):
        optimizer, scheduler = lightning.configured(module)
    notes.append(f"optimizer: {what}")
    return replace(parts, optimizer=optimizer, scheduler=parts.scheduler or scheduler)


def with_own_step(parts: Parts, module: nn.Module, sample: Sample, notes: list[str]) -> tuple[nn.Module, Parts]:
    """The network and the loss of a training_step."""
    if parts.loss is not None or not lightning.has_own_step(module):
        return module, parts
    name = type(module).__name__
    if getattr(module, "automatic_optimization", True) is False:
        remedy = f"write in {parts.where}: loss = ... and optimizer = ..."
        raise Unsupported(f"{name} optimizes by itself: its training_step is more than a loss", remedy=remedy)
    with user_code(f"training_step of {name} fails on the example", "it was called with the batch (input, target)"):
        taken, loss = lightning.understood(module, sample)
    notes.append(f"loss: training_step of {name}")
    if loss.part:
        notes.append(f"output: that of '{loss.part}', which training_step gives its input to")
    elif loss.part is None:
        notes.append("output: the input itself, as training_step is more than a loss of self(input)")
    return taken, replace(parts, loss=loss)


# ---- the module


def plain_module(given: nn.Module, notes: list[str]) -> nn.Module:
    """Without DataParallel and torch.compile around it; not what torch.jit has made of it."""
    module = unwrapped(given)
    if module is not given:
        what = "torch.compile" if hasattr(given, "_orig_mod") else type(given).__name__
        notes.append(f"model: the {type(module).__name__} inside of {what} is deployed")
    for name, part in module.named_modules():
        check_part(f"the part '{name}' of the model" if name else "the model", part)
    return module


def check_part(here: str, part: nn.Module) -> None:
    """What a step cannot be captured from."""
    if isinstance(part, torch.jit.ScriptModule):
        raise Unsupported(
            f"{here} has gone through torch.jit: its Python code, from which a step is captured, is not there",
            remedy="give the nn.Module that torch.jit.script or torch.jit.trace was called with",
        )
    if isinstance(part, nn.DataParallel | nn.parallel.DistributedDataParallel):
        raise Unsupported(
            f"{here} is a {type(part).__name__}, which spreads a batch over devices",
            remedy="use what is in its .module",
        )
    if type(part).__module__.startswith(("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")):
        raise Unsupported(
            f"{here} is quantized: it cannot be trained", remedy="give the model from before quantization"
        )


def check_trained(module: nn.Module) -> None:
    parameters = dict(module.named_parameters())
    if not parameters:
        raise UsageError(f"the model {type(module).__name__} has no parameters: there is nothing to train")
    if not trainable(module):
        raise UsageError(
            f"all {len(parameters)} parameters of the model are frozen: there is nothing to train",
            remedy="leave requires_grad True on what shall be trained",
        )


def check_tensors(module: nn.Module) -> None:
    for kind, name, value in tensors_of(module):
        if value.is_meta:
            remedy = "give it values: model.to_empty(device='cpu'), then model.load_state_dict(...)"
            raise UsageError(f"{kind} '{name}' has no values: it is on the device 'meta'", remedy=remedy)
        if value.device.type != "cpu":
            raise UsageError(f"{kind} '{name}' is on the device '{value.device}'", remedy="move the model: model.cpu()")
        if (value.is_floating_point() or value.is_complex()) and as_real(value).dtype is not torch.float32:
            raise UsageError(
                f"{kind} '{name}' is {type_name(value)}; float32 is needed", remedy="convert the model: model.float()"
            )
        fault = None if torch.nn.parameter.is_lazy(value) else value_fault(as_real(value))
        if fault is not None:
            raise UsageError(f"{kind} '{name}' {fault[0]}", remedy=fault[1])


def check_values(module: nn.Module) -> None:
    for name, value in module.named_parameters():
        bad = int((~torch.isfinite(value)).sum())
        if bad:
            raise UsageError(f"parameter '{name}' has {bad} of {value.numel()} values that are NaN or infinite")


def empty_parameters(module: nn.Module) -> list[str]:
    return [name for name, value in module.named_parameters() if value.requires_grad and not value.numel()]


def tensors_of(module: nn.Module) -> Iterator[tuple[str, str, torch.Tensor]]:
    yield from (("parameter", n, p) for n, p in module.named_parameters())
    yield from (("buffer", n, b) for n, b in module.named_buffers())


def materialize(module: nn.Module, inputs: tuple[Any, ...]) -> None:
    """nn.Lazy* modules get their shapes from a first call, for good; nothing else changes by it."""
    lazy = [m for m in module.modules() if any(map(is_lazy, (*m.parameters(recurse=False), *m.buffers(recurse=False))))]
    if not lazy:
        return
    modes = [(m, m.training) for m in lazy]
    with Snapshot(module, skip=lazy).undone():
        module.eval()
        with torch.no_grad(), user_code("the model fails on example_input"):
            module(*sampling.cloned(inputs))
    for m, training in modes:
        m.training = training


def given_loss(parts: Parts, target: Any, notes: list[str]) -> Any:
    loss = parts.loss
    if loss is None:
        loss = default_loss(target)
        losses = [f"nn.{type(part).__name__}()" for part in (loss.parts if isinstance(loss, EachLoss) else [loss])]
        kinds = ["float" if t.is_floating_point() else "integer" for t in pytree.tree_leaves(target)]
        notes.append(f"loss: {' + '.join(losses)}, as {parts.where} names none and the target is {', '.join(kinds)}")
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
