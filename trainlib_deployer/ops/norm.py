"""Normalisations: batch, layer and group norm, forward and backward, as generated loops.

All are y = (x - mean) * r * w + b with r = 1 / sqrt(var + eps) over some dimensions of n elements each. Backward, with
g = dL/dy, h = g * w:   dL/db = sum g,   dL/dw = sum g * (x - mean) * r,
dL/dx = r * (h - sum(h) / n - (x - mean) * r^2 * sum(h * (x - mean)) / n), where the two sums vanish for fixed
statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.registry import covers
from trainlib_deployer.program.expr import Expr, Operand, apply, call
from trainlib_deployer.program.ir import Shape, View

aten = torch.ops.aten
Maybe = View | None


def fma(a: Expr, b: Operand, c: Operand) -> Expr:
    return apply("fma", [a, b, c])


def along(b: Builder, vector: View, dim: int, rank: int) -> View:
    """A vector seen as varying along one dimension of a tensor of that rank."""
    return b.reshape(vector, [vector.numel if d == dim else 1 for d in range(rank)])


def moments(b: Builder, x: View, dims: Sequence[int]) -> tuple[View, View]:
    """Mean and biased variance in two passes, kept dimensions as ones."""
    n = prod(x.shape[d] for d in dims)
    mean = b.reduce("sum", dims, x, post=lambda s: s / n, keepdim=True, suffix="mean")
    var = b.reduce("sum", dims, x, mean, body=centred_square, post=lambda s: s / n, keepdim=True, suffix="var")
    return mean, var


def centred_square(x: Expr, mean: Expr) -> Expr:
    return (x - mean) * (x - mean)


def normalised(b: Builder, x: View, mean: View, r: View, weight: Maybe, bias: Maybe) -> View:
    """(x - mean) * (r * w) + b; all operands broadcast to x. Of each element one multiply-add, as in PyTorch, where the
    weight does not change along the row; the mean is as far from what it should be as what it is multiplied by."""
    given = [v for v in (weight, bias) if v is not None]
    still = all(v.strides[-1] == 0 or v.shape[-1] == 1 for v in given)

    def body(x: Expr, m: Expr, r: Expr, *wb: Expr) -> Operand:
        rest = list(wb)
        scale = r * rest.pop(0) if weight is not None else r
        if still:
            return fma(x, scale, fma(-m, scale, rest[0]) if bias is not None else -m * scale)
        return fma(x - m, scale, rest[0]) if bias is not None else (x - m) * scale

    return b.map(body, x, mean, r, *given, shape=x.shape)


# ---- batch norm: statistics over batch and space, one a channel


def channel_dims(x: View) -> list[int]:
    return [d for d in range(len(x.shape)) if d != 1]


@covers(aten._native_batch_norm_legit_functional.default, aten._native_batch_norm_legit.no_stats)
def batch_norm_train(b: Builder, x: View, weight: Maybe, bias: Maybe, *rest: Any) -> tuple[View, ...]:
    """y, mean, r, and with running statistics their new values: old + momentum * (batch's - old), variance unbiased."""
    running_mean, running_var = (rest[0], rest[1]) if isinstance(rest[0], View) else (None, None)
    if running_mean is not None and running_var is not None and not rest[2]:
        y, *_ = batch_norm_eval(b, x, weight, bias, running_mean, running_var, *rest[3:])
        nothing = b.fill((0,), 0, b.dtype(x), "nothing")
        return y, nothing, nothing, running_mean, running_var
    momentum, eps = float(rest[-2]), float(rest[-1])
    mean, var = moments(b, x, channel_dims(x))
    n = x.numel // x.shape[1]
    rank = len(x.shape)

    def finish(var: Expr, *running: Expr) -> tuple[Operand, ...]:
        r = call("rsqrt", var + eps)
        if not running:
            return (r,)
        m, rm, rv = running
        unbiased = var * (n / max(n - 1, 1))
        return r, fma(rm, 1.0 - momentum, m * momentum), fma(rv, 1.0 - momentum, unbiased * momentum)

    flat = [b.reshape(v, (x.shape[1],)) for v in (var, mean)]
    given = [flat[0]] if running_mean is None else [*flat, running_mean, running_var]
    done = b.maps(finish, *given, dtypes=(None,) * (1 if running_mean is None else 3), suffix="statistics")
    scale = [None if v is None else along(b, v, 1, rank) for v in (weight, bias)]
    y = normalised(b, x, mean, along(b, done[0], 1, rank), *scale)
    return (y, flat[1], *done)


@covers(aten.native_batch_norm.default, aten._native_batch_norm_legit_no_training.default)
def batch_norm_eval(
    b: Builder, x: View, weight: Maybe, bias: Maybe, mean: View, var: View, *rest: Any
) -> tuple[View, View, View]:
    """Fixed statistics."""
    assert not (len(rest) == 3 and rest[0]), "training mode is captured in its functional form"
    eps, rank = float(rest[-1]), len(x.shape)
    r = b.map(lambda v: call("rsqrt", v + eps), var, suffix="scale")
    scale = [None if v is None else along(b, v, 1, rank) for v in (weight, bias)]
    y = normalised(b, x, along(b, mean, 1, rank), along(b, r, 1, rank), *scale)
    return y, mean, r


@covers(aten.native_batch_norm_backward.default)
def batch_norm_backward(
    b: Builder,
    g: View,
    x: View,
    weight: Maybe,
    running_mean: Maybe,
    running_var: Maybe,
    save_mean: Maybe,
    save_r: Maybe,
    train: bool,
    eps: float,
    wanted: Sequence[bool],
) -> tuple[Maybe, Maybe, Maybe]:
    rank, dims = len(x.shape), channel_dims(x)
    if train:
        assert save_mean is not None and save_r is not None
        mean, r = save_mean, save_r
    else:
        assert running_mean is not None and running_var is not None
        mean, r = running_mean, b.map(lambda v: call("rsqrt", v + float(eps)), running_var, suffix="scale")
    mean, r = along(b, mean, 1, rank), along(b, r, 1, rank)
    gw = gb = None
    if train or wanted[1]:
        gw, gb = b.reduces(
            "sum",
            dims,
            g,
            x,
            mean,
            r,
            body=lambda g, x, m, r: (g * (x - m), g),
            post=lambda s, t, g, x, m, r: (s * r, t),
            suffixes=("weight", "bias"),
        )
    elif wanted[2]:
        gb = b.reduce("sum", dims, g, suffix="bias")
    if not wanted[0]:
        return None, gw, gb
    w = None if weight is None else along(b, weight, 1, rank)
    if not train:
        return b.map(lambda g, r, *w: g * (r * w[0] if w else r), g, r, *given(w), shape=x.shape), gw, gb
    assert gw is not None and gb is not None
    n = x.numel // x.shape[1]

    def body(g: Expr, x: Expr, m: Expr, r: Expr, gw: Expr, gb: Expr, *w: Expr) -> Operand:
        scale = r * w[0] if w else r
        slope = gw * r * (-1.0 / n) * scale
        return fma(x, slope, fma(g, scale, fma(-m, slope, gb * (-1.0 / n) * scale)))

    sums = (along(b, gw, 1, rank), along(b, gb, 1, rank))
    return b.map(body, g, x, mean, r, *sums, *given(w), shape=x.shape, suffix="input"), gw, gb


def given(*views: Maybe) -> list[View]:
    return [v for v in views if v is not None]


# ---- layer norm and group norm: statistics over the last dimensions of [rows, n], weights on their own dimensions


def row_norm(
    b: Builder, x: View, dims: Sequence[int], eps: float, weight: Maybe, bias: Maybe
) -> tuple[View, View, View]:
    mean, var = moments(b, x, dims)
    r = b.map(lambda v: call("rsqrt", v + float(eps)), var, suffix="scale")
    return normalised(b, x, mean, r, weight, bias), mean, r


def row_norm_backward(b: Builder, g: View, x: View, mean: View, r: View, weight: Maybe, dims: Sequence[int]) -> View:
    """dL/dx of a normalisation over `dims`; mean and r broadcast to x."""
    n = prod(x.shape[d] for d in dims)
    w = given(weight)

    def sums(g: Expr, x: Expr, m: Expr, *w: Expr) -> tuple[Operand, ...]:
        h = g * w[0] if w else g
        return h, h * (x - m)

    s, t = b.reduces(
        "sum",
        dims,
        g,
        x,
        mean,
        *w,
        body=sums,
        post=lambda s, t, *_: (s * (1.0 / n), t * (1.0 / n)),
        keepdim=True,
        suffixes=("sum", "dot"),
    )

    def body(g: Expr, x: Expr, m: Expr, r: Expr, s: Expr, t: Expr, *w: Expr) -> Operand:
        h = g * w[0] if w else g
        return fma(m - x, t * (r * r), h - s) * r

    return b.map(body, g, x, mean, r, s, t, *w, shape=x.shape, suffix="input")


def affine_gradients(
    b: Builder, g: View, x: View, mean: View, r: View, dims: Sequence[int], wanted: Sequence[bool]
) -> tuple[Maybe, Maybe]:
    """dL/dw and dL/db, summed over all dimensions that the weight does not have."""
    if not dims:
        gw = b.map(lambda g, x, m, r: g * ((x - m) * r), g, x, mean, r, suffix="weight") if wanted[1] else None
        return gw, g if wanted[2] else None
    if wanted[1] and wanted[2]:
        gw, gb = b.reduces(
            "sum",
            dims,
            g,
            x,
            mean,
            r,
            body=lambda g, x, m, r: (g * ((x - m) * r), g),
            post=lambda s, t, *_: (s, t),
            suffixes=("weight", "bias"),
        )
        return gw, gb
    only = (
        b.reduce("sum", dims, g, x, mean, r, body=lambda g, x, m, r: g * ((x - m) * r), suffix="weight")
        if wanted[1]
        else None
    )
    return only, b.reduce("sum", dims, g, suffix="bias") if wanted[2] else None


def trailing(x: View, shape: Shape) -> list[int]:
    return list(range(len(x.shape) - len(shape), len(x.shape)))


@covers(aten.native_layer_norm.default)
def layer_norm(
    b: Builder, x: View, shape: list[int], weight: Maybe, bias: Maybe, eps: float
) -> tuple[View, View, View]:
    return row_norm(b, x, trailing(x, tuple(shape)), eps, weight, bias)


@covers(aten.native_layer_norm_backward.default)
def layer_norm_backward(
    b: Builder,
    g: View,
    x: View,
    shape: list[int],
    mean: View,
    r: View,
    weight: Maybe,
    _bias: Maybe,
    wanted: Sequence[bool],
) -> tuple[Maybe, Maybe, Maybe]:
    dims = trailing(x, tuple(shape))
    gx = row_norm_backward(b, g, x, mean, r, weight, dims) if wanted[0] else None
    return gx, *affine_gradients(b, g, x, mean, r, [d for d in range(len(x.shape)) if d not in dims], wanted)


def grouped(b: Builder, x: View, n: int, groups: int) -> View:
    return b.reshape(x, (n, groups, x.shape[1] // groups, prod(x.shape[2:])))


def channelwise(b: Builder, vector: Maybe, groups: int) -> Maybe:
    return None if vector is None else b.reshape(vector, (1, groups, vector.numel // groups, 1))


@covers(aten.native_group_norm.default)
def group_norm(
    b: Builder, x: View, weight: Maybe, bias: Maybe, n: int, _c: int, _hw: int, groups: int, eps: float
) -> tuple[View, View, View]:
    seen = grouped(b, x, n, groups)
    y, mean, r = row_norm(b, seen, (2, 3), eps, channelwise(b, weight, groups), channelwise(b, bias, groups))
    return b.reshape(y, x.shape), b.reshape(mean, (n, groups)), b.reshape(r, (n, groups))


@covers(aten.native_group_norm_backward.default)
def group_norm_backward(
    b: Builder,
    g: View,
    x: View,
    mean: View,
    r: View,
    weight: Maybe,
    n: int,
    c: int,
    _hw: int,
    groups: int,
    wanted: Sequence[bool],
) -> tuple[Maybe, Maybe, Maybe]:
    seen, slope = grouped(b, x, n, groups), grouped(b, g, n, groups)
    mean, r = b.reshape(mean, (n, groups, 1, 1)), b.reshape(r, (n, groups, 1, 1))
    gx = row_norm_backward(b, slope, seen, mean, r, channelwise(b, weight, groups), (2, 3)) if wanted[0] else None
    gw, gb = affine_gradients(b, slope, seen, mean, r, (0, 3), wanted)
    return (
        None if gx is None else b.reshape(gx, x.shape),
        None if gw is None else b.reshape(gw, (c,)),
        None if gb is None else b.reshape(gb, (c,)),
    )
