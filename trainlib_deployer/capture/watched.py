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

import torch

from trainlib_deployer.capture.other_values import LONGEST
from trainlib_deployer.capture.user_line import user_line
from trainlib_deployer.program.ir import Source

Line = tuple[str, int]
Turned = tuple[Line, int | None]
ONE_BY_ONE = 3  # answers of a line that are turned alone
TURNED = 100  # answers of a line that are turned together: a loop would not end
COMPARISONS = ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "__bool__", "is_integer")
UNARY = ("neg", "pos", "abs", "invert", "round", "floor", "ceil", "trunc")
BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "and", "or", "xor", "lshift", "rshift")
STORED = {dis.opmap.get(n) for n in ("STORE_SUBSCR", "BUILD_MAP", "BUILD_SET", "MAP_ADD", "SET_ADD")}
WRITTEN = ("__str__", "__repr__", "__format__")
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
    told: int | float | None = (
        None  # what a number is from where it is looked up or written out, which shows no more of it
    )
    lines: dict[Line, Decided] = field(default_factory=dict)
    asked: dict[Line, Source | None] = field(default_factory=dict)  # lines on which that happened
    lengths: set[int] = field(default_factory=set)  # containers whose lengths are watched, by id
    wanted: dict[int, set[int]] = field(default_factory=dict)  # by how much these would be longer to equal something

    def answer(self, frame: FrameType, outcome: bool) -> bool:
        line = frame.f_code.co_filename, frame.f_lineno
        if line not in self.lines:
            self.lines[line] = Decided(user_line(frame))
        decided = self.lines[line]
        decided.times += 1
        each = self.turned == (line, None) and decided.times <= TURNED
        return outcome != (each or self.turned == (line, decided.times - 1))

    def tell(self, frame: FrameType, number: Any) -> Any:
        """What is looked up, or written out; it stays so, as lines that follow rely on that."""
        line = frame.f_code.co_filename, frame.f_lineno
        if line not in self.asked:
            self.asked[line] = user_line(frame)
        if self.told is not None:
            number.became = kind_of(number)(self.told)
        return unwatched(number)

    def measure(self, number: Any, others: Sequence[Any]) -> None:
        """How long something would have to be for another answer."""
        more = (o - unwatched(number) for o in map(unwatched, others) if type(o) in (int, float) and abs(o) < LONGEST)
        self.wanted.setdefault(number.length_of, set()).update(int(m) for m in more)


def watching(kind: type) -> type:
    """Numbers of this kind that tell where they are compared, and so does what is calculated from them."""

    def comparison(name: str) -> Callable[..., Any]:
        def compare(self: Any, *others: Any) -> Any:
            number, frame = unwatched(self), sys._getframe(1)
            outcome = getattr(kind, name)(number, *map(unwatched, others))
            if outcome is NotImplemented:
                outcome = getattr(float, name)(float(number), *map(unwatched, others))
            if outcome is NotImplemented or self.hashed == (id(frame), frame.f_lasti):
                return outcome  # at the end of a search by its hash, which was told what to look for
            if self.within is not None and all(beyond(o, *self.within) for o in others):
                return outcome
            if self.length_of is not None:
                self.decisions.measure(self, others)
                return outcome
            return self.decisions.answer(frame, outcome)

        return compare

    def calculation(name: str) -> Callable[..., Any]:
        def calculate(self: Any, *others: Any) -> Any:
            number = unwatched(self)
            result = getattr(kind, name)(number, *map(unwatched, others))
            if result is NotImplemented and isinstance(others[0], float) and hasattr(float, name):
                result = getattr(float, name)(float(number), *map(unwatched, others))
            return watched(result, self.decisions)

        return calculate

    def written(name: str) -> Callable[..., str]:
        def write(self: Any, *form: Any) -> str:
            return getattr(kind, name)(self.decisions.tell(sys._getframe(1), self), *form)  # type: ignore[no-any-return]

        return write

    def looked_up(self: Any) -> int:
        frame = sys._getframe(1)
        if frame.f_code.co_code[frame.f_lasti] in STORED:
            return hash(unwatched(self))
        self.hashed = id(frame), frame.f_lasti
        return hash(self.decisions.tell(frame, self))

    made = {n: comparison(n) for n in COMPARISONS} | {n: calculation(n) for n in CALCULATIONS}
    own = {n: method for n, method in made.items() if hasattr(kind, n)} | {n: written(n) for n in WRITTEN}
    start = {"became": None, "hashed": None, "length_of": None, "within": None}
    return type(f"Watched{kind.__name__}", (kind,), own | start | {"__hash__": looked_up})


WATCHING = {kind: watching(kind) for kind in (int, float)}
WATCHED = {made: kind for kind, made in WATCHING.items()}


def watched(value: Any, decisions: Decisions) -> Any:
    if isinstance(value, tuple) and type(value) is not torch.Size:
        return of_each(lambda v: watched(v, decisions), value)
    if type(value) not in WATCHING:
        return value
    made = WATCHING[type(value)](value)
    made.decisions = decisions
    return made


def unwatched(value: Any) -> Any:
    if isinstance(value, tuple) and type(value) is not torch.Size:
        return of_each(unwatched, value)
    kind = kind_of(value)
    if kind is None:
        return value
    return kind(value) if value.became is None else value.became


def of_each(make: Callable[[Any], Any], values: Any) -> Any:
    each = [make(v) for v in values]
    return type(values)(*each) if hasattr(values, "_fields") else type(values)(each)


def beyond(other: Any, low: float, high: float) -> bool:
    """A number with which nothing between compares in another way."""
    return isinstance(other, int | float) and not low < other < high


def kind_of(value: Any) -> Any:
    """Of which it is a number that is watched."""
    return WATCHED.get(type(value))


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
        if id(thing) not in decisions.lengths:
            return len(thing)
        made = watched(len(thing), decisions)
        made.length_of = id(thing)
        return made

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
