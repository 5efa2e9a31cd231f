"""Elementary functions of complex numbers, in operations on their real and imaginary parts."""

from __future__ import annotations

from typing import Any

import torch

from trainlib_deployer.capture.complex_rules import polar, reciprocal, rule, where
from trainlib_deployer.capture.pair import Pair

aten = torch.ops.aten


@rule(aten.exp.default)
def exp(x: Pair) -> Pair:
    re, im = x.parts()
    return polar(torch.exp(re), im)


@rule(aten.log.default)
def log(x: Pair) -> Pair:
    return Pair(torch.log(x.abs()), x.angle())


@rule(aten.sqrt.default)
def sqrt(x: Pair) -> Pair:
    return polar(torch.sqrt(x.abs()), x.angle() * 0.5)


@rule(aten.rsqrt.default)
def rsqrt(x: Pair) -> Pair:
    return polar(torch.rsqrt(x.abs()), x.angle() * -0.5)


@rule(aten.square.default)
def square(x: Pair) -> Pair:
    return x * x


@rule(aten.pow.Tensor_Scalar)
def power(x: Pair, exponent: Any) -> Pair:
    """Small whole powers are products."""
    whole = not isinstance(exponent, complex) and float(exponent).is_integer() and 1 <= abs(exponent) <= MOST
    if not whole:
        return Pair(torch.ones_like(x.like), None) if exponent == 0 else exp(log(x) * exponent)
    found = x
    for _ in range(int(abs(exponent)) - 1):
        found = found * x
    return found if exponent > 0 else reciprocal(found)


MOST = 4


@rule(aten.pow.Tensor_Tensor, aten.pow.Scalar)
def power_of(x: Any, y: Any) -> Pair:
    base = Pair(torch.as_tensor(x), None) if isinstance(x, int | float) else Pair.of(x)
    return exp(log(base) * y)


@rule(aten.sinh.default)
def sinh(x: Pair) -> Pair:
    re, im = x.parts()
    return Pair(torch.sinh(re) * torch.cos(im), torch.cosh(re) * torch.sin(im))


@rule(aten.cosh.default)
def cosh(x: Pair) -> Pair:
    re, im = x.parts()
    return Pair(torch.cosh(re) * torch.cos(im), torch.sinh(re) * torch.sin(im))


@rule(aten.tanh.default)
def tanh(x: Pair) -> Pair:
    """(sinh 2a + i sin 2b) / (cosh 2a + cos 2b), all of it times exp(-2|a|), without overflow or cancellation."""
    re, im = x.parts()
    size = re.abs()
    small, nearly = torch.exp(-2 * size), -torch.expm1(-2 * size)
    divisor = nearly * nearly + 4 * small * torch.cos(im) * torch.cos(im)
    return Pair(re.sign() * nearly * (1 + small) / divisor, 4 * small * torch.sin(im) * torch.cos(im) / divisor)


@rule(aten.tanh_backward.default)
def tanh_backward(g: Any, y: Pair) -> Pair:
    return Pair.of(g) * (Pair.of(1.0) - y * y).conj()


@rule(aten.sigmoid_backward.default)
def sigmoid_backward(g: Any, y: Pair) -> Pair:
    return Pair.of(g) * (y - y * y).conj()


@rule(aten.sin.default)
def sin(x: Pair) -> Pair:
    re, im = x.parts()
    return Pair(torch.sin(re) * torch.cosh(im), torch.cos(re) * torch.sinh(im))


@rule(aten.cos.default)
def cos(x: Pair) -> Pair:
    re, im = x.parts()
    return Pair(torch.cos(re) * torch.cosh(im), -torch.sin(re) * torch.sinh(im))


@rule(aten.sigmoid.default)
def sigmoid(x: Pair) -> Pair:
    """1 / (1 + w) or w / (1 + w), whichever has a w that is no larger than one."""
    re, im = x.parts()
    right = re >= 0
    w = polar(torch.exp(-re.abs()), torch.where(right, -im, im))
    return where(right, 1.0, w) / (w + 1.0)
