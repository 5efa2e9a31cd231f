"""A complex tensor as two real ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Tensor = torch.Tensor
Part = Any  # a real tensor, a number, or None for zeros


@dataclass(frozen=True)
class Pair:
    """re + im i."""

    re: Part
    im: Part

    @classmethod
    def of(cls, value: Any) -> Pair:
        """Of a pair, a real tensor or a number."""
        if isinstance(value, Pair):
            return value
        if isinstance(value, complex):
            return cls(value.real, value.imag or None)
        return cls(value, None)

    @property
    def like(self) -> Tensor:
        """One of the parts that are there."""
        return next(p for p in (self.re, self.im) if isinstance(p, Tensor))

    @property
    def number(self) -> bool:
        return not any(isinstance(p, Tensor) for p in (self.re, self.im))

    def parts(self) -> tuple[Any, Any]:
        """Both as tensors of the same shape, or as numbers."""
        if self.number:
            return self.re or 0.0, self.im or 0.0
        re, im = (filled(p, self.like) for p in (self.re, self.im))
        return re, im

    def map(self, function: Callable[[Tensor], Any]) -> Pair:
        """What is linear, done to each part."""
        return Pair(*(p if p is None else function(filled(p, self.like)) for p in (self.re, self.im)))

    def __add__(self, other: Any) -> Pair:
        other = Pair.of(other)
        parts = plus(self.re, other.re), plus(self.im, other.im)
        tensors = [p for p in parts if isinstance(p, Tensor)]
        if not tensors:
            return Pair(*parts)
        shape = torch.broadcast_shapes(*(p.shape for p in tensors))  # type: ignore[no-untyped-call]
        return Pair(*(p if p is None else filled(p, tensors[0].expand(shape)) for p in parts))

    def __neg__(self) -> Pair:
        return Pair(minus(self.re), minus(self.im))

    def __sub__(self, other: Any) -> Pair:
        return self + -Pair.of(other)

    def __mul__(self, other: Any) -> Pair:
        return multiplied(self, Pair.of(other), times)

    def __truediv__(self, other: Any) -> Pair:
        divisor = Pair.of(other)
        if divisor.im is None:
            return Pair(over(self.re, divisor.re), over(self.im, divisor.re))
        return (self * divisor.conj()) / Pair(divisor.square(), None)

    def conj(self) -> Pair:
        return Pair(self.re, minus(self.im))

    def square(self) -> Part:
        """Of its absolute value."""
        return plus(times(self.re, self.re), times(self.im, self.im))

    def abs(self) -> Tensor:
        if self.im is None or self.re is None:
            return self.like.abs()
        return torch.sqrt(self.square())

    def angle(self) -> Tensor:
        re, im = self.parts()
        return torch.atan2(im, re)


def filled(part: Part, like: Tensor) -> Tensor:
    """A part in the shape of another one."""
    if not isinstance(part, Tensor):
        return torch.full_like(like, part or 0.0)
    return part if part.shape == like.shape else part.expand_as(like)


def multiplied(x: Pair, y: Pair, product: Any) -> Pair:
    """By any product of real parts that is linear in both."""

    def of(a: Part, b: Part) -> Part:
        return None if a is None or b is None else product(a, b)

    return Pair(plus(of(x.re, y.re), minus(of(x.im, y.im))), plus(of(x.re, y.im), of(x.im, y.re)))


def plus(a: Part, b: Part) -> Part:
    return b if a is None else a if b is None else a + b


def minus(a: Part) -> Part:
    return None if a is None else -a


def times(a: Part, b: Part) -> Part:
    if a is None or b is None:
        return None
    return a if isinstance(b, int | float) and b == 1 else a * b


def over(a: Part, b: Part) -> Part:
    return None if a is None else a / b
