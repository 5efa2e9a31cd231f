"""ReduceLROnPlateau as part of the step: it watches the loss and scales the learning rate that the caller gives."""

from __future__ import annotations

from collections.abc import Sequence

from trainlib_deployer.ops.build import Builder, Where
from trainlib_deployer.ops.update import entitle, state
from trainlib_deployer.program.expr import Expr, Operand, call, select
from trainlib_deployer.program.ir import View
from trainlib_deployer.user.model import Plateau


def on_plateau(b: Builder, rule: Plateau, given: Sequence[tuple[View, float]]) -> list[View]:
    """The learning rate of each group, from what the caller gives for it and what it was deployed with. What this loss
    makes of it counts from the next update on."""
    b.where = Where("update", "", "plateau")
    initial = {"best": rule.best, "bad": float(rule.bad), "cooling": float(rule.cooling)}
    initial |= {f"scale{i}": 1.0 for i in range(len(given))}
    kept = [state(b, f"plateau.{label}", (), value) for label, value in initial.items()]

    def formula(loss: Expr, *values: Expr) -> Sequence[Operand]:
        rates, (best, bad, cooling, *scales) = values[: len(given)], values[len(given) :]
        better = loss < (best * (1.0 - rule.threshold) if rule.relative else best - rule.threshold)
        bad = select(cooling > 0.0, 0.0, select(better, 0.0, bad + 1.0))
        reduced = bad > float(rule.patience)
        now = [rate * scale for rate, scale in zip(rates, scales, strict=True)]
        later = [smaller(scale, rule, i, own) for i, (scale, (_, own)) in enumerate(zip(scales, given, strict=True))]
        return (
            *now,
            select(better, loss, best),
            select(reduced, 0.0, bad),
            select(reduced, float(rule.cooldown), call("max", cooling - 1.0, 0.0)),
            *(select(reduced, less, scale) for less, scale in zip(later, scales, strict=True)),
        )

    views = [View.whole(b.program.tensors[b.program.loss]), *(rate for rate, _ in given), *kept]
    into = [*[None] * len(given), *kept]
    made = b.maps(formula, *views, dtypes=(None,) * len(into), shape=(), into=into, suffix="plateau_rate")
    entitle(b, "learning rate", "reduced on a plateau")
    return list(made[: len(given)])


def smaller(scale: Expr, rule: Plateau, group: int, rate: float) -> Expr:
    """The factor on a group's learning rate after one more reduction; PyTorch leaves out what hardly changes it."""
    less = call("max", scale * rule.factor, rule.smallest[group] / rate)
    return select((scale - less) * rate > rule.change, less, scale)
