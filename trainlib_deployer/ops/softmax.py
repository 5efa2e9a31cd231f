"""Softmax and log-softmax over any dimension: y = exp(x - max) / sum(exp(x - max)), as generated loops."""

from __future__ import annotations

import math
from typing import Any

import torch

from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.registry import covers
from trainlib_deployer.program.expr import call, select
from trainlib_deployer.program.ir import View

aten = torch.ops.aten
NOTHING = float("-inf")


@covers(aten._softmax.default)
def softmax(b: Builder, x: View, dim: int, _half: bool) -> View:
    if not x.shape:
        return b.fill((), 1, b.dtype(x))
    top = b.reduce("max", [dim], x, keepdim=True, suffix="max")
    e = b.map(lambda x, m: call("exp", x - m), x, top, suffix="exp")
    share = b.reduce("sum", [dim], e, post=lambda s: 1.0 / s, keepdim=True, suffix="share")
    return b.map(lambda e, s: e * s, e, share)


@covers(aten._safe_softmax.default)
def safe_softmax(b: Builder, x: View, dim: int, _dtype: Any = None) -> View:
    """Rows that are masked altogether, all at minus infinity, give zeros."""
    top = b.reduce("max", [dim], x, post=lambda m: select(m.equals(NOTHING), 0.0, m), keepdim=True, suffix="max")
    e = b.map(lambda x, m: call("exp", x - m), x, top, suffix="exp")
    share = b.reduce("sum", [dim], e, post=lambda s: select(s.equals(0.0), 0.0, 1.0 / s), keepdim=True, suffix="share")
    return b.map(lambda e, s: e * s, e, share)


@covers(aten._softmax_backward_data.default)
def softmax_backward(b: Builder, g: View, y: View, dim: int, _dtype: Any) -> View:
    if not y.shape:
        return b.fill((), 0, b.dtype(y))
    if b.halves:
        dot = mean_by_shares(b, g, y, dim)
    else:
        dot = b.reduce("sum", [dim], g, y, body=lambda g, y: g * y, keepdim=True, suffix="dot")
    return b.map(lambda g, y, d: (g - d) * y, g, y, dot)


def mean_by_shares(b: Builder, g: View, y: View, dim: int) -> View:
    """Shares that are halves do not quite add up to one, and what is alike in a row of `g` has to go. 2 - s stands for
    1 / s, which is next to 1: rows that are masked altogether have no shares."""
    (dot,) = b.reduces(
        "sum",
        [dim],
        g,
        y,
        body=lambda g, y: (g * y, y),
        post=lambda d, s, *_: (d * (2.0 - s),),
        keepdim=True,
        suffixes=("dot",),
    )
    return dot


@covers(aten._log_softmax.default)
def log_softmax(b: Builder, x: View, dim: int, _half: bool) -> View:
    if not x.shape:
        return b.fill((), 0, b.dtype(x))
    top = b.reduce("max", [dim], x, keepdim=True, suffix="max")
    total = b.reduce(
        "sum",
        [dim],
        x,
        top,
        body=lambda x, m: call("exp", x - m),
        post=lambda s: call("log", s),
        keepdim=True,
        suffix="logsum",
    )
    return b.map(lambda x, m, s: (x - m) - s, x, top, total)


@covers(aten._log_softmax_backward_data.default)
def log_softmax_backward(b: Builder, g: View, y: View, dim: int, _dtype: Any) -> View:
    if not y.shape:
        return b.fill((), 0, b.dtype(y))
    total = b.reduce("sum", [dim], g, keepdim=True, suffix="sum")
    return b.map(lambda g, y, s: g - call("exp", y) * s, g, y, total)


@covers(aten.logsumexp.default)
def logsumexp(b: Builder, x: View, dims: list[int], keepdim: bool = False) -> View:
    top = b.reduce("max", dims, x, keepdim=True, suffix="max")
    top = b.map(lambda m: select(call("abs", m) < math.inf, m, 0.0), top)  # infinities take themselves along
    total = b.reduce(
        "sum", dims, x, top, body=lambda x, m: call("exp", x - m), post=lambda s: call("log", s), keepdim=True
    )
    out = b.map(lambda s, m: s + m, total, top)
    return out if keepdim else b.reshape(out, tuple(b.meta.shape))
