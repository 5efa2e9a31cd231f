"""What tiles took where they were measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

MARGIN = 0.01  # of cycles, that what is measured must be faster by


class Way(Protocol):
    """One way to cut an operation."""

    @property
    def way(self) -> str:
        """Its name."""
        ...


@dataclass(frozen=True)
class Tuned:
    """What ways to cut an operation took, in whatever was counted: by what is cut, then by how. While they are being
    measured, `rank` takes the way that estimates put at this place, where there are so many."""

    taken: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    rank: int = 0

    def asks(self, work: str) -> bool:
        """May another way be taken than the one that estimates put first?"""
        return self.rank > 0 or work in self.taken

    def chosen(self, work: str, ways: Sequence[Way]) -> tuple[int, float]:
        """Which of these ways, the most promising first, and what it takes as a share of what the first one does. One
        that was not measured is no better than estimated, and nothing is known where the first was not."""
        if self.rank:
            return min(self.rank, len(ways) - 1), 1.0
        known = self.taken.get(work)
        if known is None or not known.get(ways[0].way):
            return 0, 1.0
        names = [w.way for w in ways]
        best = min((i for i, name in enumerate(names) if name in known), key=lambda i: known[names[i]])
        share = known[names[best]] / known[names[0]]
        return (best, share) if share <= 1 - MARGIN else (0, 1.0)
