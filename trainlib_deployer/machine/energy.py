"""What a step takes of a battery: a range between published figures, never a number alone."""

from __future__ import annotations

from dataclasses import dataclass

FLOPS = 2  # of a multiply-add


@dataclass(frozen=True)
class Power:
    """Published figures of a chip: work for a joule at its best, watts at its most, and who says so."""

    gigaflops_per_watt: float
    most_milliwatts: float
    source: str

    def of(self, macs: int, milliseconds: float) -> Energy:
        """No less than its multiply-adds at best, no more than all of its time at most."""
        best = FLOPS * macs / self.gigaflops_per_watt / 1e6
        return Energy(best, max(best, self.most_milliwatts * milliseconds / 1e3), self.source)


@dataclass(frozen=True)
class Energy:
    """Millijoules of a step, from and to."""

    least: float
    most: float
    source: str

    def __str__(self) -> str:
        return f"{self.least:.2g} to {self.most:.2g}"
