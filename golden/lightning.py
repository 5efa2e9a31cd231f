"""A module that says itself what a training step is, as Lightning's do: which part of it is the network, what is the
loss, and which optimizer it wants. Nothing of Lightning is needed."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from golden.snapshot import TABLES, Snapshot

Sample = tuple[tuple[Any, ...], Any]


@dataclass(frozen=True)
class Blank:
    """Stands for an input that the loss does not read."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    def tensor(self) -> torch.Tensor:
        return torch.full(self.shape, float("nan") if self.dtype.is_floating_point else 0, dtype=self.dtype)


class Stepped(nn.Module):
    """A module with the forward of one of its parts, or one that gives its inputs back: then the whole step is the
    loss. All tensors and modules in it are those of the module, under the same names."""

    own: Any

    def __init__(self, own: nn.Module, part: str | None) -> None:
        self.__dict__["own"] = own  # not as a part, which would lengthen every name
        mode = own.training
        super().__init__()
        self.__dict__ |= {table: own.__dict__[table] for table in TABLES}
        self.part = part
        self.training = mode

    @property
    def training(self) -> bool:
        return bool(self.own.training)

    @training.setter
    def training(self, mode: bool) -> None:
        self.own.training = mode

    def forward(self, *inputs: Any) -> Any:
        if self.part is None:
            return inputs[0] if len(inputs) == 1 else inputs
        return getattr(self.own, self.part)(*inputs)


@dataclass(frozen=True)
class StepLoss:
    """The training_step of a module with what its forward, or that of a part, has given."""

    own: nn.Module
    part: str | None  # "" is the module itself; None: all is loss, and the output is the input
    blanks: tuple[Any, ...]
    flat: bool  # whether a batch is (x1, x2, y) rather than ((x1, x2), y)

    def __call__(self, output: Any, target: Any) -> Any:
        if self.part is None:
            inputs = output if len(self.blanks) > 1 else (output,)
            return step_value(self.own, batch_of(inputs, target, self.flat))
        part = getattr(self.own, self.part) if self.part else self.own
        blank = pytree.tree_map(lambda b: b.tensor(), self.blanks)
        with forward_of(part, lambda *args, **options: output):
            return step_value(self.own, batch_of(blank, target, self.flat))


def has_own_step(module: nn.Module) -> bool:
    return callable(getattr(module, "training_step", None))


def understood(own: nn.Module, sample: Sample) -> tuple[nn.Module, StepLoss]:
    """The network and the loss that a module's training_step is made of. It is run a few times, without a trace."""
    first: Exception | None = None
    for flat in (False, True):
        try:
            return taken_apart(own, sample, flat)
        except Exception as error:
            first = first or error
    assert first is not None
    raise first


def taken_apart(own: nn.Module, sample: Sample, flat: bool) -> tuple[nn.Module, StepLoss]:
    """The module or a part of it is the network if it is called once, with the inputs, and only loss comes after it."""
    inputs, target = sample
    blanks = pytree.tree_map(lambda t: Blank(tuple(t.shape), t.dtype), inputs)
    start = Snapshot(own)
    calls: list[Call] = []
    clock = itertools.count()
    with start.undone(), contextlib.ExitStack() as stack:
        for name, part in own.named_modules():
            stack.enter_context(forward_of(part, spy(name, part.forward, calls, clock)))
        value = step_value(own, batch_of(inputs, target, flat))
    for name in ("", *(name for name, _ in own.named_children())):
        if not is_network(name, own, calls, inputs):
            continue
        network, loss = Stepped(own, name) if name else own, StepLoss(own, name, blanks, flat)
        with start.undone(), torch.enable_grad(), contextlib.suppress(Exception):
            output = network(*inputs)
            if torch.allclose(loss(output, target), value, rtol=1e-5, atol=0.0) and not trains_besides(
                own.get_submodule(name), own, loss(pytree.tree_map_only(torch.Tensor, torch.detach, output), target)
            ):
                return network, loss
    return Stepped(own, None), StepLoss(own, None, blanks, flat)


