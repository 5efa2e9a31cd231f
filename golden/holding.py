"""Parameters of a loss that the optimizer trains: a step trains those of the model, so the model holds the loss."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn


def hold(module: nn.Module, loss: Any, optimizer: Any) -> dict[str, nn.Module]:
    """What the model holds from now on, by names in it: nothing where the optimizer trains the model alone."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        return {}
    own = {id(p) for p in module.parameters()}
    foreign = {id(p) for group in optimizer.param_groups for p in group["params"]} - own
    found = {}
    for name, part in modules_of(loss) if foreign else ():
        if foreign & {id(p) for p in part.parameters()} and not own & {id(p) for p in part.parameters()}:
            path, place = holder(module)
            while hasattr(place, name):
                name += "_"
            place.add_module(name, part)
            found[f"{path}{name}"] = part
            own |= {id(p) for p in part.parameters()}
    return found


def modules_of(loss: Any) -> Iterator[tuple[str, nn.Module]]:
    """The loss, or those that a function reads."""
    if isinstance(loss, nn.Module):
        yield "criterion", loss
    elif isinstance(loss, functools.partial):
        given = {f"given{i}": v for i, v in enumerate(loss.args)} | loss.keywords
        yield from ((n, v) for n, v in given.items() if isinstance(v, nn.Module))
        yield from modules_of(loss.func)
    elif inspect.ismethod(loss):
        yield from modules_of(loss.__func__)
    elif inspect.isfunction(loss):
        read = inspect.getclosurevars(loss)
        found = {**read.globals, **read.nonlocals}
        yield from ((n, v) for n, v in found.items() if isinstance(v, nn.Module))


def holder(module: nn.Module) -> tuple[str, nn.Module]:
    """Where a module can be held that forward does not run: not in nn.Sequential; behind all other parameters."""
    path = ""
    while isinstance(module, nn.Sequential) and len(module):
        path, module = f"{path}{len(module) - 1}.", module[-1]
    return path, module
