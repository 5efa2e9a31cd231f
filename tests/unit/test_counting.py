"""Numbers of Python that a forward keeps: refused where a later step would depend on them, and only there."""

from __future__ import annotations

import itertools
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from tests.unit.test_model_state import user_of
from trainlib_deployer.capture.agreement import captured_and_checked
from trainlib_deployer.errors import Unsupported

pytestmark = pytest.mark.slow


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 5)
        self.n, self.alpha, self.warm = 0, 1.0, True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n += 1
        return self.rest(self.fc(x))

    def rest(self, h: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class Late(Counting):
    def rest(self, h: torch.Tensor) -> torch.Tensor:
        return 2 * h if self.n > 1000 else h


class Annealed(Counting):
    def rest(self, h: torch.Tensor) -> torch.Tensor:
        if self.n % 10 == 0:
            self.alpha *= 0.5
        return h * self.alpha


class Frozen(Counting):
    """What was decided shows only in the step after."""

    def rest(self, h: torch.Tensor) -> torch.Tensor:
        h = h if self.warm else h.detach() + h
        if self.n * 0.5 == 50:
            self.warm = False
        return h


class Unmade(Counting):
    """What a later step would make is not there yet."""

    def rest(self, h: torch.Tensor) -> torch.Tensor:
        if self.n > 1000:
            h = h * self.scale
        return h


class Deciding(Counting):
    """By a condition on the count of steps, in which one way or other of writing numbers stands."""

    def __init__(self, condition: str) -> None:
        super().__init__()
        self.condition = eval(f"lambda n: {condition}")

    def rest(self, h: torch.Tensor) -> torch.Tensor:
        return 2 * h if self.condition(self.n) else h


class Hundreds(Counting):
    def rest(self, h: torch.Tensor) -> torch.Tensor:
        return h * (1 + self.n // 100)


class Slow(Counting):
    def rest(self, h: torch.Tensor) -> torch.Tensor:
        self.alpha = 0.99999 * self.alpha
        return h * self.alpha


class Indexing(Counting):
    def rest(self, h: torch.Tensor) -> torch.Tensor:
        return h * [1, 1, 1, 1, 2][self.n]


class Telling(Counting):
    """Counts, times and says, to no effect."""

    def rest(self, h: torch.Tensor) -> torch.Tensor:
        if self.n % 100 == 0:
            print("step", self.n)
            self.alpha = self.n / 7
        self.text = f"{self.n} {min(self.n, 5)} {self.alpha:.3f}"
        assert self.n > 0
        if self.n < 0:
            raise ValueError(self.n)
        return h


class Annealing(nn.MSELoss):
    n = 0

    def forward(self, y: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        self.n += 1
        return super().forward(y, wanted) * (1 + max(0, self.n - 50))


def captured(model: nn.Module, **more: Any) -> None:
    captured_and_checked(user_of(model, torch.randn(2, 3), torch.randn(2, 5), **more))


@pytest.mark.parametrize("kind", [Late, Annealed, Frozen, Hundreds, Slow, Indexing, Unmade])
def test_what_a_later_step_depends_on_is_refused(kind: type[Counting]) -> None:
    with pytest.raises(Unsupported, match="from step to step, and results depend on it") as found:
        captured(kind())
    assert "register_buffer" in found.value.remedy


@pytest.mark.parametrize(
    "condition",
    [
        "0.5 * n == 50",
        "50.5 - n == 0.5",
        "1.0 / n == 0.01",
        "2.0 ** n == 128.0",
        "100.5 % n == 1.5",
        "100.0 == n",
        "10.5 < n < 12.5",
        "10 < n < 12",
        "2 ** n == 128",
        "1 << n == 128",
        "n & 255 == 64",
        "divmod(n, 10) == (7, 3)",
        "n / 4 != round(n / 4) and n > 1000",
        "(n / 77).is_integer()",
        "not n - 77",
        "n in (50, 70)",
        "n in {50, 70}",
        "{50: 1, 70: 1}.keys() and n in {50: 1, 70: 1}",
        "int(n / 10) == 5",
        "float(n) == 77.0",
    ],
)
def test_numbers_on_either_side_of_a_count_are_seen(condition: str) -> None:
    with pytest.raises(Unsupported, match="changes 'n' from step to step"):
        captured(Deciding(condition))


shared = types.SimpleNamespace(n=0)
calls = 0
said = {"calls": 0}


def counted() -> int:
    global calls
    calls += 1
    return calls


def defaulted(held: dict[str, int] = {"n": 0}) -> int:  # noqa: B006
    held["n"] += 1
    return held["n"]


def ticking() -> Callable[[], int]:
    n = 0

    def tick() -> int:
        nonlocal n
        n += 1
        return n

    return tick


tick = ticking()


def numbers() -> Iterator[int]:
    yield from itertools.count()


class Slotted:
    __slots__ = ("n",)

    def __init__(self) -> None:
        self.n = 0


class Elsewhere(nn.Module):
    """What goes on is no number in an attribute of the model; it decides in step 78 or so."""

    shared = 0
    of_all: list[int] = []  # noqa: RUF012

    def __init__(self, way: str) -> None:
        super().__init__()
        self.fc, self.way = nn.Linear(3, 5), way
        self.grown: dict[str, Any] = {"list": [], "deque": deque(), "set": set(), "dict": {}}
        self.slotted = Slotted()
        self.count, self.cycle, self.numbers = itertools.count(), itertools.cycle([0, 0, 0, 77]), numbers()

    def number(self) -> Any:
        """Of this call."""
        match self.way:
            case "list" | "deque":
                self.grown[self.way].append(1.5)
            case "set":
                self.grown["set"].add(len(self.grown["set"]))
            case "dict":
                self.grown["dict"][len(self.grown["dict"])] = 1
            case "count" | "cycle" | "numbers":
                return next(getattr(self, self.way))
            case "global":
                return counted()
            case "global dict":
                said["calls"] += 1
                return said["calls"]
            case "global object":
                shared.n += 1
                return shared.n
            case "default":
                return defaulted()
            case "nonlocal":
                return tick()
            case "slots":
                self.slotted.n += 1
                return self.slotted.n
            case "class":
                Elsewhere.shared += 1
                return Elsewhere.shared
            case "class list":
                self.of_all.append(1)
                return len(self.of_all)
        return len(self.grown[self.way])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x) * (2 if self.number() == 77 else 1)


WAYS = {
    **{way: f"len(grown.{way})" for way in ("list", "deque", "set", "dict")},
    **{way: way for way in ("count", "cycle", "numbers")},
    "global": "globals.calls",
    "global dict": "globals.said.calls",
    "global object": "globals.shared.n",
    "default": "defaulted.0.n",
    "nonlocal": "tick.n",
    "slots": "slotted.n",
    "class": "Elsewhere.shared",
    "class list": "len(Elsewhere.of_all)",
}


@pytest.mark.parametrize("way", WAYS)
def test_counts_elsewhere_are_seen(way: str) -> None:
    model = Elsewhere(way)
    with pytest.raises(Unsupported) as found:
        captured(model)
    assert f"changes '{WAYS[way]}' from step" in found.value.message
    if way not in ("cycle", "numbers"):  # nobody can put these back
        assert model.number() == (0 if way == "count" else 1), "everything is as it was given"
        Elsewhere.shared, Elsewhere.of_all[:] = 0, []


def test_a_hook_that_counts_is_seen() -> None:
    n = 0

    def hook(module: nn.Module, given: Any, output: torch.Tensor) -> torch.Tensor:
        nonlocal n
        n += 1
        return output * 2 if n == 77 else output

    model = nn.Linear(3, 5)
    model.register_forward_hook(hook)
    with pytest.raises(Unsupported, match=r"changes 'hook\.n' from step"):
        captured(model)
    assert n == 0


class Logging(Elsewhere):
    """Everything goes on, and nothing is made of it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for self.way in WAYS:
            if self.way not in ("cycle", "numbers") and int(self.number()) > 1000:
                print(self.way, len(self.grown["list"]))
        return self.fc(x)


def test_what_goes_on_elsewhere_and_decides_nothing_is_in_nobodys_way() -> None:
    captured(Logging("list"))


def test_the_comparison_is_named() -> None:
    with pytest.raises(Unsupported) as found:
        captured(Late())
    assert found.value.source is not None and "self.n > 1000" in found.value.source.text


def test_a_count_in_the_loss_is_seen() -> None:
    with pytest.raises(Unsupported, match="changes 'n'"):
        captured(nn.Linear(3, 5), loss=Annealing())


def test_a_count_that_decides_nothing_is_in_nobodys_way(capsys: pytest.CaptureFixture[str]) -> None:
    model = Telling()
    captured(model)
    assert (model.n, model.alpha, hasattr(model, "text")) == (0, 1.0, False)
    assert not capsys.readouterr().out
