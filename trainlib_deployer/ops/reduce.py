"""Reductions over any dimensions, and the losses that end in one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.registry import covers
from trainlib_deployer.program.expr import Expr, Operand, call, select
from trainlib_deployer.program.ir import DType, View

aten = torch.ops.aten
Dims = Sequence[int] | int | None


def as_dims(view: View, dims: Dims) -> list[int]:
    """The dimensions a reduction folds, never negative; none given means all."""
    rank = len(view.shape)
    if dims is None or dims == []:
        return list(range(rank))
    return [d % rank for d in ([dims] if isinstance(dims, int) else dims)] if rank else []


def count(view: View, dims: list[int]) -> int:
    return prod(view.shape[d] for d in dims)


def folded(b: Builder, op: str, x: View, dims: Dims, keepdim: bool, **how: Any) -> View:
    return b.reduce(op, as_dims(x, dims), x, keepdim=keepdim, **how)


@covers(aten.sum.default, aten.sum.dim_IntList)
def sum_(b: Builder, x: View, dims: Dims = None, keepdim: bool = False, **_: Any) -> View:
    folds = as_dims(x, dims)
    if count(x, folds) == 1 and b.dtype(x) is not DType.U8:  # a single term, as of a bias's gradient with one sample
        return b.reshape(x, [e for d, e in enumerate(x.shape) if keepdim or d not in folds])
    return folded(b, "sum", x, dims, keepdim)


@covers(aten.mean.default, aten.mean.dim)
def mean(b: Builder, x: View, dims: Dims = None, keepdim: bool = False, **_: Any) -> View:
    n = count(x, as_dims(x, dims))
    return folded(b, "sum", x, dims, keepdim, post=lambda s: s / n)


@covers(aten.amax.default, aten.max.default)
def amax(b: Builder, x: View, dims: Dims = None, keepdim: bool = False) -> View:
    return folded(b, "max", x, dims, keepdim)


@covers(aten.amin.default, aten.min.default)
def amin(b: Builder, x: View, dims: Dims = None, keepdim: bool = False) -> View:
    return folded(b, "min", x, dims, keepdim)


@covers(aten.any.default, aten.any.dim, aten.any.dims)
def any_(b: Builder, x: View, dims: Dims = None, keepdim: bool = False) -> View:
    return folded(b, "max", x, dims, keepdim, body=lambda v: v.cast(DType.U8))


@covers(aten.all.default, aten.all.dim, aten.all.dims)
def all_(b: Builder, x: View, dims: Dims = None, keepdim: bool = False) -> View:
    return folded(b, "min", x, dims, keepdim, body=lambda v: v.cast(DType.U8))


@covers(aten.prod.default, aten.prod.dim_int)
def prod_(b: Builder, x: View, dims: Dims = None, keepdim: bool = False, **_: Any) -> View:
    return folded(b, "prod", x, dims, keepdim)


def variance(b: Builder, x: View, dims: Dims, correction: float | None, keepdim: bool, root: bool) -> View:
    """Two passes: the mean, then the centred squares."""
    folds = as_dims(x, dims)
    n = count(x, folds)
    centre = b.reduce("sum", folds, x, post=lambda s: s / n, keepdim=True, suffix="mean")
    divisor = max(n - (1 if correction is None else correction), 0)

    def finish(s: Expr) -> Operand:
        value = s / float(divisor) if divisor else s * float("nan")
        return call("sqrt", value) if root else value

    def square(v: Expr, m: Expr) -> Operand:
        return (v - m) * (v - m)

    return b.reduce("sum", folds, x, centre, body=square, post=finish, keepdim=keepdim)


@covers(aten.var.correction)
def var(b: Builder, x: View, dims: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> View:
    return variance(b, x, dims, correction, keepdim, root=False)


@covers(aten.std.correction)
def std(b: Builder, x: View, dims: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> View:
    return variance(b, x, dims, correction, keepdim, root=True)


@covers(aten.var_mean.correction)
def var_mean(
    b: Builder, x: View, dims: Dims = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[View, View]:
    return variance(b, x, dims, correction, keepdim, root=False), mean(b, x, dims, keepdim)


@covers(aten.linalg_vector_norm.default)
def vector_norm(b: Builder, x: View, order: float = 2, dims: Dims = None, keepdim: bool = False, **_: Any) -> View:
    if order == 2:
        return folded(b, "sum", x, dims, keepdim, body=lambda v: v * v, post=lambda s: call("sqrt", s))
    if order == 1:
        return folded(b, "sum", x, dims, keepdim, body=lambda v: call("abs", v))
    if abs(order) == float("inf"):
        return folded(b, "max" if order > 0 else "min", x, dims, keepdim, body=lambda v: call("abs", v))
    if order == 0:
        return folded(b, "sum", x, dims, keepdim, body=lambda v: v.op("ne", 0.0).float())
    return folded(
        b,
        "sum",
        x,
        dims,
        keepdim,
        body=lambda v: call("pow", call("abs", v), order),
        post=lambda s: call("pow", s, 1 / order),
    )


# ---- losses: reduction 0 none, 1 mean, 2 sum


def reduced_loss(b: Builder, reduction: int, body: Any, *views: View) -> View:
    if reduction == 0:
        return b.map(body, *views)
    n = prod(b_shape(views))
    return b.reduce("sum", (), *views, body=body, post=(lambda s: s / n) if reduction == 1 else (lambda s: s))


def b_shape(views: Sequence[View]) -> tuple[int, ...]:
    return max((v.shape for v in views), key=prod)


def mean_scale(x: View, reduction: int) -> float:
    return 1.0 / x.numel if reduction == 1 else 1.0


@covers(aten.mse_loss.default)
def mse_loss(b: Builder, x: View, y: View, reduction: int = 1) -> View:
    return reduced_loss(b, reduction, lambda x, y: (x - y) * (x - y), x, y)


@covers(aten.mse_loss_backward.default)
def mse_loss_backward(b: Builder, g: View, x: View, y: View, reduction: int) -> View:
    scale = 2.0 * mean_scale(x, reduction)
    return b.map(lambda g, x, y: (x - y) * scale * g, g, x, y, shape=x.shape)


@covers(aten.smooth_l1_loss.default)
def smooth_l1_loss(b: Builder, x: View, y: View, reduction: int = 1, beta: float = 1.0) -> View:
    def body(x: Expr, y: Expr) -> Operand:
        d = call("abs", x - y)
        return select(d < float(beta), d * d * (0.5 / beta), d - 0.5 * beta) if beta else d

    return reduced_loss(b, reduction, body, x, y)


@covers(aten.smooth_l1_loss_backward.default)
def smooth_l1_loss_backward(b: Builder, g: View, x: View, y: View, reduction: int, beta: float) -> View:
    scale = mean_scale(x, reduction)

    def body(g: Expr, x: Expr, y: Expr) -> Operand:
        d = x - y
        inner = d * (1.0 / beta) if beta else d * 0.0
        return select(call("abs", d) < float(beta), inner, call("sign", d)) * scale * g

    return b.map(body, g, x, y, shape=x.shape)


@covers(aten.huber_loss.default)
def huber_loss(b: Builder, x: View, y: View, reduction: int = 1, delta: float = 1.0) -> View:
    def body(x: Expr, y: Expr) -> Operand:
        d = call("abs", x - y)
        return select(d <= float(delta), d * d * 0.5, (d - 0.5 * delta) * float(delta))

    return reduced_loss(b, reduction, body, x, y)


@covers(aten.huber_loss_backward.default)
def huber_loss_backward(b: Builder, g: View, x: View, y: View, reduction: int, delta: float) -> View:
    scale = mean_scale(x, reduction)

    def body(g: Expr, x: Expr, y: Expr) -> Operand:
        return call("max", call("min", x - y, float(delta)), -float(delta)) * scale * g

    return b.map(body, g, x, y, shape=x.shape)


LOG_FLOOR = -100.0  # PyTorch clamps the logarithms of binary cross-entropy there
DIVISION_FLOOR = 1e-12


@covers(aten.binary_cross_entropy.default)
def binary_cross_entropy(b: Builder, p: View, y: View, weight: View | None = None, reduction: int = 1) -> View:
    def body(p: Expr, y: Expr, *w: Expr) -> Operand:
        log_p = call("max", call("log", p), LOG_FLOOR)
        log_q = call("max", call("log1p", -p), LOG_FLOOR)
        loss = (y - 1.0) * log_q - y * log_p
        return loss * w[0] if w else loss

    return reduced_loss(b, reduction, body, p, y, *([weight] if weight else []))


@covers(aten.binary_cross_entropy_backward.default)
def binary_cross_entropy_backward(
    b: Builder, g: View, p: View, y: View, weight: View | None = None, reduction: int = 1
) -> View:
    scale = mean_scale(p, reduction)

    def body(g: Expr, p: Expr, y: Expr, *w: Expr) -> Operand:
        slope = g * scale * (p - y) / call("max", (1.0 - p) * p, DIVISION_FLOOR)
        return slope * w[0] if w else slope

    return b.map(body, g, p, y, *([weight] if weight else []), shape=p.shape)
