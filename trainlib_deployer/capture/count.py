"""Numbers of Python that an optimizer computes from the count of its steps, as formulas of that and the learning rate.

The count is given to it as a number that remembers: what is computed from it is known again by its value, where that
has become a constant of the trace.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn
from unittest import mock


@dataclass(frozen=True)
class Line:
    """offset + slope * learning rate."""

    offset: float
    slope: float = 0.0


@dataclass(frozen=True)
class Count:
    """The number of updates before this one."""


@dataclass(frozen=True)
class Made:
    operation: str
    operands: tuple[Formula, ...]


Formula = Line | Count | Made
OPERATIONS: Mapping[str, Callable[..., float]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "pow": operator.pow,
    "neg": operator.neg,
    "sqrt": math.sqrt,
    "exp": math.exp,
}


def value_of(formula: Formula, rate: float, count: float) -> float:
    match formula:
        case Line(offset, slope):
            return offset + slope * rate
        case Count():
            return count
        case Made(operation, operands):
            return OPERATIONS[operation](*(value_of(f, rate, count) for f in operands))


@dataclass
class Known:
    """All numbers that came of a count, by their values."""

    formulas: dict[float, Formula] = field(default_factory=dict)

    def counted(self, value: float, formula: Formula) -> Counted:
        self.formulas.setdefault(value, formula)
        return Counted(value, formula, self)


class Counted(float):
    """A number that knows how it came of the count, and decides nothing."""

    formula: Formula
    known: Known

    def __new__(cls, value: float, formula: Formula, known: Known) -> Counted:
        made = super().__new__(cls, value)
        made.formula, made.known = formula, known
        return made

    def made(self, operation: str, *operands: Any) -> Any:
        if not all(isinstance(x, int | float) for x in operands):
            return NotImplemented
        values, formulas = [float(x) for x in operands], tuple(map(formula_of, operands))
        return self.known.counted(OPERATIONS[operation](*values), Made(operation, formulas))

    def __add__(self, other: Any) -> Any:
        return self.made("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return self.made("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return self.made("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self.made("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return self.made("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self.made("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return self.made("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self.made("div", other, self)

    def __pow__(self, other: Any, mod: None = None) -> Any:
        return self.made("pow", self, other)

    def __rpow__(self, other: Any, mod: None = None) -> Any:
        return self.made("pow", other, self)

    def __neg__(self) -> Any:
        return self.made("neg", self)

    def deciding(self, *others: Any) -> NoReturn:
        raise TypeError("the count of its steps decides what it does")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __int__ = deciding
    __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = __round__ = __floor__ = __ceil__ = deciding
    __hash__ = float.__hash__


def formula_of(x: float) -> Formula:
    return x.formula if isinstance(x, Counted) else Line(float(x))


@contextlib.contextmanager
def functions_that_remember() -> Iterator[None]:
    """Those of `math` that optimizers call."""

    def remembering(name: str, usual: Callable[..., float]) -> Callable[..., float]:
        def function(*given: float) -> float:
            counted = next((x for x in given if isinstance(x, Counted)), None)
            return usual(*given) if counted is None else counted.made(name, *given)

        return function

    with contextlib.ExitStack() as stack:
        for name in ("sqrt", "exp", "pow"):
            stack.enter_context(mock.patch.object(math, name, remembering(name, getattr(math, name))))
        yield


def along_the_rate(one: Formula, other: Formula, rates: Sequence[float]) -> Formula | None:
    """The formula of which these are what it is at two rates; None if they are made in different ways."""
    if isinstance(one, Line) and isinstance(other, Line):
        slope = (other.offset - one.offset) / (rates[1] - rates[0])
        return Line(round(one.offset - slope * rates[0], 12), round(slope, 12)) if slope else one
    if isinstance(one, Made) and isinstance(other, Made) and one.operation == other.operation:
        operands = [along_the_rate(a, b, rates) for a, b in zip(one.operands, other.operands, strict=True)]
        return Made(one.operation, tuple(f for f in operands if f is not None)) if all(operands) else None
    return one if one == other else None
