"""How the table of operations is written: a case is a function or a module, and the tensors it gets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Leaf = torch.Tensor  # floats become parameters, everything else (and what `fixed` made) buffers
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """`function(*leaves)`; a module is its own function."""

    group: str
    name: str
    function: Callable[..., Any]
    leaves: tuple[Any, ...]


CASES: list[Case] = []
generator = torch.Generator().manual_seed(20)


def case(group: str, name: str, function: Callable[..., Any], *leaves: Any) -> None:
    """A bare shape stands for a normal random parameter."""
    tensors = tuple(normal(v) if isinstance(v, tuple) else v for v in leaves)
    assert name not in {c.name for c in CASES if c.group == group}, name
    CASES.append(Case(group, name, function, tensors))


def cases(group: str, table: dict[str, Callable[..., Any]], *leaves: Any) -> None:
    for name, function in table.items():
        case(group, name, function, *leaves)


def normal(shape: Shape) -> Leaf:
    return torch.randn(shape, generator=generator)


def uniform(shape: Shape, low: float, high: float) -> Leaf:
    return torch.rand(shape, generator=generator) * (high - low) + low


def positive(*shape: int) -> Leaf:
    return uniform(shape, 0.3, 2.5)


def fixed(value: Leaf) -> nn.Buffer:
    return nn.Buffer(value)


def integers(shape: Shape, high: int, low: int = 0) -> nn.Buffer:
    return fixed(torch.randint(low, high, shape, generator=generator))


def mask(*shape: int) -> nn.Buffer:
    return fixed(torch.rand(shape, generator=generator) < 0.6)


def spread(*shape: int) -> Leaf:
    """Distinct values in random order, -3 to 3: no ties and no kinks within rounding."""
    n = math.prod(shape)
    return ((torch.randperm(n, generator=generator) + 0.37) / n * 6 - 3).reshape(shape)


def module(group: str, name: str, made: nn.Module, *leaves: Any) -> None:
    with torch.no_grad():  # affine weights start at one and zero, where mistakes hide
        for key, p in made.named_parameters():
            if "original" not in key:
                p.add_(torch.randn(p.shape, generator=generator) * 0.3)
        for b in made.buffers():
            if b.is_floating_point():
                b.copy_(uniform(tuple(b.shape), 0.5, 1.5))
    case(group, name, made, *leaves)


def by_group(most: int) -> list[tuple[str, Sequence[Case]]]:
    """The cases in portions of one project each."""
    portions: list[tuple[str, Sequence[Case]]] = []
    for group in dict.fromkeys(c.group for c in CASES):
        members = [c for c in CASES if c.group == group]
        pieces = -(-len(members) // most)
        for i in range(pieces):
            portions.append((f"{group}{i}" if pieces > 1 else group, members[i::pieces]))
    return portions


torch.manual_seed(3)
