"""What goes into a captured step and what comes out of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from golden.precision import as_real
from golden.snapshot import Snapshot
from trainlib_deployer.capture.namer import WithLoss
from trainlib_deployer.program.ir import STEP
from trainlib_deployer.user.model import UserModel


@dataclass(frozen=True)
class Slot:
    """A placeholder of the graph; for a complex tensor, pairs of real numbers."""

    kind: str  # parameter, buffer, input, target, constant, scalar
    name: str
    trainable: bool
    value: torch.Tensor  # before the first step
    held: torch.Tensor | None = None  # the module's own, when the traced step begins


WRITTEN = ("parameter", "buffer")  # results that are what the forward has made of them


@dataclass(frozen=True)
class Out:
    """A result of the graph."""

    kind: str  # loss, output, metric, gradient; buffer, parameter: what the forward has made of it
    name: str


@dataclass(frozen=True)
class Captured:
    """The training step: every call_function node has an Origin in meta["origin"] and a fake value in meta["val"]."""

    graph: fx.GraphModule
    inputs: tuple[Slot, ...]
    outputs: tuple[Out, ...]
    decided: tuple[str, ...] = ()  # buffers whose values have decided on branches, shapes or places
    autocast: bool = False  # the user's code asks for mixed precision

    @property
    def written(self) -> frozenset[str]:
        return frozenset(out.name for out in self.outputs if out.kind in WRITTEN)


@dataclass(frozen=True)
class Beginning:
    """What the model holds when the step that is traced begins, and what of it lasts until the next step."""

    snapshot: Snapshot  # of the network and the loss
    values: Mapping[str, torch.Tensor]  # the network's tensors before the first step
    lasting: frozenset[str]  # attributes, neither parameters nor buffers, that a step changes
    reshaped: frozenset[str]  # made by the first step in a shape of their own
    changed: frozenset[str]  # whatever has other contents after one of the first steps

    def attributes(self) -> dict[str, torch.Tensor]:
        places = {p.path: p for found in self.snapshot.places.values() for p in found}
        return {name: places[name].held() for name in sorted(self.lasting)}

    def value(self, name: str, now: torch.Tensor) -> torch.Tensor:
        """Before the first step; zeros for what did not have its shape then."""
        first = self.values.get(name)
        return first if first is not None and first.shape == now.shape else torch.zeros_like(now.detach())


def slots_of(user: UserModel, whole: WithLoss, beginning: Beginning) -> list[Slot]:
    """One for each placeholder, in order. Tensors of the loss are constants: nobody trains them."""
    slots = []
    for name, p in whole.named_parameters():
        short = name.removeprefix("net.")
        own = name.startswith("net.")
        trainable = user.trains and own and p.requires_grad and p.numel() > 0
        value = beginning.value(short, as_real(p)) if own else as_real(p.detach())
        slots.append(Slot("parameter" if own else "constant", short, trainable, value, p))
    for name, b in whole.named_buffers():
        short = name.removeprefix("net.")
        if not name.startswith("net."):
            slots.append(Slot("constant", short, False, as_real(b.detach()), b))
        elif short not in beginning.reshaped:
            slots.append(Slot("buffer", short, False, beginning.value(short, as_real(b)), b))
    slots += [Slot("buffer", n, False, beginning.value(n, as_real(t)), t) for n, t in beginning.attributes().items()]
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
