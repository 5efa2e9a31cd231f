"""Losses of class labels: the negative log-likelihood picks one element of each row."""

from __future__ import annotations

from functools import partial
from math import nan

import numpy as np
import torch

from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.index import around, put, take
from trainlib_deployer.ops.registry import covers
from trainlib_deployer.program.expr import Expr, Operand, select
from trainlib_deployer.program.ir import DType, Shape, View

aten = torch.ops.aten
FEW = 32  # classes: a loop over them takes less than a kernel that looks up an index


def as_rows(b: Builder, x: View) -> View:
    """Scores [batch, classes, ...] as [outer, classes, inner]."""
    return b.reshape(x, rows_shape(x.shape))


def rows_shape(shape: Shape) -> Shape:
    return (1, shape[0], 1) if len(shape) == 1 else around(shape, 1)


@covers(aten.nll_loss_forward.default, aten.nll_loss2d_forward.default)
def nll_loss(b: Builder, x: View, target: View, weight: View | None, reduction: int, ignore: int) -> tuple[View, View]:
    """-w[t] * x[t], and the sum of the weights that counted."""
    outer, extent, inner = rows_shape(x.shape)
    labels = b.reshape(b.contiguous(target), (outer, 1, inner))
    chosen = score(b, as_rows(b, x), labels, ignore)
    chosen = b.map(lambda x, t: select(t.equals(ignore), x, of_classes(t, extent, x, nan)), chosen, labels)
    w = class_weights(b, weight, labels, ignore)
    if reduction == 0:
        loss = b.map(lambda x, w: -(x * w), chosen, w)
        return b.reshape(loss, target.shape), b.fill((), 0, DType.F32)

    def finish(s: Expr, total: Expr) -> tuple[Operand, ...]:
        return (-s / total if reduction == 1 else -s), total

    loss, total = b.reduces(
        "sum", (), chosen, w, body=lambda x, w: (x * w, w), post=lambda s, t, *_: finish(s, t), suffixes=("", "weights")
    )
    return loss, total


def of_classes(t: Expr, extent: int, here: Operand, elsewhere: Operand) -> Operand:
    """PyTorch stops at a label that is no class. A step cannot stop: its loss is NaN, and it learns nothing from it."""
    return select(t < 0, elsewhere, select(t < extent, here, elsewhere))


def class_weights(b: Builder, weight: View | None, labels: View, ignore: int) -> View:
    """The weight of each element's class; zero where the class is ignored."""
    if weight is None:
        return b.map(lambda t: select(t.equals(ignore), 0.0, 1.0), labels, suffix="weights")
    found = take(b, b.reshape(weight, (1, weight.numel, 1)), b.reshape(labels, (1, labels.numel, 1)), ignore, "weights")
    return b.reshape(found, labels.shape)


@covers(aten.nll_loss_backward.default, aten.nll_loss2d_backward.default)
def nll_loss_backward(
    b: Builder,
    g: View,
    x: View,
    target: View,
    weight: View | None,
    reduction: int,
    ignore: int,
    total: View,
) -> View:
    outer, extent, inner = rows_shape(x.shape)
    labels = b.reshape(b.contiguous(target), (outer, 1, inner))
    w = class_weights(b, weight, labels, ignore)
    w = b.map(lambda w, t: of_classes(t, extent, w, 0.0), w, labels)
    slope = b.reshape(g, (outer, 1, inner)) if reduction == 0 else b.reshape(g, (1, 1, 1))

    def value(g: Expr, w: Expr, *total: Expr) -> Operand:
        return -(g * w) / total[0] if total else -(g * w)

    totals = [b.reshape(total, (1, 1, 1))] if reduction == 1 else []
    v = b.map(value, slope, w, *totals, shape=(outer, 1, inner), suffix="value")
    return b.reshape(slopes(b, v, labels, extent, ignore), x.shape)


def score(b: Builder, x: View, labels: View, ignore: int) -> View:
    """Of each row [extent] that of its class, zero where that is ignored or no class."""
    if not few(x.shape):
        return take(b, x, labels, ignore, "chosen")

    extent = x.shape[1]
    hit = partial(of_class, ignore=ignore, extent=extent)
    return b.reduce("sum", [1], x, labels, positions(b, extent), body=hit, keepdim=True, suffix="chosen")


def slopes(b: Builder, v: View, labels: View, extent: int, ignore: int) -> View:
    """Rows [extent] of zeros, but for v where the class is, unless that is ignored."""
    outer, _, inner = v.shape
    if not few((outer, extent, inner)):
        return put(b, v, labels, extent, ignore=ignore)
    return b.map(partial(of_class, ignore=ignore, extent=extent), v, labels, positions(b, extent))


def of_class(x: Expr, label: Expr, at: Expr, ignore: int, extent: int) -> Operand:
    """Zero elsewhere, and where the class is ignored, whatever x is."""
    found = select(label.equals(at), x, 0.0)
    return select(label.equals(ignore), 0.0, found) if 0 <= ignore < extent else found


def few(rows: Shape) -> bool:
    _, extent, inner = rows
    return extent <= FEW and inner == 1


def positions(b: Builder, extent: int) -> View:
    return b.reshape(b.constant(np.arange(extent, dtype=np.int32), "classes"), (1, extent, 1))
