"""What is tried: a module with its inputs, and how samples of PyTorch's tables become one."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

STEPS = 2
LEARNING_RATE = 1e-3
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


class Branch(nn.Module):
    """A function of tensors that are its own: those that want a gradient are parameters, all others buffers."""

    def __init__(self, function: Callable[..., Any], arguments: Any) -> None:
        super().__init__()
        self.function = function
        leaves, self.tree = pytree.tree_flatten(arguments)
        self.constants: list[Any] = []
        for i, leaf in enumerate(leaves):
            tensor = isinstance(leaf, torch.Tensor)
            self.constants.append(None if tensor else leaf)
            if tensor and leaf.requires_grad and leaf.numel():
                setattr(self, f"p{i}", nn.Parameter(leaf.detach().clone()))
            elif tensor:
                self.register_buffer(f"p{i}", leaf.detach().clone())

    def forward(self) -> Any:
        leaves = [getattr(self, f"p{i}", constant) for i, constant in enumerate(self.constants)]
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        return self.function(*args, **kwargs)


class Branches(nn.Module):
    """Independent functions side by side; the input only scales one more output."""

    def __init__(self, branches: dict[str, Branch]) -> None:
        super().__init__()
        self.branches = nn.ModuleDict(branches)
        self.scale = nn.Parameter(torch.tensor([0.5, -1.5, 2.0]))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        found = {"input": x * self.scale}
        for name, branch in self.branches.items():
            for i, value in enumerate(pytree.tree_leaves(branch())):
                if isinstance(value, torch.Tensor):
                    found[f"{name}.{i}"] = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
        return found


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


def side_by_side(name: str, branches: dict[str, Branch]) -> Subject:
    """One network of all branches. Raises DoesNotApply where no gradient reaches a parameter of theirs."""
    model = Branches(branches)
    g = seeded(name)
    size = checked(copy.deepcopy(model))
    data = [((torch.randn(3, generator=g),), torch.rand(size, generator=g) + 0.5) for _ in range(STEPS)]
    return Subject(name, model, data, weighted)


def checked(model: Branches) -> int:
    """How many elements all outputs have; where PyTorch itself finds a gradient for them."""
    with torch.random.fork_rng():
        outputs = model(torch.ones(3))
    values = [v for v in outputs.values() if v.is_floating_point()]
    reached = [v for v in values[1:] if v.requires_grad and v.numel()]
    if not reached:
        raise DoesNotApply("no gradient")
    torch.autograd.backward([v.sum() for v in reached])
    found = [*values, *(p.grad for p in model.parameters() if p.grad is not None)]
    if not all(bool(torch.isfinite(v).all()) for v in found):
        raise DoesNotApply("PyTorch's result or its gradient is not finite")
    if any(float(p.grad.abs().max()) > FAR for p in model.parameters() if p.grad is not None):
        raise DoesNotApply("a step of training leads out of all proportion")
    return sum(v.numel() for v in values)


def spread(items: Sequence[Any], most: int) -> list[Any]:
    """At most so many of them, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]
