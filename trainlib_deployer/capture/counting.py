"""Numbers in attributes that go on from step to step, which a deployed step does not carry along: what a count of steps
will decide, only later steps would show. So a third step is run with such numbers as others, and each comparison with
them the other way round."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from types import FrameType
from typing import Any

import torch

from golden.borrow import uncompiled
from golden.precision import InOrder, one_thread
from golden.snapshot import Snapshot
from trainlib_deployer.capture import remedies
from trainlib_deployer.capture.eager import EagerStep, advance, differ, held, plain_values, step
from trainlib_deployer.capture.trace import mkldnn_off
from trainlib_deployer.capture.user_line import user_line
from trainlib_deployer.errors import Unsupported
from trainlib_deployer.program.ir import Source
from trainlib_deployer.user.model import UserModel, trainable
from trainlib_deployer.user.trial import quiet

LOSS = "(1)."  # what the paths of its attributes begin with
Line = tuple[str, int]
Turned = tuple[Line, int | None]
ONE_BY_ONE = 3  # answers of a line that are turned alone
COMPARISONS = ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "__bool__", "is_integer")
UNARY = ("neg", "pos", "abs", "invert", "round", "floor", "ceil", "trunc")
BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "and", "or", "xor", "lshift", "rshift")
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

    def answer(self, frame: FrameType, outcome: bool) -> bool:
        line = frame.f_code.co_filename, frame.f_lineno
        decided = self.lines.setdefault(line, Decided(user_line(frame)))
        decided.times += 1
        return outcome != (self.turned in ((line, None), (line, decided.times - 1)))


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

    made = {n: comparison(n) for n in COMPARISONS} | {n: calculation(n) for n in CALCULATIONS}
    own = {n: method for n, method in made.items() if hasattr(kind, n)}
    return type(f"Watched{kind.__name__}", (kind,), own | {"__hash__": kind.__hash__})


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


# ---- what depends on them


@dataclass(frozen=True)
class Run:
    """What a step computed and left, and the comparisons on its way."""

    tensors: Mapping[Any, torch.Tensor]
    plain: Mapping[str, Any]
    lines: Mapping[Line, Decided]

    def agrees(self, other: Run) -> bool:
        same = self.tensors.keys() == other.tensors.keys()
        return same and not any(differ(t, other.tensors[k]) for k, t in self.tensors.items())


@dataclass(frozen=True)
class Variant:
    """A step with another value of an attribute, or with the comparisons on a line the other way round."""

    names: tuple[str, ...]
    values: Mapping[str, Any]
    turned: Turned | None = None
    source: Source | None = None
    floats: bool = False  # in place of integers

    def refusal(self) -> Unsupported:
        what = ", ".join(f"'{n.removeprefix(LOSS)}'" for n in sorted(self.names))
        return Unsupported(
            f"forward or loss changes {what} from step to step, and results depend on it: "
            "a deployed step carries tensors along, no numbers of Python",
            source=self.source,
            remedy=remedies.COUNTED,
        )


def changing(steps: Sequence[EagerStep]) -> dict[str, Any]:
    """Numbers and the like that the second step leaves otherwise than the first one, and what they may be later."""
    first, second = steps[0].plain, steps[1].plain
    return {n: other(first[n], now) for n, now in second.items() if n in first and apart(first[n], now)}


def check_counting(user: UserModel, steps: Sequence[EagerStep]) -> None:
    """Refuse what numbers that go on will change in the results, in some later step."""
    others = changing(steps)
    if not others:
        return
    with user.start.undone():
        advance(user, 2, update=False)
        third = Third(user, Snapshot(user.module, user.loss, like=user.start))
        while others:
            others = third.depends_on(others)


@dataclass
class Third:
    """The third step from the same beginning, as often as one likes."""

    user: UserModel
    start: Snapshot
    seen: set[str] = field(default_factory=set)

    def depends_on(self, others: Mapping[str, Any]) -> dict[str, Any]:
        """Refuse if results depend on numbers that change; else what else they decide about, and its other value."""
        self.seen |= set(others)
        usual = self.run({})
        changed = [Variant((name,), {name: value}) for name, value in others.items()]
        found = self.differing(usual, [*turned(usual.lines, others), *changed])
        if (more := self.in_floats(usual)) is not None:
            lines = {line: decided for line, decided in more.lines.items() if line not in usual.lines}
            found |= self.differing(more, turned(lines, others, floats=True))
        return {n: v for n, v in found.items() if n in self.start.plain and n not in self.seen}

    def in_floats(self, usual: Run) -> Run | None:
        """With floats for integers, where nothing hangs on the type: a float on the left asks no integer, whatever its
        class, how to multiply or compare."""
        with contextlib.suppress(Exception):
            run = self.run({}, floats=True)
            return run if run.agrees(usual) else None
        return None

    def differing(self, usual: Run, variants: Sequence[Variant]) -> dict[str, Any]:
        """Attributes that a variant leaves otherwise, and how; nothing else may be different."""
        found: dict[str, Any] = {}
        for variant in variants:
            try:
                run = self.run(variant.values, variant.turned, variant.floats)
            except Exception:  # what does not work with another value depends on it
                raise variant.refusal() from None
            if not run.agrees(usual):
                raise variant.refusal()
            found |= {n: v for n, v in run.plain.items() if apart(usual.plain.get(n), v)}
        return found

    def run(self, values: Mapping[str, Any], turned: Turned | None = None, floats: bool = False) -> Run:
        user, decisions = self.user, Decisions(turned)
        with self.start.undone(), quiet(), one_thread(), uncompiled(), mkldnn_off(), InOrder(), torch.enable_grad():
            user.module.zero_grad(set_to_none=True)
            for name in self.seen:
                place = self.start.plain[name]
                value = values.get(name, place.value)
                value = float(value) if floats and type(value) is int else value
                place.container[place.key] = watched(value, decisions)
            results = step(user, 2, trainable(user.module) if user.trains else {})
            after, now = held(user, self.start)
            plain = plain_values(user, now)
        return Run({**results, **after}, plain, decisions.lines)


def turned(lines: Mapping[Line, Decided], names: Iterable[str], floats: bool = False) -> list[Variant]:
    return [
        Variant(tuple(names), {}, (line, which), decided.source, floats)
        for line, decided in lines.items()
        for which in decided.others
    ]


def apart(a: Any, b: Any) -> bool:
    nowhere = isinstance(a, float) and isnan(a)
    return type(a) is not type(b) or not (a == b or nowhere)


def other(before: Any, now: Any) -> Any:
    """A value that a later step may find there."""
    if isinstance(now, bool) or not isinstance(now, int | float):
        return before
    return 1000 * now + 7 if isinstance(now, int) else 0.5 * now + 0.25
