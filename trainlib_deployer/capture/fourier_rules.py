"""PyTorch's Fourier transforms of complex tensors, in terms of transforms along one dimension of their parts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from trainlib_deployer.capture.complex_rules import rule
from trainlib_deployer.capture.fourier import Fourier
from trainlib_deployer.capture.pair import Pair

aten = torch.ops.aten
Tensor = torch.Tensor


@rule(aten._fft_r2c.default)
def fft_r2c(x: Tensor, dims: Sequence[int], normalization: int, onesided: bool) -> Pair:
    last = x.shape[dims[-1]]
    keep = last // 2 + 1 if onesided else last
    found = along(Pair(x, None), dims[-1], Fourier(last, -1, keep, scale=scale_of(x, dims, normalization)))
    return across(found, dims[:-1], -1)


@rule(aten._fft_c2c.default)
def fft_c2c(x: Pair, dims: Sequence[int], normalization: int, forward: bool) -> Pair:
    sign, last = -1 if forward else 1, x.like.shape[dims[-1]]
    scaled = Fourier(last, sign, last, scale=scale_of(x.like, dims, normalization))
    return along(across(x, dims[:-1], sign), dims[-1], scaled)


@rule(aten._fft_c2r.default)
def fft_c2r(x: Pair, dims: Sequence[int], normalization: int, last: int) -> Tensor:
    """Each frequency but 0 and half of the length stands for two, which are conjugate."""
    dim, half = dims[-1] % x.like.dim(), last // 2 + 1
    scale = scale_of(x.like, dims, normalization, last)
    times_there = torch.cat([torch.ones(1), torch.full(((last - 1) // 2,), 2.0), torch.ones(half - (last + 1) // 2)])
    found = across(x, dims[:-1], 1).map(lambda p: p.narrow(dim, 0, half).movedim(dim, -1) * (times_there * scale))
    return real_along(found.map(lambda p: p.movedim(-1, dim)), dim, Fourier(last, 1, last, real=True))


def real_c2c(x: Pair, dims: Sequence[int], normalization: int, forward: bool, last: int) -> Tensor:
    """The real part of the transform of x with zeros behind, up to the length `last`: the gradient of fft_r2c."""
    if x.im is None:
        return mirrored(x.re, dims, last, scale_of(x.re, dims, normalization, last))
    sign = -1 if forward else 1
    pruned = Fourier(last, sign, last, real=True, scale=scale_of(x.like, dims, normalization, last))
    return real_along(across(x, dims[:-1], sign), dims[-1], pruned)


def real_r2c(x: Tensor, dims: Sequence[int], normalization: int) -> Tensor:
    return mirrored(x, dims, x.shape[dims[-1]], scale_of(x, dims, normalization))


def mirrored(x: Tensor, dims: Sequence[int], count: int, scale: float) -> Tensor:
    """The real part of a transform of real numbers: its value at -k is that at k."""
    *others, last = (d % x.dim() for d in dims)
    how = Fourier(count, -1, count // 2 + 1, real=not others, scale=scale)
    half = along(Pair(x, None), last, how)
    if others:
        extent = x.shape[others[0]]
        half = along(across(half, others[1:], -1), others[0], Fourier(extent, -1, extent, real=True))
    rest = half.like.narrow(last, 1, count - how.keep).flip([last, *others])
    for d in others:
        rest = rest.roll(1, d)
    return torch.cat([half.like, rest], last)


def across(x: Pair, dims: Sequence[int], sign: int) -> Pair:
    for dim in dims:
        x = along(x, dim, Fourier(x.like.shape[dim], sign, x.like.shape[dim]))
    return x


def along(x: Pair, dim: int, how: Fourier) -> Pair:
    re, im = x.parts() if x.re is None else (x.re, x.im)
    found = how(re.movedim(dim, -1), None if im is None else im.movedim(dim, -1))
    return Pair(*(None if p is None else p.movedim(-1, dim) for p in found))


def real_along(x: Pair, dim: int, how: Fourier) -> Tensor:
    return along(x, dim, how).like


def scale_of(x: Tensor, dims: Sequence[int], normalization: int, last: int = 0) -> float:
    """PyTorch's numbers: 0 nothing, 1 by the root of the number of elements, 2 by that number."""
    count = math.prod(x.shape[d] for d in dims[:-1]) * (last or x.shape[dims[-1]])
    return (1.0, count**-0.5, 1.0 / count)[normalization]
