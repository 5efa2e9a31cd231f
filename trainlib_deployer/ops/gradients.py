"""What happens to gradients between the backward and the optimizer: accumulation over samples, clipping."""

from __future__ import annotations

from trainlib_deployer.ops.build import Builder, Where
from trainlib_deployer.ops.update import entitle, folded, state
from trainlib_deployer.program.expr import Expr, Operand, apply, call, select
from trainlib_deployer.program.ir import DType, View

Gradients = dict[str, View]


def accumulated(b: Builder, gradients: Gradients, step: View, count: int, share: float) -> Gradients:
    """The mean over `count` samples, to which each gives this share of its gradient, as far as it has come: each
    round's first sample overwrites the sum."""
    b.where = Where("accumulate", "", "accumulate")
    first = b.map(lambda s: apply("remainder", [s, count]).equals(0), step, dtype=DType.I32, shape=(), suffix="first")
    entitle(b, "net", "accumulate, a new round begins")
    sums = {}
    for name, gradient in gradients.items():
        b.where = Where("accumulate", name.rpartition(".")[0], "accumulate")
        total = state(b, f"{name}.accumulated", gradient.shape)

        def body(g: Expr, begins: Expr, before: Expr) -> Operand:
            own = g * share
            return select(begins.equals(1), own, before + own)

        b.map(body, gradient, first, total, shape=gradient.shape, into=total)
        entitle(b, name, "accumulate")
        sums[name] = total
    return sums


def clipped_by_value(b: Builder, gradients: Gradients, limit: float) -> Gradients:
    """torch.nn.utils.clip_grad_value_."""
    out = {}
    for name, gradient in gradients.items():
        b.where = Where("update", name.rpartition(".")[0], "clip_grad_value")
        out[name] = b.map(lambda g: call("min", call("max", g, -limit), limit), gradient)
        entitle(b, name, "clip_grad_value")
    return out


def clipped_by_norm(b: Builder, gradients: Gradients, limit: float) -> Gradients:
    """torch.nn.utils.clip_grad_norm_: one factor, min(1, limit / (norm of all gradients + 1e-6))."""
    squares = [square_sum(b, name, gradient) for name, gradient in gradients.items()]
    b.where = Where("update", "", "clip_grad_norm")
    whole = folded(b, squares, lambda t, u: t + u, "square_sum", "clip_grad_norm, sum of squares")
    factor = b.map(lambda t: call("min", limit / (call("sqrt", t) + 1e-6), 1.0), whole, shape=(), suffix="factor")
    entitle(b, "net", "clip_grad_norm, factor")
    out = {}
    for name, gradient in gradients.items():
        b.where = Where("update", name.rpartition(".")[0], "clip_grad_norm")
        out[name] = b.map(lambda g, c: g * c, gradient, factor, shape=gradient.shape)
        entitle(b, name, "clip_grad_norm")
    return out


def square_sum(b: Builder, name: str, gradient: View) -> View:
    b.where = Where("update", name.rpartition(".")[0], "clip_grad_norm")
    if gradient.shape:
        made = b.reduce("sum", (), gradient, body=lambda g: g * g, suffix="square_sum")
    else:
        made = b.map(lambda g: g * g, gradient, suffix="square_sum")
    entitle(b, name, "clip_grad_norm, sum of squares")
    return made
