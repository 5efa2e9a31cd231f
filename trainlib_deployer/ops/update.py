"""What the rules of optimizers are written with: a group's settings, states that stay, and loops over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any
from zlib import crc32

import numpy as np

from trainlib_deployer.ops.build import Builder, Where
from trainlib_deployer.ops.random import Words, words
from trainlib_deployer.program.expr import Expr, Operand
from trainlib_deployer.program.ir import DType, Role, Tensor, View

Hyper = Mapping[str, Any]
Formula = Callable[..., Sequence[Operand]]
TERMS = 8  # numbers that one operation joins


@dataclass(frozen=True)
class Parameter:
    """What a rule updates: the parameter and its gradient, both dense."""

    name: str
    value: View
    gradient: View

    @property
    def layer(self) -> str:
        return self.name.rpartition(".")[0]


@dataclass
class Group:
    """Parameters under the same settings, and the run-time scalars they share."""

    hyper: Hyper
    lr: View
    step: View  # updates so far
    index: int
    scheduled: View | None = None  # the momentum that the caller gives to each update
    drawn: View | None = None  # the number of samples so far, which random numbers are drawn by
    halves: frozenset[str] = frozenset()  # parameters that are rounded up or down by chance

    @property
    def momentum(self) -> View | float:
        return float(self.hyper.get("momentum", 0.0)) if self.scheduled is None else self.scheduled

    @property
    def betas(self) -> tuple[View | float, float]:
        """A scheduler's momentum is the first."""
        first, second = betas_of(self.hyper)
        return first if self.scheduled is None else self.scheduled, second

    @property
    def function(self) -> str:
        return str(self.hyper["kind"]).lower()


def betas_of(h: Hyper) -> tuple[float, float]:
    first, second = h.get("betas", (0.9, 0.999))
    return float(first), float(second)


def state(b: Builder, name: str, shape: tuple[int, ...], value: float = 0.0) -> View:
    """A tensor that lives from step to step."""
    tensor = Tensor(b.fresh(name), shape, DType.F32, Role.STATE, b.where.layer, b.where.source)
    b.program.tensors[tensor.name] = tensor
    b.program.values[tensor.name] = np.full(shape, value, np.float32)
    return View.whole(tensor)


def update(
    b: Builder,
    group: Group,
    q: Parameter,
    labels: Sequence[str],
    formula: Formula,
    *extra: View | float,
    initial: Mapping[str, float] | None = None,
) -> None:
    """One loop: formula(p, g, lr, extra..., states...) gives the new (p, states...); numbers in `extra` are constants
    of the loop."""
    b.where = Where("update", q.layer, group.function)
    states = [state(b, f"{q.name}.{label}", q.value.shape, (initial or {}).get(label, 0.0)) for label in labels]
    into = [q.value, *states]
    given = [q.value, q.gradient, group.lr, *extra, *states]
    formula = with_numbers(formula, given)
    reads, shape = [v for v in given if isinstance(v, View)], q.value.shape
    if q.name in group.halves:
        numbers = numbers_of(b, group, q)
        fine, count = numbers.shape, len(reads)
        reads = [b.reshape(v, fine) if v.shape == shape else v for v in reads]
        into, shape, formula = [b.reshape(v, fine) for v in into], fine, by_chance(formula, numbers, count)
        reads += numbers.reads
    b.maps(formula, *reads, dtypes=(None,) * len(into), shape=shape, into=into)
    entitle(b, q.name, group.function)


def numbers_of(b: Builder, group: Group, q: Parameter) -> Words:
    """The random numbers by which a parameter is rounded in this update."""
    assert group.drawn is not None
    return words(b, group.drawn, q.value.shape, crc32(q.name.encode()))


def by_chance(formula: Formula, numbers: Words, count: int) -> Formula:
    """The first result becomes a half, as often the one above as it is near to it. The formula takes so many values."""

    def rounded(*values: Expr) -> Sequence[Operand]:
        first, *others = formula(*values[:count])
        return values[0].body.add("nearby_half", DType.F32, first, numbers.word(*values[count:])), *others

    return rounded


def write(b: Builder, group: Group, q: Parameter, made: View) -> None:
    """The new parameter as it is kept."""
    if q.name not in group.halves:
        b.copy_into(b.reshape(made, q.value.shape), q.value)
        return
    numbers = numbers_of(b, group, q)
    formula = by_chance(lambda v: (v,), numbers, 1)
    b.maps(
        formula,
        b.reshape(made, numbers.shape),
        *numbers.reads,
        shape=numbers.shape,
        into=(b.reshape(q.value, numbers.shape),),
    )


def with_numbers(formula: Formula, given: Sequence[View | float]) -> Formula:
    """The formula of the tensors in `given` alone."""

    def of_tensors(*values: Expr) -> Sequence[Operand]:
        rest = iter(values)
        return formula(*(next(rest) if isinstance(v, View) else v for v in given))

    return of_tensors


def entitle(b: Builder, subject: str, function: str) -> None:
    """Name the newest operation for people: `stack1.conv1.weight: sgd`."""
    b.program.ops[-1] = replace(b.program.ops[-1], name=f"{subject}: {function}")


def folded(
    b: Builder, parts: Sequence[View], join: Callable[[Expr, Expr], Operand], suffix: str, function: str
) -> View:
    """One number of many, a few at a time."""
    while len(parts) > 1:
        groups = [parts[i : i + TERMS] for i in range(0, len(parts), TERMS)]
        parts = [joined(b, g, join, suffix, function) if len(g) > 1 else g[0] for g in groups]
    return parts[0]


def joined(
    b: Builder, parts: Sequence[View], join: Callable[[Expr, Expr], Operand], suffix: str, function: str
) -> View:
    made = b.map(lambda *terms: reduce(join, terms), *parts, shape=(), suffix=suffix)
    entitle(b, "net", function)
    return made


def scalars(
    b: Builder,
    group: Group,
    what: str,
    formula: Formula,
    reads: Sequence[View | float],
    states: Mapping[str, float],
    results: int = 0,
) -> tuple[View, ...]:
    """Numbers that all parameters of a group share: formula(reads..., states...) gives (results..., new states...)."""
    b.where = Where("update", "", group.function)
    kept = [state(b, f"group{group.index}.{label}", (), value) for label, value in states.items()]
    into = [*[None] * results, *kept]
    given = [v for v in reads if isinstance(v, View)]
    formula = with_numbers(formula, [*reads, *kept])
    written = b.maps(formula, *given, *kept, dtypes=(None,) * len(into), shape=(), into=into, suffix=what)
    entitle(b, f"group {group.index}", f"{group.function}, {what.replace('_', ' ')}")
    return written
