"""Numbers in attributes and the like that go on from step to step, which a deployed step does not carry along: what a
count of steps will decide, only later steps would show. So a third step is run with such numbers as others, and each
comparison with them the other way round."""

from __future__ import annotations

import contextlib
import dis
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from typing import Any

import torch

from golden.borrow import uncompiled
from golden.containers import LENGTH, Count, is_iterator
from golden.precision import InOrder, one_thread
from golden.snapshot import Snapshot
from trainlib_deployer.capture import remedies
from trainlib_deployer.capture.eager import EagerStep, advance, differ, held, plain_values, step
from trainlib_deployer.capture.trace import mkldnn_off
from trainlib_deployer.capture.watched import Counting, Decided, Decisions, Line, Turned, followed, watched
from trainlib_deployer.errors import Unsupported
from trainlib_deployer.program.ir import Source
from trainlib_deployer.user.model import UserModel, trainable
from trainlib_deployer.user.trial import quiet

RAISE = dis.opmap["RAISE_VARARGS"]
LOSS = "(1)."  # what the paths of its attributes begin with


@dataclass(frozen=True)
class Way:
    """How numbers are watched, which some networks notice."""

    floats: bool = False  # in place of integers: one on the left asks no integer, whatever its class, what to do
    calls: bool = False  # through `int`, `float` and `len`


WATCHED = Way()
WAYS = (Way(floats=True), Way(calls=True))


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
    way: Way = WATCHED

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
    return {
        n: other(first[n], now)
        for n, now in second.items()
        if n in first and (apart(first[n], now) or is_iterator(now))
    }


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
        numbers = [name for name, value in others.items() if not is_iterator(value)]
        found = self.differing(usual, [*turned(usual.lines, numbers), *changed])
        for way in WAYS:
            if (more := self.alike(usual, way)) is not None:
                lines = {line: decided for line, decided in more.lines.items() if line not in usual.lines}
                again = [
                    replace(v, way=way) for v in changed if way.calls and self.start.plain[v.names[0]].key is LENGTH
                ]
                found |= self.differing(more, [*turned(lines, numbers, way), *again])
        return {n: v for n, v in found.items() if n in self.start.plain and n not in self.seen}

    def alike(self, usual: Run, way: Way) -> Run | None:
        """The step with numbers watched in this way, where nothing hangs on that."""
        with contextlib.suppress(Exception):
            run = self.run({}, way=way)
            return run if run.agrees(usual) else None
        return None

    def differing(self, usual: Run, variants: Sequence[Variant]) -> dict[str, Any]:
        """Attributes that a variant leaves otherwise, and how; nothing else may be different."""
        found: dict[str, Any] = {}
        for variant in variants:
            try:
                run = self.run(variant.values, variant.turned, variant.way)
            except Exception as err:  # what does not work with another value depends on it
                if variant.turned is not None and raised_in(variant.turned[0][0], err):
                    continue  # where the user's code ends, no results are other ones
                raise variant.refusal() from None
            if not run.agrees(usual):
                raise variant.refusal()
            found |= {n: v for n, v in run.plain.items() if apart(usual.plain.get(n), v)}
        return found

    def run(self, values: Mapping[str, Any], turned: Turned | None = None, way: Way = WATCHED) -> Run:
        user, decisions = self.user, Decisions(turned)
        with self.start.undone(), quiet(), one_thread(), uncompiled(), mkldnn_off(), InOrder(), torch.enable_grad():
            user.module.zero_grad(set_to_none=True)
            for name in self.seen:
                self.put(name, values, decisions, way)
            with followed(self.start.spaces.values() if way.calls else (), decisions):
                results = step(user, 2, trainable(user.module) if user.trains else {})
            after, now = held(user, self.start)
            plain = plain_values(user, now)
        return Run({**results, **after}, plain, decisions.lines)

    def put(self, name: str, values: Mapping[str, Any], decisions: Decisions, way: Way) -> None:
        """The value in its place, watched."""
        place = self.start.plain[name]
        value = values.get(name, place.value)
        if place.key is LENGTH:
            decisions.longer[id(place.container)] = value - place.value
        elif isinstance(value, Count):
            place.container[place.key] = Counting(watched(value.next, decisions), value.step)
        else:
            value = float(value) if way.floats and type(value) is int else value
            place.container[place.key] = watched(value, decisions)


def turned(lines: Mapping[Line, Decided], names: Iterable[str], way: Way = WATCHED) -> list[Variant]:
    return [
        Variant(tuple(names), {}, (line, which), decided.source, way)
        for line, decided in lines.items()
        for which in decided.others
    ]


def raised_in(file: str, err: Exception) -> bool:
    """By a statement there, `raise` or `assert`; what else fails may lack what an earlier step would have made."""
    *_, (frame, _) = traceback.walk_tb(err.__traceback__)
    return frame.f_code.co_filename == file and frame.f_code.co_code[frame.f_lasti] == RAISE


def apart(a: Any, b: Any) -> bool:
    nowhere = isinstance(a, float) and isnan(a)
    return type(a) is not type(b) or not (a == b or nowhere)


def other(before: Any, now: Any) -> Any:
    """A value that a later step may find there."""
    if isinstance(now, Count):
        return Count(other(before.next, now.next), now.step)
    if is_iterator(now):
        return iter(())
    if isinstance(now, bool) or not isinstance(now, int | float):
        return before
    return 1000 * now + 7 if isinstance(now, int) else 0.5 * now + 0.25
