"""What a program of mixed precision may do otherwise than the reference, so that one is told from a wrong one.

It rounds at a few other places than PyTorch's operations would, and whatever it calculates of that is off by parts of a
half's rounding. Two kinds of runs of the reference tell what that comes to:

- `Kinks`: one of the elements that lie next to a corner, as a ReLU has it, is on its other side. There are few of
  them, each moves the gradients below by a lot, and nothing else changes.
- `Doubt.shaken`: all elements are off by chance before they are rounded, by up to this part of what rounding may do.
  Some are not rounded at all between two operations, and what is made of several parts is off by all that it may do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from golden.half import HALF, Half
from golden.mode import among_ourselves

CORNERS: dict[str, Callable[..., tuple[Any, ...]]] = {
    **dict.fromkeys("relu relu_ leaky_relu leaky_relu_ _prelu_kernel abs".split(), lambda *_: (0.0,)),
    **dict.fromkeys(("threshold", "threshold_", "clamp_min", "clamp_min_"), lambda corner, *_: (corner,)),
    **dict.fromkeys(("clamp_max", "clamp_max_"), lambda corner: (corner,)),
    **dict.fromkeys(("clamp", "clamp_"), lambda low=None, high=None: (low, high)),
    **dict.fromkeys(("hardtanh", "hardtanh_"), lambda low=-1.0, high=1.0: (low, high)),
    **dict.fromkeys("hardswish hardswish_ hardsigmoid hardsigmoid_".split(), lambda: (-3.0, 3.0)),
    **dict.fromkeys(("hardshrink", "softshrink"), lambda corner=0.5: (-corner, corner)),
}
ODD, MORE = 0x5851F42D4C957F2D, 0x2545F4914F6CDD1D
Place = tuple[int, int, float]  # an operation of a step, an element that it reads, and the corner next to that


@dataclass
class Kinks:
    """The elements next to a corner, found in one run and turned in others, one in each."""

    near: dict[int, list[tuple[float, Place]]] = field(default_factory=dict)  # by step
    kept: int = 8

    def note(self, step: int, operation: int, value: torch.Tensor, corners: Sequence[float]) -> None:
        """Of an operation that has these corners; next to one is what is small beside the other elements."""
        size = value.square().mean().sqrt().clamp(min=1e-30)
        for corner in corners:
            distances = ((value - corner).abs() / size).reshape(-1)
            found = distances.topk(min(self.kept, len(distances)), largest=False)
            places = ((operation, int(i), corner) for i in found.indices)
            near = [*self.near.get(step, ()), *zip(found.values.tolist(), places, strict=True)]
            self.near[step] = sorted(near)[: self.kept]

    def turned(self) -> Iterator[dict[int, Place]]:
        """In each step the nearest, then the next ones."""
        for i in range(self.kept):
            yield {step: found[i][1] for step, found in self.near.items() if i < len(found)}


@dataclass(frozen=True)
class Doubt:
    """Of one run."""

    kinks: Kinks | None = None  # takes down what is next to a corner
    turned: dict[int, Place] = field(default_factory=dict)  # by step
    shaken: float = 0.0
    seed: int = 0

    def of(self, step: int, half: Half = HALF) -> Branches:
        return Branches(self, step, half)


CERTAIN = Doubt()


@dataclass
class Branches:
    """What is done with the operands of the operations of one step."""

    doubt: Doubt
    step: int
    half: Half
    count: int = 0  # of operations with corners
    passed: int = 0  # of what may be passed on as floats

    def taken(self, name: str, args: tuple[Any, ...], where: torch.Tensor | None) -> tuple[Any, ...]:
        """Operands of an operation that may have corners, and where the first of them lies: the backward pass may read
        it there. None: nothing is changed there."""
        value = args[0] if name in CORNERS and args else None
        if not isinstance(value, torch.Tensor) or not value.is_floating_point() or not value.numel():
            return args
        corners = [c for c in CORNERS[name](*args[1:]) if isinstance(c, int | float)]
        self.count += 1
        if self.doubt.kinks is not None:
            self.doubt.kinks.note(self.step, self.count, value, corners)
        operation, element, corner = self.doubt.turned.get(self.step, (0, 0, 0.0))
        if operation != self.count:
            return args
        at = tuple(int(i) for i in np.unravel_index(element, value.shape))
        other = self.half.across(float(value[at]), corner)
        changed = value if name.endswith("_") else value.clone()
        for tensor in (changed, where):
            if tensor is not None:
                tensor[at] = other
        return (changed, *args[1:])

    def passes_on(self) -> bool:
        """Whether an operation finds as a float what one before it has made, as in a loop that does both."""
        if not self.doubt.shaken:
            return False
        self.passed += 1
        with among_ourselves():
            return bool(chance(torch.tensor([float(self.passed)]), self.doubt.seed) > 0)

    def rounded(self, value: torch.Tensor, twice: bool = False) -> torch.Tensor:
        """To halves. What one is already stays, and an element that is read twice is rounded alike. `twice`: it may
        have been rounded before it was whole."""
        near = self.half.rounded(value)
        if not self.doubt.shaken:
            return near
        moved = value + (1.0 if twice else self.doubt.shaken) * chance(value, self.doubt.seed) * self.half.gap(value)
        return torch.where(near == value, near, self.half.rounded(moved))


def chance(value: torch.Tensor, seed: int) -> torch.Tensor:
    """Between -1/2 and 1/2, by the bits of each element."""
    bits = value.double().contiguous().view(torch.int64) ^ (seed * ODD & 0x7FFFFFFFFFFFFFFF)
    bits = bits * ODD
    bits = (bits ^ (bits >> 29)) * MORE
    return ((bits >> 24) & 0xFFFFFF).to(value.dtype) / 2**24 - 0.5
