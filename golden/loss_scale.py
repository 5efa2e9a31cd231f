"""What scales the loss of mixed precision; PyTorch takes seconds to import."""

from __future__ import annotations

from dataclasses import dataclass

SCALING = "loss_scale."  # begins the names of what is counted and decided
LEAST = 2.0**-126  # a normal float32; PyTorch's factor falls to zero, and makes NaN of the weights then
MOST = 2.0**127  # of what may be doubled, less than this


@dataclass(frozen=True)
class LossScale:
    """The factor to begin with, doubled after so many updates in a row (0: it stays), halved by an overflow."""

    start: float
    every: int = 0
