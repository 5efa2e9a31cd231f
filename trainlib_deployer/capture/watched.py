"""Numbers that tell where they are compared, and so does what is calculated from them: what a count of steps will
decide in some later step shows on such a line."""

from __future__ import annotations

import contextlib
import dis
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from trainlib_deployer.capture.user_line import user_line
from trainlib_deployer.program.ir import Source

Line = tuple[str, int]
Turned = tuple[Line, int | None]
ONE_BY_ONE = 3  # answers of a line that are turned alone
COMPARISONS = ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "__bool__", "is_integer")
UNARY = ("neg", "pos", "abs", "invert", "round", "floor", "ceil", "trunc")
BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "and", "or", "xor", "lshift", "rshift")
LOOKED_UP = {dis.opmap.get(n) for n in ("CONTAINS_OP", "BINARY_SUBSCR")}
CALCULATIONS = tuple(f"__{n}__" for n in (*UNARY, *BINARY, *(f"r{n}" for n in BINARY)))


@dataclass
class Decided:
    """A line on which numbers that are watched were compared, and how often."""

    source: Source | None
    times: int = 0

    @property
    def others(self) -> Sequence[int | None]:
        """Which of its answers to turn: all, then one by one. `10 < n < 12` is what it was if both are turned."""
        return None, *range(min(self.times, ONE_BY_ONE))


@dataclass
class Decisions:
    """All such lines; one answer on one of them, or each there, is the other one."""

    turned: Turned | None = None
    lines: dict[Line, Decided] = field(default_factory=dict)
    longer: dict[int, int] = field(default_factory=dict)  # containers that grow, by id, and by how much they do here

    def answer(self, frame: FrameType, outcome: bool) -> bool:
        line = frame.f_code.co_filename, frame.f_lineno
        decided = self.lines.setdefault(line, Decided(user_line(frame)))
        decided.times += 1
        return outcome != (self.turned in ((line, None), (line, decided.times - 1)))

    def look_up(self, frame: FrameType) -> None:
        """In a set or a dict, of which nobody knows what it has for other numbers."""
        if frame.f_code.co_code[frame.f_lasti] in LOOKED_UP and self.answer(frame, False):
            raise KeyError


def watching(kind: type) -> type:
    """Numbers of this kind that tell where they are compared, and so does what is calculated from them."""

    def comparison(name: str) -> Callable[..., Any]:
        def compare(self: Any, *others: Any) -> Any:
            outcome = getattr(kind, name)(self, *map(unwatched, others))
            if outcome is NotImplemented:
                outcome = getattr(float, name)(float(self), *map(unwatched, others))
            return outcome if outcome is NotImplemented else self.decisions.answer(sys._getframe(1), outcome)

        return compare

    def calculation(name: str) -> Callable[..., Any]:
        def calculate(self: Any, *others: Any) -> Any:
            result = getattr(kind, name)(self, *map(unwatched, others))
            if result is NotImplemented and isinstance(others[0], float) and hasattr(float, name):
                result = getattr(float, name)(float(self), *map(unwatched, others))
            return watched(result, self.decisions)

        return calculate

    def looked_up(self: Any) -> int:
        self.decisions.look_up(sys._getframe(1))
        return hash(unwatched(self))

    made = {n: comparison(n) for n in COMPARISONS} | {n: calculation(n) for n in CALCULATIONS}
    own = {n: method for n, method in made.items() if hasattr(kind, n)}
    return type(f"Watched{kind.__name__}", (kind,), own | {"__hash__": looked_up})


WATCHING = {kind: watching(kind) for kind in (int, float)}


def watched(value: Any, decisions: Decisions) -> Any:
    if isinstance(value, tuple):
        return tuple(watched(v, decisions) for v in value)
    if type(value) not in WATCHING:
        return value
    made = WATCHING[type(value)](value)
    made.decisions = decisions
    return made


def unwatched(value: Any) -> Any:
    kind = next((k for k, w in WATCHING.items() if isinstance(value, w)), None)
    return value if kind is None else kind(value)


# ---- what is called with them


class Converting(type):
    """In place of `int` or `float`: what it makes of a number that is watched is watched."""

    kind: Any

    def __call__(cls, *given: Any, **more: Any) -> Any:
        made = cls.kind(*map(unwatched, given), **more)
        decisions = next((v.decisions for v in given if type(v) in WATCHING.values()), None)
        return made if decisions is None else watched(made, decisions)

    def __instancecheck__(cls, thing: object) -> bool:
        return isinstance(thing, cls.kind)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls.kind)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.kind, name)


CONVERTING = {kind.__name__: Converting(kind.__name__, (), {"kind": kind}) for kind in WATCHING}


@contextlib.contextmanager
def followed(spaces: Iterable[dict[str, Any]], decisions: Decisions) -> Iterator[None]:
    """Have files call functions that lose no watch."""

    def length(thing: Any) -> Any:
        more = decisions.longer.get(id(thing))
        return len(thing) if more is None else watched(len(thing) + more, decisions)

    put = [(space, n, f) for space in spaces for n, f in {**CONVERTING, "len": length}.items() if n not in space]
    for space, name, function in put:
        space[name] = function
    try:
        yield
    finally:
        for space, name, _ in put:
            del space[name]


@dataclass
class Counting:
    """An itertools.count whose numbers are watched."""

    next: Any
    step: Any

    def __iter__(self) -> Counting:
        return self

    def __next__(self) -> Any:
        now, self.next = self.next, self.next + self.step
        return now
