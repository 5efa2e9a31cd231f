"""The module that the user gave: without wrappers, and whether a step can be made of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from golden import lazy, lightning
from golden.borrow import unwrapped
from golden.first_call import first_called
from golden.holding import hold
from golden.precision import as_real
from golden.snapshot import Snapshot
from trainlib_deployer.errors import Unsupported, UsageError
from trainlib_deployer.torch_types import value_fault
from trainlib_deployer.user import samples as sampling
from trainlib_deployer.user.code import user_code
from trainlib_deployer.user.model import trainable
from trainlib_deployer.user.observers import shape_observers
from trainlib_deployer.user.samples import Sample, type_name
from trainlib_deployer.user.trial import quiet


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
            remedy = "convert the model: model.float()"
            if value.dtype is torch.float16:
                remedy += ", and deploy with --dtype fp16: parameters and activations are halves then"
            raise UsageError(f"{kind} '{name}' is {type_name(value)}; float32 is needed", remedy=remedy)
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
    """nn.Lazy* modules and observers get their shapes from a first call, for good; nothing else changes by it."""

    def call() -> None:
        module.eval()
        with torch.no_grad(), user_code("the model fails on example_input"):
            module(*sampling.cloned(inputs))

    lazy.materialize(module, call)
    shape_observers(module, call)


def set_by_first(module: nn.Module, inputs: tuple[Any, ...], notes: list[str]) -> bool:
    """Whether forward sets parameters by the first input that it sees. They are set then, for good."""
    with quiet():
        found = first_called(module, inputs)
    if found:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        notes.append(f"parameter '{found[0]}'{more}: set by the first call of forward, with the first sample")
    return bool(found)


# ---- a module that knows its loss and its optimizer, as Lightning's do


def own_optimizer(module: nn.Module, where: str, notes: list[str]) -> tuple[Any, Any]:
    """The optimizer and the scheduler of its configure_optimizers."""
    if not callable(getattr(module, "configure_optimizers", None)):
        return None, None
    what = f"configure_optimizers of {type(module).__name__}"
    with Snapshot(module).undone(), user_code(f"{what} fails", f"write in {where}: optimizer = ..."):
        found = lightning.configured(module)
    notes.append(f"optimizer: {what}")
    return found


def own_step(module: nn.Module, sample: Sample, where: str, notes: list[str]) -> tuple[nn.Module, Any]:
    """The network and the loss of its training_step."""
    if not lightning.has_own_step(module):
        return module, None
    name = type(module).__name__
    if getattr(module, "automatic_optimization", True) is False:
        remedy = f"write in {where}: loss = ... and optimizer = ..."
        raise Unsupported(f"{name} optimizes by itself: its training_step is more than a loss", remedy=remedy)
    with user_code(f"training_step of {name} fails on the example", "it was called with the batch (input, target)"):
        taken, loss = lightning.understood(module, sample)
    notes.append(f"loss: training_step of {name}")
    if loss.part:
        notes.append(f"output: that of '{loss.part}', which training_step gives its input to")
    elif loss.part is None:
        notes.append("output: the input itself, as training_step is more than a loss of self(input)")
    return taken, loss


def held_loss(module: nn.Module, loss: Any, optimizer: Any) -> list[str]:
    """The model holds from now on what the optimizer trains of its loss."""
    found = hold(unwrapped(module), loss, optimizer)
    return [
        f"loss: the model holds '{name}' from now on, as the optimizer trains its parameters; weights that come out"
        f" have them, too, and load where {last_of(unwrapped(module))}.{name.rpartition('.')[2]} is set"
        for name in found
    ]


def kept_loss(module: nn.Module) -> str:
    """What makes a loss with tensors of its own a part of the network, in the user's file."""
    return f"hold the loss in the model, which makes it state of the program: {last_of(module)}.criterion = loss"


def last_of(module: nn.Module) -> str:
    """Where a module can be held that forward does not run: not in nn.Sequential; behind all other parameters."""
    name = "model"
    while isinstance(module, nn.Sequential) and len(module):
        name, module = f"{name}[-1]", module[-1]
    return name
