"""What goes into a captured step and what comes out of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from trainlib_deployer.capture.namer import WithLoss
from trainlib_deployer.program.ir import STEP
from trainlib_deployer.user.model import UserModel


@dataclass(frozen=True)
class Slot:
    """A placeholder of the graph."""

    kind: str  # parameter, buffer, input, target, constant, scalar
    name: str
    trainable: bool
    value: torch.Tensor


@dataclass(frozen=True)
class Out:
    """A result of the graph."""

    kind: str  # loss, output, gradient, buffer
    name: str


@dataclass(frozen=True)
class Captured:
    """The training step: every call_function node has an Origin in meta["origin"] and a fake value in meta["val"]."""

    graph: fx.GraphModule
    inputs: tuple[Slot, ...]
    outputs: tuple[Out, ...]


def slots_of(user: UserModel, whole: WithLoss) -> list[Slot]:
    """One for each placeholder, in order. Tensors of the loss are constants: nobody trains them."""
    slots = []
    for name, p in whole.named_parameters():
        short = name.removeprefix("net.")
        own = name.startswith("net.")
        slots.append(Slot("parameter" if own else "constant", short, own and p.requires_grad, p.detach()))
    for name, b in whole.named_buffers():
        own = name.startswith("net.")
        slots.append(Slot("buffer" if own else "constant", name.removeprefix("net."), False, b.detach()))
    slots += [Slot("input", n, False, v) for n, v in numbered("input", tensors_in(user.inputs))]
    slots += [Slot("target", n, False, v) for n, v in numbered("target", tensors_in(user.target))]
    slots.append(Slot("scalar", STEP, False, torch.zeros((), dtype=torch.int32)))
    return slots


def tensors_in(value: Any) -> list[torch.Tensor]:
    return [v.detach() for v in pytree.tree_leaves(value) if isinstance(v, torch.Tensor)]


def numbered(kind: str, values: list[torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
    return [(kind if i == 0 else f"{kind}{i}", v) for i, v in enumerate(values)]


def rebuilt(example: Any, tensors: Iterator[torch.Tensor]) -> Any:
    """The example's structure around other tensors."""
    return pytree.tree_map(lambda v: next(tensors) if isinstance(v, torch.Tensor) else v, example)
