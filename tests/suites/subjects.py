"""What is tried: a module with its inputs, and how samples of PyTorch's tables become one."""

from __future__ import annotations

import contextlib
import copy
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from golden.mode import Mode

STEPS = 2
LEARNING_RATE = 1e-3
HALF = "mixed"
LARGEST = 65504.0  # of halves
FAR = 1e9  # gradients from which a step leads so far that PyTorch's polygamma, which counts up one by one, never ends


class DoesNotApply(Exception):
    """There is nothing to train here, or PyTorch itself cannot."""


@dataclass(frozen=True)
class Subject:
    """A network as a user would hand it over."""

    name: str
    module: nn.Module
    data: list[tuple[tuple[Any, ...], torch.Tensor]]  # one a step
    loss: Callable[..., torch.Tensor]
    from_outside: bool = False  # is the module a package's, so that a refusal's line is worth showing?
    dtype: str = "fp32"


class Branch(nn.Module):
    """A function of tensors that are its own: those that want a gradient are parameters, all others buffers."""

    def __init__(self, function: Callable[..., Any], arguments: Any) -> None:
        super().__init__()
        self.function = function
        leaves, self.tree = pytree.tree_flatten(arguments)
        self.constants: list[Any] = []
        self.of_floats: set[int] = set()  # parameters
        for i, leaf in enumerate(leaves):
            tensor = isinstance(leaf, torch.Tensor)
            self.constants.append(None if tensor else leaf)
            if tensor and leaf.requires_grad and leaf.numel():
                setattr(self, f"p{i}", nn.Parameter(leaf.detach().clone()))
                self.of_floats |= {i} if leaf.is_floating_point() else set()
            elif tensor:
                self.register_buffer(f"p{i}", leaf.detach().clone())

    def forward(self, factor: torch.Tensor | None = None) -> Any:
        """With a factor, parameters become activations of that size before the function has them."""
        leaves = [getattr(self, f"p{i}", constant) for i, constant in enumerate(self.constants)]
        if factor is not None:
            leaves = [v * factor if i in self.of_floats else v for i, v in enumerate(leaves)]
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        return self.function(*args, **kwargs)


class Branches(nn.Module):
    """Independent functions side by side; the input only scales one more output. In mixed precision, what they get and
    what they give are activations, not parameters and outputs, which would be floats."""

    def __init__(self, branches: dict[str, Branch], dtype: str = "fp32") -> None:
        super().__init__()
        self.branches = nn.ModuleDict(branches)
        self.scale = nn.Parameter(torch.tensor([0.5, -1.5, 2.0]))
        self.halves = dtype == HALF
        if self.halves:
            self.register_buffer("one", torch.ones(()))
            self.register_buffer("two", torch.full((), 2.0))
            with torch.no_grad():
                for p in branches_of_floats(self):
                    p.copy_(p.half())

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        found = {"input": x * self.scale}
        for name, branch in self.branches.items():
            for i, value in enumerate(pytree.tree_leaves(branch(self.one if self.halves else None))):
                if isinstance(value, torch.Tensor):
                    value = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
                    found[f"{name}.{i}"] = value * self.two if self.halves and value.is_floating_point() else value
        return found


def branches_of_floats(model: Branches) -> list[nn.Parameter]:
    return [p for p in model.branches.parameters() if p.is_floating_point() and not is_lazy(p)]


class Largest(Mode):
    """What is the largest number that PyTorch makes while this is on?"""

    found = 0.0
    unfilled = ("empty", "_ctc_loss")  # what their memory had before is in their results

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        view = any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)
        unfilled = view or any(n in func._schema.name for n in self.unfilled)
        for value in () if unfilled else pytree.tree_leaves(out):
            if not isinstance(value, torch.Tensor) or value._is_zerotensor() or value.is_meta:
                continue
            if value.is_floating_point() and value.numel():
                finite = value.detach().abs().nan_to_num(0.0, 0.0, 0.0)
                self.found = max(self.found, float(finite.max()))
        return out


def weighted(outputs: dict[str, torch.Tensor], weights: torch.Tensor) -> torch.Tensor:
    """Every element of every output gets a slope of its own."""
    total = torch.zeros(())
    at = 0
    for value in outputs.values():
        if value.is_floating_point():
            total = total + (value * weights[at : at + value.numel()].reshape(value.shape)).sum()
            at += value.numel()
    return total


def seeded(name: str) -> torch.Generator:
    return torch.Generator().manual_seed(zlib.crc32(name.encode()))


def side_by_side(name: str, branches: dict[str, Branch], dtype: str = "fp32") -> Subject:
    """One network of all branches. Raises DoesNotApply where no gradient reaches a parameter of theirs."""
    model = Branches(branches, dtype)
    g = seeded(name)
    size = checked(copy.deepcopy(model))
    data = [((torch.randn(3, generator=g),), torch.rand(size, generator=g) + 0.5) for _ in range(STEPS)]
    return Subject(name, model, data, weighted, dtype=dtype)


def checked(model: Branches) -> int:
    """How many elements all outputs have; where PyTorch itself finds a gradient for them."""
    largest = Largest() if model.halves else contextlib.nullcontext()
    with torch.random.fork_rng(), largest:
        outputs = model(torch.ones(3))
    values = [v for v in outputs.values() if v.is_floating_point()]
    reached = [v for v in values[1:] if v.requires_grad and v.numel()]
    if not reached:
        raise DoesNotApply("no gradient")
    with largest:
        torch.autograd.backward([v.sum() for v in reached])
    found = [*values, *(p.grad for p in model.parameters() if p.grad is not None)]
    if not all(bool(torch.isfinite(v).all()) for v in found):
        raise DoesNotApply("PyTorch's result or its gradient is not finite")
    if any(float(p.grad.abs().max()) > FAR for p in model.parameters() if p.grad is not None):
        raise DoesNotApply("a step of training leads out of all proportion")
    if isinstance(largest, Largest):
        with largest, contextlib.suppress(RuntimeError):  # a step may lead out of the operator's domain
            torch.optim.SGD(model.parameters(), lr=1.5 * LEARNING_RATE).step()
            model(torch.ones(3))
        if largest.found > LARGEST / 2:
            raise DoesNotApply("it makes numbers that halves do not have")
    return sum(v.numel() for v in values)


def spread(items: Sequence[Any], most: int) -> list[Any]:
    """At most so many of them: the first and the last among them, or the one in the middle."""
    if len(items) <= most:
        return list(items)
    if most == 1:
        return [items[len(items) // 2]]
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]
