"""What was measured of the operations of a plan, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Choice:
    """The tiles of an operation beside those that estimates put first, and the best of the others."""

    position: int
    chosen: str
    default: str
    taken: Mapping[str, int]

    @property
    def runner_up(self) -> str | None:
        others = [way for way in self.taken if way != self.chosen]
        return min(others, key=lambda way: self.taken[way], default=None)


@dataclass(frozen=True)
class Tuning:
    """On what it was measured, in what unit, and a step before and after, if it was run for that."""

    on: str
    unit: str
    before: int | None
    after: int | None
    choices: tuple[Choice, ...]
