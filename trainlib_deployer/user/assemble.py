"""Module, example, loss, optimizer and data to a UserModel: every mistake is answered before anything is captured."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from golden.autocast import without_autocast
from golden.borrow import uncompiled
from golden.examples import Layout
from golden.load import EachLoss, default_loss
from golden.metrics import functions_of
from golden.snapshot import Snapshot
from trainlib_deployer.errors import Unsupported, UsageError
from trainlib_deployer.user import samples as sampling
from trainlib_deployer.user.code import user_code
from trainlib_deployer.user.data import Example, from_data
from trainlib_deployer.user.labels import labels_asked
from trainlib_deployer.user.model import OptimizerSpec, Schedule, UserModel
from trainlib_deployer.user.module import (
    check_tensors,
    check_trained,
    check_values,
    empty_parameters,
    held_loss,
    materialize,
    own_optimizer,
    own_step,
    plain_module,
    set_by_first,
)
from trainlib_deployer.user.optimizer import clip_limit, clip_value_limit, read_optimizer
from trainlib_deployer.user.samples import Sample, describe
from trainlib_deployer.user.schedule import read_schedule, sentence
from trainlib_deployer.user.trial import Shown, Trial, quiet


@dataclass(frozen=True)
class Inference:
    """The forward pass alone, as after model.eval()."""

    batch: int | None = None  # where it is another than the example's


@dataclass(frozen=True)
class Evaluation:
    """Loss and metrics, as after model.eval(): beside the training, or of an inference."""

    batch: int | None = None  # where it is another than that of the training


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
    evaluation: Evaluation | None = None
    dtype: str = "fp32"  # what a deployment calculates with


def assemble(parts: Parts) -> UserModel:
    """Check everything once by running it once. Neither the model nor the random generators notice."""
    with Snapshot().undone(), uncompiled(), without_autocast(parts.dtype == "bf16"):
        return checked_model(parts)


def checked_model(parts: Parts) -> UserModel:
    notes = held_loss(parts.module, parts.loss, parts.optimizer)
    module = plain_module(parts.module, notes)
    if parts.inference is not None:
        only = forward_only if parts.evaluation is None else evaluated_only
        return only(parts, parts.inference.batch, module, notes)
    check_trained(module)
    check_tensors(module)
    known = given_samples(parts, notes)
    inputs, target = known[0]
    materialize(module, inputs)
    check_values(module)
    notes += [f"parameter '{n}' has no elements: it is not trained" for n in empty_parameters(module)]
    if parts.optimizer is None:
        made, scheduler = own_optimizer(module, parts.where, notes)
        parts = replace(parts, optimizer=made, scheduler=parts.scheduler or scheduler)
    if parts.loss is None:
        module, found = own_step(module, known[0], parts.where, notes)
        parts = replace(parts, loss=found)
    loss = given_loss(parts, target, notes)
    start = Snapshot(module, loss)
    with start.undone():
        optimizer = read_optimizer(parts.optimizer, module, parts.where, notes, loss)
    model = Trial(module, loss, start)
    whole = module is plain_module(parts.module, [])
    first = model.run(inputs, target) and whole and set_by_first(module, inputs, notes)
    if first:
        start = Snapshot(module, loss)
        model = Trial(module, loss, start)
    if parts.data is None:
        known = sampling.perturbed(known[0], parts.count, model.output_or_none, model.accepts)
    else:
        for i, (given, wanted) in enumerate(known):
            model.check_sample(given, wanted, f"sample {i} of data")
    schedule = read_schedule(parts.scheduler, parts.optimizer, optimizer, parts.updates)
    notes += [sentence(schedule)] if sentence(schedule) else []
    user = UserModel(
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
        schedule=schedule,
        clip_norm=clip_limit(parts.clip_norm, "clip_grad_norm"),
        clip_value=clip_value_limit(parts.clip_value, module),
        notes=tuple(notes),
        metrics=model.measured(parts.metrics, inputs, target),
        by_row=model.takes_rows(inputs),
        labels=labels_asked(module, loss, start, inputs, target),
        differs_in_eval=model.differs_in_eval(inputs),
        first_call=first,
    )
    if parts.evaluation is None:
        return user
    check_batch(user, parts.evaluation.batch)
    evaluation = evaluated(user, parts.evaluation.batch)
    check_shown(model.shown(inputs), Trial(module, loss, evaluation.start).shown(evaluation.inputs))
    return replace(user, evaluation=evaluation)


def check_shown(trained: Shown, evaluated: Shown) -> None:
    """Results of both have the same places, which are a step's."""
    for name in dict.fromkeys((*trained, *evaluated)):
        there, here = trained.get(name), evaluated.get(name)
        if there is None or here is None or there.dtype is not here.dtype or there.numel() < here.numel():
            found, wanted = ("nothing" if t is None else describe(t) for t in (here, there))
            raise Unsupported(
                f"the network returns {found} as '{name}' in eval mode, and {wanted} as it trains",
                remedy="return the same from both, or deploy what runs in eval mode by itself: --inference",
            )


