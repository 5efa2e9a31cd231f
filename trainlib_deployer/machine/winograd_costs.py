"""What Winograd's convolutions take on a machine, in cycles (costs.py)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WinogradCosts:
    """What Winograd's convolutions do, all rows of the transformed 4 x 4 together."""

    start: float  # code that was at hand no more
    step: float  # what is transformed and multiplied at a time: barriers, code fetched anew
    weight: float  # to transform one kernel
    input: float  # ... four tiles of one channel, side by side
    output: float  # ... back
    gradient: float  # ... of a weight gradient
    sums: float  # the products of one kernel, back
    apart: float  # times that where tiles are in several rows
    tile: float  # 16 products of 4 x 4 results
    block: float  # ... more for each block of terms where sums are put aside or added up
    term: float  # ... and for each term


@dataclass(frozen=True)
class WinogradPanelCosts:
    """The same where every core has panels of four tiles of its own."""

    start: float
    weight: float
    panel: float
    input: float
    output: float
    tile: float
    term: float


@dataclass(frozen=True)
class WinogradTwosCosts:
    """The same, two rows of the transformed 4 x 4 at a time."""

    start: float
    step: float  # what is transformed and multiplied at a time, where work is shared out
    panel: float  # ... where every core has panels of its own
    weight: float
    input: float
    tile: float  # 16 products of 4 x 4 results, and what becomes of them
    term: float


@dataclass(frozen=True)
class WinogradPairCosts:
    """The same of halves, by pairs of channels: a row of the transformed 4 x 4 at a time, or all of it."""

    start: float
    step: float
    weight: float  # to transform two kernels
    input: float  # ... four tiles, side by side
    output: float  # ... the products of four channels and four tiles, back
    apart: float  # times that inputs take where tiles are in several rows
    tile: float  # 16 products of 4 x 4 results
    term: float  # ... and for each pair
