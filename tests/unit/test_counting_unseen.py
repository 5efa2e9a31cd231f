"""Counts that decide by other ways than comparisons, or lie elsewhere than in attributes; and what nothing hangs on."""

from __future__ import annotations

import argparse
import copy
import dataclasses
import enum
import functools
import random
import types
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from random import uniform
from typing import Any

import numpy as np
import pytest
import torch

from tests.unit.test_counting import Counting, captured
from trainlib_deployer.errors import Unsupported

pytestmark = pytest.mark.slow


class Doing(Counting):
    """Whatever a function makes of the count, and of what an object holds."""

    def __init__(self, rest: Callable[[Any, torch.Tensor], torch.Tensor], held: Any = None) -> None:
        super().__init__()
        self.held, self.does = copy.deepcopy(held), rest

    def rest(self, h: torch.Tensor) -> torch.Tensor:
        return self.does(self, h)


@functools.lru_cache
def remembered(n: int) -> int:
    return 2 if n == 77 else 1


def shrink(m: Doing, h: torch.Tensor) -> torch.Tensor:
    if m.held:
        m.held.pop()
        return h
    return 2 * h


def slice_of(m: Doing, h: torch.Tensor) -> torch.Tensor:
    m.held.append(1)
    return 2 * h if m.held[40:] else h