def check_batch(user: UserModel, batch: int | None) -> None:
    """Evaluations read their examples where the training does, which has room for its own."""
    layout = user.layout
    if batch is not None and batch > layout.batch:
        raise UsageError(
            f"an evaluation takes at most the {layout.batch} examples of a training step, not {batch}",
            remedy="its examples lie where the training's do; several evaluations take more, or a project of its own"
            f" with --inference --evaluate --batch {batch}, which takes the states that this one saves",
        )


def evaluated(user: UserModel, batch: int | None) -> UserModel:
    """The same as after model.eval(): forward, loss and metrics of so many examples."""
    layout = user.layout
    samples = list(user.samples)
    if batch is not None and batch != layout.batch:
        if not layout.by_row:
            raise UsageError(
                "a batch of its own needs inputs and targets whose rows are examples", remedy="leave out the batch"
            )
        samples = [sampling.rebatch(s, s[0], torch.empty(batch)) for s in samples]
    inputs, target = samples[0]
    with Snapshot(user.module).undone():
        user.module.eval()
        model = Trial(user.module, user.loss, Snapshot(user.module, user.loss))
        with torch.no_grad():
            model.check_sample(inputs, target, "example_input in eval mode")
        metrics = model.measured(user.metrics, inputs, target)
    fresh = replace(
        user,
        inputs=inputs,
        target=target,
        samples=samples,
        start=model.start,
        metrics=metrics,
        optimizer=OptimizerSpec("", ()),
        scheduler=None,
        schedule=Schedule(),
        clip_norm=None,
        clip_value=None,
        trains=False,
    )
    return replace(fresh, examples=fresh.layout)


def evaluated_only(parts: Parts, batch: int | None, module: nn.Module, notes: list[str]) -> UserModel:
    """The model as PyTorch's eval mode has it, with its loss."""
    check_tensors(module)
    known = given_samples(parts, notes)
    materialize(module, known[0][0])
    check_values(module)
    if parts.loss is None:
        module, found = own_step(module, known[0], parts.where, notes)
        parts = replace(parts, loss=found)
    loss = given_loss(parts, known[0][1], notes)
    model = Trial(module, loss, Snapshot(module, loss))
    if parts.data is None:
        known = sampling.perturbed(known[0], parts.count, model.output_or_none, model.accepts)
    user = UserModel(
        name=parts.name,
        module=module,
        inputs=known[0][0],
        target=known[0][1],
        loss=loss,
        optimizer=OptimizerSpec("", ()),
        start=model.start,
        samples=known,
        source=parts.source,
        attribute=parts.attribute,
        helpers=parts.helpers,
        metrics=functions_of(parts.metrics),
        by_row=model.takes_rows(known[0][0]),
        labels=labels_asked(module, loss, model.start, *known[0]),
    )
    return replace(evaluated(user, batch), notes=tuple(notes))


def forward_only(parts: Parts, batch: int | None, module: nn.Module, notes: list[str]) -> UserModel:
    """The model as PyTorch's eval mode has it."""
    check_tensors(module)
    known = given_inputs(parts, module, batch, notes)
    materialize(module, known[0][0])
    check_values(module)
    with Snapshot(module).undone():
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
        examples=layout_of_examples(parts, batch, model),
    )


def layout_of_examples(parts: Parts, batch: int | None, model: Trial) -> Layout | None:
    """Of files with targets, for a model that only runs; nothing where the user gave no target."""
    inputs, target = parts.example_input, parts.example_target
    if parts.data is not None:
        inputs, target = samples_of_data(replace(parts, count=1), None, [])[0]
    if inputs is None or target is None:
        return None
    by_row = model.takes_rows(sampling.example_inputs(inputs, None, parts.where))
    layout = Layout.of(inputs, target, by_row)
    if batch is None or batch == layout.batch:
        return layout
    return replace(layout, batch=batch) if layout.by_row else None


def given_inputs(parts: Parts, module: nn.Module, batch: int | None, notes: list[str]) -> list[Sample]:
    """The inputs of `data`, or the example alone, in the batch that is wanted."""
    if parts.data is not None:
        inputs = [x for x, _ in samples_of_data(parts, None, notes)]
    else:
        given = sampling.example_inputs(parts.example_input, parts.input_shape, parts.where)
        inputs = [with_indices(module, given, notes) if parts.example_input is None else given]
    if batch is not None:
        inputs = [sampling.rebatch(given, given, torch.empty(batch)) for given in inputs]
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
        example = Example(parts.example_input, target, parts.input_shape, lambda sample: runs(parts, sample))
        known = from_data(parts.data, example, parts.count, notes)
    if parts.exactly and len(known) < parts.count:
        there = f"data has {len(known)}, of {', '.join(map(sampling.describe, known[0][0]))} each"
        raise UsageError(f"{parts.count} samples were asked for; {there}")
    return known


def runs(parts: Parts, sample: Sample) -> bool:
    """Whether the model takes it, and the loss what comes of it. One that waits for its shapes is not asked."""
    if any(is_lazy(t) for t in (*parts.module.parameters(), *parts.module.buffers())):
        return False
    with Snapshot(parts.module, parts.loss).undone(), contextlib.suppress(Exception), quiet():
        inputs, target = sampling.cloned(sample)
        output = parts.module(*inputs)
        if parts.loss is not None:
            parts.loss(output, target)
        return True
    return False


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
