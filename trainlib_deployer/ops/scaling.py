"""Loss scaling: the backward pass begins with a factor, which the update takes out again; where a gradient has
overflown the update is left out, as torch.amp.GradScaler does.

All of it are tensors and loops of the step: the factor and what was counted are states, saved and verified like those
of an optimizer. Whether the updates run, the C asks the tensor SKIPPED.
"""

from __future__ import annotations

import numpy as np

from golden.loss_scale import LEAST, MOST, SCALING, LossScale
from trainlib_deployer.ops.build import Builder, Where
from trainlib_deployer.ops.gradients import Gradients
from trainlib_deployer.ops.update import entitle, folded
from trainlib_deployer.program.expr import Expr, Operand, call, select
from trainlib_deployer.program.ir import DType, Role, Tensor, View

SCALE, GOOD, SKIPPED, UPDATES = (f"{SCALING}{label}" for label in ("scale", "good", "skipped", "updates"))


def declare(b: Builder, how: LossScale) -> None:
    for name, dtype, value in (
        (SCALE, DType.F32, how.start),
        (GOOD, DType.I32, 0),
        (SKIPPED, DType.I32, 0),
        (UPDATES, DType.I32, 0),
    ):
        b.program.tensors[b.fresh(name, exact=True)] = Tensor(name, (), dtype, Role.STATE)
        b.program.values[name] = np.full((), value, dtype.numpy_name)


def seed(b: Builder, how: LossScale | None, samples: int) -> View:
    """What the backward pass of each sample of an update begins with."""
    b.where = Where("backward", "loss", "seed")
    if how is None:
        return b.fill((), 1.0 / samples, DType.F32)
    scale = kept(b, SCALE)
    return scale if samples == 1 else b.map(lambda s: s * (1.0 / samples), scale, suffix="share")


def kept(b: Builder, name: str) -> View:
    return View.whole(b.program.tensors[name])


def unscaled(b: Builder, gradients: Gradients, how: LossScale, step: View, accumulate: int) -> Gradients:
    """The gradients for the update, which runs only if all of them are finite."""
    verdicts = [overflown(b, name, gradient) for name, gradient in gradients.items()]
    b.where = Where("accumulate", "", "loss_scale")
    verdict = folded(b, verdicts, lambda t, u: select(u > 0, u, t), "bad", "loss scale, overflow")
    scale, good = kept(b, SCALE), kept(b, GOOD)

    def decided(found: Expr, now: Expr, count: Expr, number: Expr) -> tuple[Operand, ...]:
        """What an update makes of it, in samples that end with one."""
        ends = (number + 1).op("remainder", accumulate).equals(0)
        bad = found > 0
        more = count + 1
        full = more.equals(how.every)
        larger = select(full, select(now >= MOST, now, now * 2.0), now)
        smaller = call("max", now * 0.5, LEAST)
        dynamic = how.every > 0
        return (
            1.0 / now,
            select(ends, bad.cast(DType.I32), 0),
            select(ends, select(bad, smaller, larger), now) if dynamic else now,
            select(ends, select(bad, 0, select(full, 0, more)), count) if dynamic else count,
        )

    into = [None, kept(b, SKIPPED), scale, good]
    types = (DType.F32, DType.I32, DType.F32, DType.I32)
    back, *_ = b.maps(decided, verdict, scale, good, step, dtypes=types, shape=(), into=into, suffix="reciprocal")
    entitle(b, "net", "loss scale")
    out = {}
    for name, gradient in gradients.items():
        b.where = Where("update", name.rpartition(".")[0], "loss_scale")
        out[name] = b.map(lambda g, r: g * r, gradient, back, shape=gradient.shape)
        entitle(b, name, "loss scale")
    return out


def counted(b: Builder) -> None:
    """Behind the updates: there was one more."""
    b.where = Where("update", "", "loss_scale")
    updates = kept(b, UPDATES)
    b.map(lambda n: n + 1, updates, shape=(), into=updates)
    entitle(b, "net", "loss scale, updates")


def overflown(b: Builder, name: str, gradient: View) -> View:
    """Whether an element is infinite or no number: then it less itself is not zero."""

    def bad(g: Expr) -> Operand:
        return (g - g).op("ne", 0.0).cast(DType.I32)

    b.where = Where("accumulate", name.rpartition(".")[0], "loss_scale")
    made = (
        b.reduce("max", (), gradient, body=bad, suffix="bad") if gradient.shape else b.map(bad, gradient, suffix="bad")
    )
    entitle(b, name, "loss scale, overflow")
    return made
