"""Reading and writing at indices that are known only when the step runs: class labels, token ids, gather."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch

from trainlib_deployer.ir import DType, View
from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.call import Call, Operand
from trainlib_deployer.ops.expr import Expr, select
from trainlib_deployer.ops.expr import Operand as Value
from trainlib_deployer.ops.registry import covers

aten = torch.ops.aten
MEAN = 1


@dataclass(frozen=True)
class Pick:
    """y[o, i] = x[o, index[o, i], i], zero where the index is `ignore`: reads x [outer, extent, inner], index;
    writes y."""

    outer: int
    extent: int
    inner: int
    ignore: int

    name = "pick"
    kernel = "tl_pick_f32"
    headers = ("tl_index.h",)

    def macs(self) -> int:
        return 0

    def scratch(self, cores: int) -> int:
        return 0

    def call(self, reads: list[Operand], writes: list[Operand], scratch: str) -> Call:
        x, index = reads
        rows = x.view.strides[0] if x.view.shape[0] > 1 else 0
        return Call(
            self.kernel,
            "tl_pick",
            (
                ("x", x.pointer),
                ("index", index.pointer),
                ("y", writes[0].pointer),
                ("outer", self.outer),
                ("extent", self.extent),
                ("inner", self.inner),
                ("x_outer", rows),
                ("ignore", self.ignore),
            ),
        )


@dataclass(frozen=True)
class Place:
    """y[o, c, i] = g[o, i] where c is index[o, i], else zero: the gradient of Pick."""

    outer: int
    extent: int
    inner: int

    name = "place"
    kernel = "tl_place_f32"
    headers = ("tl_index.h",)

    def macs(self) -> int:
        return 0

    def scratch(self, cores: int) -> int:
        return 0

    def call(self, reads: list[Operand], writes: list[Operand], scratch: str) -> Call:
        g, index = reads
        return Call(
            self.kernel,
            "tl_place",
            (
                ("g", g.pointer),
                ("index", index.pointer),
                ("y", writes[0].pointer),
                ("outer", self.outer),
                ("extent", self.extent),
                ("inner", self.inner),
            ),
        )


def pick(b: Builder, x: View, index: View, ignore: int, suffix: str) -> View:
    """x [outer, extent, inner] at index [outer, inner]."""
    outer, extent, inner = x.shape
    out = b.tensor((outer, inner), suffix=suffix)
    b.op(Pick(outer, extent, inner, ignore), [x, index], [out], suffix)
    return out


def as_rows(b: Builder, x: View) -> View:
    """Scores [batch, classes, ...] as [outer, classes, inner]."""
    x = b.contiguous(x)
    if len(x.shape) == 1:
        return b.reshape(x, (1, x.shape[0], 1))
    return b.reshape(x, (x.shape[0], x.shape[1], prod(x.shape[2:])))


@covers(aten.nll_loss_forward.default, aten.nll_loss2d_forward.default)
def nll_loss(b: Builder, x: View, target: View, weight: View | None, reduction: int, ignore: int) -> tuple[View, View]:
    """-w[t] * x[t], and the sum of the weights that counted."""
    rows = as_rows(b, x)
    index = b.reshape(b.contiguous(target), (rows.shape[0], rows.shape[2]))
    chosen = pick(b, rows, index, ignore, "chosen")
    w = class_weights(b, weight, index, ignore)
    if reduction == 0:
        loss = b.map(lambda x, w: -(x * w), chosen, w)
        return b.reshape(loss, target.shape), b.fill((), 0, DType.F32)

    def finish(s: Expr, total: Expr) -> tuple[Value, ...]:
        return (-s / total if reduction == MEAN else -s), total

    loss, total = b.reduces(
        "sum", (), chosen, w, body=lambda x, w: (x * w, w), post=lambda s, t, *_: finish(s, t), suffixes=("", "weights")
    )
    return loss, total


def class_weights(b: Builder, weight: View | None, index: View, ignore: int) -> View:
    """The weight of each element's class; zero where the class is ignored."""
    if weight is None:
        return b.map(lambda t: select(t.equals(ignore), 0.0, 1.0), index, suffix="weights")
    outer, inner = index.shape
    spread = b.reshape(b.contiguous(weight), (1, weight.numel, 1))
    flat = b.reshape(index, (1, outer * inner))
    # one row of classes serves all elements: the kernel reads x[index] with inner stride zero
    return b.reshape(lookup(b, spread, flat, ignore), (outer, inner))


def lookup(b: Builder, table: View, index: View, ignore: int) -> View:
    """table[index] for a vector: each element is an outer row of its own, all at the same place."""
    n = index.numel
    shown = View(table.tensor, (n, table.shape[1], 1), (0, 1, 1), table.offset)
    out = b.tensor((n, 1), suffix="weights")
    b.op(Pick(n, table.shape[1], 1, ignore), [shown, b.reshape(index, (n, 1))], [out], "weights")
    return out


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
    outer, extent, inner = as_rows(b, x).shape if x.contiguous else (x.shape[0], x.shape[1], prod(x.shape[2:]))
    index = b.reshape(b.contiguous(target), (outer, inner))
    w = class_weights(b, weight, index, ignore)
    slope = b.reshape(g, (outer, inner)) if reduction == 0 else b.reshape(g, (1, 1))

    def value(g: Expr, w: Expr, *total: Expr) -> Value:
        return -(g * w) / total[0] if total else -(g * w)

    totals = [b.reshape(total, (1, 1))] if reduction == MEAN else []
    v = b.map(value, slope, w, *totals, shape=(outer, inner), suffix="value")
    out = b.tensor((outer, extent, inner))
    b.op(Place(outer, extent, inner), [v, index], [out])
    return b.reshape(out, x.shape)
