"""What else numbers, texts and containers that go on from step to step may be in a later one."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterable, Iterator
from math import isfinite
from numbers import Complex, Number, Rational
from typing import Any

from golden.containers import LENGTH, Count, is_iterator, unlike_any
from golden.snapshot import Snapshot, installed

ROUND = (10, 100, 1000)  # what people count up to and write nowhere: the last digits of a text are zeros
SPREAD = tuple(round(1.5**n) for n in range(3, 20))  # for what they write nowhere at all: an index modulo a length
LONGEST = 1 << 12  # that a container is made: code that goes through it compares that often


def far(before: Any, now: Any, key: Any = None) -> list[Any]:
    """Values that a later step may find there; one after the first is meant for where forward gives up at it."""
    if key is LENGTH:
        return [now + 1007 if on_the_way(before, now, now + 1007) else 0]
    if isinstance(now, Count):
        return [Count(n, now.step) for n in far(before.next, now.next)]
    if is_iterator(now):
        return [iter(())]
    if isinstance(now, bool) or not isinstance(now, Number):
        return [before]
    if isinstance(now, Complex) and not isinstance(now, Rational):
        return [of_type(now, 0.5 * now + 0.25)]  # type: ignore[operator]
    far_off = 999 * abs(int(now)) + 7  # type: ignore[call-overload]
    return [of_type(now, int(now) + (far_off >> halved)) for halved in range(far_off.bit_length())]  # type: ignore[call-overload]


def near(before: Any, now: Any, constant: Any, key: Any = None) -> Any:
    """The value that a later step may find there where it compares, in whatever way, with a constant of the code; None
    where that one is not on the way on which the value goes."""
    if isinstance(now, str) or isinstance(constant, str):
        return constant if isinstance(now, str) and isinstance(constant, str) else None
    if type(now) in (tuple, frozenset) and type(before) is type(now):
        return resized(now, constant) if on_the_way(len(before), len(now), constant) else None
    if isinstance(now, Count):
        return Count(constant, now.step) if on_the_way(before.next, now.next, constant) else None
    if isinstance(now, bool) or not isinstance(now, Number) or (key is LENGTH and constant > LONGEST):
        return None
    return of_type(now, constant) if isinstance(now, complex) or on_the_way(before, now, constant) else None


def on_the_way(before: Any, now: Any, later: Any) -> bool:
    try:
        return bool(later > now) if now > before else bool(later < now)
    except TypeError:
        return False


def of_type(now: Any, value: Any) -> Any:
    try:
        return type(now)(value)
    except (ArithmeticError, TypeError, ValueError):
        return None


def resized(values: Any, length: Any) -> Any:
    """More entries of the same kind, or fewer; None where that cannot be."""
    if not 0 <= length <= LONGEST or length != int(length):
        return None
    if isinstance(values, frozenset):
        return frozenset([*values, *(unlike_any(i) for i in range(length - len(values)))][: int(length)])
    return (*values, *values[-1:] * (int(length) - len(values)))[: int(length)]


def resize(container: Any, length: int) -> None:
    """The same for what can be written to."""
    more = max(length - len(container), 0)
    if isinstance(container, dict):
        for key in [*container][length:]:
            del container[key]
        last = next(reversed(container.values()), None)
        container.update({unlike_any(i): last for i in range(more)})
    elif isinstance(container, set):
        container.difference_update([*container][length:])
        container.update(unlike_any(i) for i in range(more))
    elif isinstance(container, list | deque):
        while len(container) > length:
            container.pop()
        container.extend([container[-1]] * more if container else ())


def constants(start: Snapshot) -> list[Any]:
    """Numbers and texts with which code may compare, those in the user's own first, with their neighbours."""
    functions = [f for f in start.things.values() if isinstance(f, types.FunctionType)]
    functions.sort(key=installed)
    found: dict[Any, None] = {}
    for value in (*(c for f in functions for c in in_code(f.__code__)), *ROUND, *in_containers(start), *SPREAD):
        for one in (value, value - 1, value + 1) if type(value) is int else (value,):
            found.setdefault(one)
    return [*found]


def in_code(code: types.CodeType) -> Iterator[Any]:
    said = isinstance(code.co_consts[0], str) if code.co_consts else False  # what the function says of itself
    for constant in code.co_consts[said:]:
        yield from in_code(constant) if isinstance(constant, types.CodeType) else in_value(constant)


def in_value(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | frozenset):
        for held in sorted(value, key=repr):
            yield from in_value(held)
    elif isinstance(value, str):
        yield value
        yield from (int(digits) for digits in words(value) if len(digits) < 10)
    elif type(value) is int or (type(value) is float and isfinite(value)):
        yield value


def words(text: str) -> Iterable[str]:
    """Of digits."""
    return "".join(c if c in "0123456789" else " " for c in text).split()


def in_containers(start: Snapshot) -> Iterator[Any]:
    """Lengths, and numbers by which dicts are sorted."""
    for thing in start.things.values():
        if isinstance(thing, dict):
            yield from (key for key in thing if type(key) in (int, float))
    yield from (place.value for place in start.plain.values() if place.key is LENGTH)
