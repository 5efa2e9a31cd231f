"""What tiles took where they were measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Tuned:
    """What ways to cut an operation took, in whatever was counted: by what is cut, then by how. While they are being
    measured, `rank` takes the way that estimates put at this place, where there are so many."""

    taken: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    rank: int = 0

    def chosen(self, work: str, ways: Sequence[str]) -> tuple[int, float]:
        """Which of these ways, the most promising first, and what it takes as a share of what the first one does. One
        that was not measured is no better than estimated, and nothing is known where the first was not."""
        if self.rank:
            return min(self.rank, len(ways) - 1), 1.0
        known = self.taken.get(work, {})
        if not known.get(ways[0]):
            return 0, 1.0
        best = min((i for i, way in enumerate(ways) if way in known), key=lambda i: known[ways[i]])
        return best, known[ways[best]] / known[ways[0]]