@dataclass(frozen=True)
class Call:
    """Of the module or of anything in it, during a step."""

    name: str
    began: int
    ended: int
    args: tuple[Any, ...] | None  # None: not the first parameters in their order


def spy(name: str, forward: Callable[..., Any], calls: list[Call], clock: Iterator[int]) -> Callable[..., Any]:
    def watched(*args: Any, **options: Any) -> Any:
        began = next(clock)
        output = forward(*args, **options)
        bound = inspect.signature(forward).bind(*args, **options)
        calls.append(Call(name, began, next(clock), None if bound.kwargs else bound.args))
        return output

    return watched


def is_network(name: str, own: nn.Module, calls: list[Call], inputs: tuple[Any, ...]) -> bool:
    """Whether the part is called once, with the inputs, not as a piece of the module's own forward, and no layer is
    called after it: then it is a backbone, whose head that is."""
    mine = [call for call in calls if call.name == name]
    if len(mine) != 1 or mine[0].args is None or not same(mine[0].args, inputs):
        return False
    within = any(not c.name and c.began < mine[0].began < c.ended for c in calls)
    later = (own.get_submodule(c.name) for c in calls if c.began > mine[0].ended)
    return not within and not any(True for layer in later for _ in layer.parameters())


def trains_besides(part: nn.Module, own: nn.Module, value: torch.Tensor) -> bool:
    """Whether a loss of the part's detached output trains parameters of others: those are layers without a module."""
    inside = {id(p) for p in part.parameters()}
    others = [p for p in own.parameters() if p.requires_grad and id(p) not in inside]
    if not others or not value.requires_grad:
        return False
    return any(g is not None for g in torch.autograd.grad(value, others, allow_unused=True))


def same(args: tuple[Any, ...], inputs: tuple[Any, ...]) -> bool:
    return len(args) == len(inputs) and all(a is b for a, b in zip(args, inputs, strict=True))


@contextlib.contextmanager
def forward_of(module: nn.Module, function: Callable[..., Any]) -> Iterator[None]:
    """What a call of the module does, for a time."""
    own = module.__dict__
    before = {k: own[k] for k in ("forward",) if k in own}
    own["forward"] = function
    try:
        yield
    finally:
        del own["forward"]
        own.update(before)


def batch_of(inputs: tuple[Any, ...], target: Any, flat: bool) -> tuple[Any, ...]:
    if flat:
        return (*inputs, *(target if isinstance(target, tuple | list) else (target,)))
    return (inputs[0] if len(inputs) == 1 else inputs, target)


def step_value(own: Any, batch: tuple[Any, ...]) -> Any:
    """The loss that training_step returns."""
    kinds = [p.kind for p in inspect.signature(own.training_step).parameters.values()]
    takes_index = len(kinds) > 1 or inspect.Parameter.VAR_POSITIONAL in kinds
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*self.log")  # nobody reads the log
        found = own.training_step(batch, 0) if takes_index else own.training_step(batch)
    value = found.get("loss") if isinstance(found, Mapping) else found
    if value is None:
        raise ValueError("training_step returns no loss")
    return value


def configured(module: Any) -> tuple[Any, Any]:
    """The optimizer and the scheduler of configure_optimizers, in whichever of its many forms."""
    found = module.configure_optimizers()
    schedulers: Any = []
    if isinstance(found, list | tuple) and len(found) == 2 and all(isinstance(f, list | tuple) for f in found):
        found, schedulers = found
    if isinstance(found, list | tuple):
        if len(found) != 1:
            raise ValueError(f"it makes {len(found)} optimizers; a step has one")
        found = found[0]
    if isinstance(found, Mapping):
        schedulers = [found["lr_scheduler"]] if found.get("lr_scheduler") is not None else []
        found = found["optimizer"]
    if len(schedulers) > 1:
        raise ValueError(f"it makes {len(schedulers)} schedulers; an optimizer has one")
    scheduler = schedulers[0] if schedulers else None
    return found, scheduler["scheduler"] if isinstance(scheduler, Mapping) else scheduler