def only_until(m: Doing, h: torch.Tensor) -> torch.Tensor:
    assert m.n < 1000
    return h * (1 + m.n // 100)


HIDDEN: dict[str, tuple[Callable[[Any, torch.Tensor], torch.Tensor], Any]] = {
    "get": (lambda m, h: h * {77: 2}.get(m.n, 1), None),
    "get, of a part": (lambda m, h: h * m.held.get(m.n // 10, 1), {7: 2}),
    "defaultdict": (lambda m, h: h * m.held[m.n], defaultdict(int, {1: 1, 2: 1, 3: 1, 77: 2})),
    "str": (lambda m, h: 2 * h if str(m.n) == "77" else h, None),
    "end of a text": (lambda m, h: 2 * h if str(m.n).endswith("00") else h, None),
    "f-string": (lambda m, h: 2 * h if f"step{m.n}" in ("step77",) else h, None),
    "percent": (lambda m, h: 2 * h if "step%d" % m.n == "step77" else h, None),  # noqa: UP031
    "numpy": (lambda m, h: 2 * h if np.int64(m.n) == 77 else h, None),
    "tensor": (lambda m, h: torch.where(torch.tensor(m.n) == 77, 2 * h, h), None),
    "index": (lambda m, h: h * m.held[m.n % 99], [1] * 50 + [2] * 49),
    "lru_cache": (lambda m, h: h * remembered(m.n), None),
    "shrinking": (shrink, [1] * 50),
    "slice": (slice_of, []),
    "assert": (only_until, None),
}


@pytest.mark.parametrize("way", HIDDEN)
def test_ways_on_which_a_count_decides_unseen(way: str) -> None:
    with pytest.raises(Unsupported, match="from step to step, and results depend on it"):
        captured(Doing(*HIDDEN[way]))


def attribute(m: Doing, h: torch.Tensor) -> torch.Tensor:
    m.held.n += 1
    return 2 * h if m.held.n == 77 else h


def entry(m: Doing, h: torch.Tensor) -> torch.Tensor:
    m.held[0] += 1
    return 2 * h if m.held[0] == 77 else h


def value(m: Doing, h: torch.Tensor) -> torch.Tensor:
    m.held += 1
    return 2 * h if m.held == 77 else h


def replaced(m: Doing, h: torch.Tensor) -> torch.Tensor:
    m.held = (*m.held, 1)
    return 2 * h if len(m.held) == 77 else h


class Phase(enum.Enum):
    WARM, COLD = range(2)


def another(m: Doing, h: torch.Tensor) -> torch.Tensor:
    """Of attributes that hold no number."""
    h = m.held["does"](h) if m.held["phase"] is Phase.WARM else 2 * h
    return h if m.held["thing"] is None and m.held["gone"] is not None and "new" not in m.held else 3 * h


def later(key: str, value: Any) -> Callable[[Any, torch.Tensor], torch.Tensor]:
    """A value that is another one after many steps."""

    def does(m: Doing, h: torch.Tensor) -> torch.Tensor:
        h = another(m, h)
        if m.n == 77:
            m.held[key] = value
        return h

    return does


AFTERWARDS = {"phase": Phase.COLD, "does": torch.tanh, "thing": object(), "gone": None, "new": 1}


@pytest.mark.parametrize("key", AFTERWARDS)
def test_what_shows_in_the_step_after_alone(key: str) -> None:
    held = {"phase": Phase.WARM, "does": torch.sigmoid, "thing": None, "gone": object()}
    with pytest.raises(Unsupported, match="changes 'n' from step to step"):
        captured(Doing(later(key, AFTERWARDS[key]), held))


KINDS: dict[str, tuple[Callable[[Any, torch.Tensor], torch.Tensor], Any]] = {
    "make_dataclass": (attribute, dataclasses.make_dataclass("Made", [("n", int)])(0)),
    "SimpleNamespace": (attribute, types.SimpleNamespace(n=0)),
    "Namespace": (attribute, argparse.Namespace(n=0)),
    "array": (entry, array("i", [0])),
    "numpy array": (entry, np.zeros(2)),
    "bytearray": (entry, bytearray(2)),
    "numpy number": (value, np.int64(0)),
    "numpy array of one": (value, np.zeros((), dtype=np.int64)),
    "Decimal": (value, Decimal(0)),
    "Fraction": (value, Fraction(0)),
    "complex": (value, 0j),
    "tuple": (replaced, ()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_counts_of_every_kind_are_seen(kind: str) -> None:
    model = Doing(*KINDS[kind])
    with pytest.raises(Unsupported, match=r"changes .(held|len)"):
        captured(model)
    assert repr(model.held) == repr(KINDS[kind][1]), "everything is as it was given"


def bounded(m: Doing, h: torch.Tensor) -> torch.Tensor:
    m.held.append(m.n / 7)
    while len(m.held) > 4:
        m.held.pop(0)
    m.last = m.held[len(m.held) - 1]
    m.mean = sum(m.held) / len(m.held)
    return h


def histogram(m: Doing, h: torch.Tensor) -> torch.Tensor:
    b = m.n % 10
    if b in m.held:
        m.held[b] += 1
    elif b % 3:
        m.held[b] = m.held.get(b - 1, 0) + 1
    return h


def flushed(m: Doing, h: torch.Tensor) -> torch.Tensor:
    m.held.append(m.n)
    if len(m.held) == 3:
        m.held.clear()
    return h


def wrapped(m: Doing, h: torch.Tensor) -> torch.Tensor:
    m.rest_of = m.n
    while m.rest_of >= 40:
        m.rest_of -= 40
    return h


def given_up(m: Doing, h: torch.Tensor) -> torch.Tensor:
    assert m.n < 1000
    if m.n > 700:
        raise RuntimeError(f"{m.n} steps are enough")
    return h


def logged(m: Doing, h: torch.Tensor) -> torch.Tensor:
    m.held[str(m.n)] = f"{m.n:04d} done"
    return h


def counted_by_name(m: Doing, h: torch.Tensor) -> torch.Tensor:
    m.held.update("ab")
    if m.held.most_common(1)[0][1] > 10**6:
        raise RuntimeError
    return h


HARMLESS: dict[str, tuple[Callable[[Any, torch.Tensor], torch.Tensor], Any]] = {
    "bounded list": (bounded, []),
    "histogram": (histogram, {0: 0, 1: 0}),
    "flushed list": (flushed, []),
    "end": (given_up, None),
    "loop": (wrapped, None),
    "log": (logged, {}),
    "counter": (counted_by_name, Counter()),
}


@pytest.mark.parametrize("way", HARMLESS)
def test_what_nothing_hangs_on_is_deployed(way: str) -> None:
    captured(Doing(*HARMLESS[way]))


def dropped(m: Doing, h: torch.Tensor) -> torch.Tensor:
    return 2 * h if random.random() < 1e-6 else h


def dropped_by_numpy(m: Doing, h: torch.Tensor) -> torch.Tensor:
    return 2 * h if np.random.rand() > 1 - 1e-6 else h


def dropped_by_a_name(m: Doing, h: torch.Tensor) -> torch.Tensor:
    return 2 * h if uniform(0, 1) < 1e-6 else h


def dropped_by_its_own(m: Doing, h: torch.Tensor) -> torch.Tensor:
    return 2 * h if m.held.random() < 1e-6 else h


def one_of_two(m: Doing, h: torch.Tensor) -> torch.Tensor:
    return h * random.choice(m.held)[0]


def noted(m: Doing, h: torch.Tensor) -> torch.Tensor:
    if random.random() < 0.5:
        m.held.append(np.random.rand())
    return 2 * h if random.uniform(0, 1) < m.rate or np.random.rand() >= 1 else h


CHANCE: dict[str, tuple[Callable[[Any, torch.Tensor], torch.Tensor], Any]] = {
    "random": (dropped, None),
    "numpy": (dropped_by_numpy, None),
    "by a name": (dropped_by_a_name, None),
    "of its own": (dropped_by_its_own, random.Random(5)),
    "choice": (one_of_two, [(1.0,)] * 4 + [(2.0,)]),
}


@pytest.mark.parametrize("way", CHANCE)
def test_chance_that_decides_is_refused(way: str) -> None:
    random.seed(2)
    before = random.getstate()
    with pytest.raises(Unsupported, match="draws random numbers") as found:
        captured(Drawing(*CHANCE[way]))
    assert "torch.rand" in found.value.remedy
    assert way == "choice" or (found.value.source is not None and "return 2 * h" in found.value.source.text)
    assert random.getstate() == before


def test_chance_that_decides_nothing_is_in_nobodys_way() -> None:
    captured(Drawing(noted, []))


class Drawing(Doing):
    """Without a count."""

    rate = 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rest(self.fc(x))
