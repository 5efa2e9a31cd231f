"""Random numbers that a program can compute again, element by element: a hash of (step, call, element)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

WORD = 0xFFFFFFFF
Shape = Sequence[int]


@dataclass(frozen=True)
class Numbers:
    """Those of one training step."""

    step: int

    def keep(self, shape: Shape, probability: float, call: int) -> torch.Tensor:
        """True where the upper 24 bits lie below the probability."""
        return (self.words(shape, call) >> 8) < int(probability * 2**24)

    def uniform(self, shape: Shape, call: int) -> torch.Tensor:
        """Odd multiples of 2^-24: exact in float32, and neither 0 nor 1."""
        return ((self.words(shape, call) >> 8) | 1).to(torch.float64) * 2.0**-24

    def integers(self, shape: Shape, call: int) -> torch.Tensor:
        """The upper 31 bits."""
        return self.words(shape, call) >> 1

    def words(self, shape: Shape, call: int) -> torch.Tensor:
        key = (mix(torch.tensor(self.step * 0x9E3779B9 & WORD)) + mix(torch.tensor(call + 1 & WORD))) & WORD
        return mix(torch.arange(math.prod(shape)).reshape(tuple(shape)) ^ key)


def mix(x: torch.Tensor) -> torch.Tensor:
    """A permutation of 32-bit numbers in which every bit of x reaches every bit (in int64; products wrap)."""
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & WORD
    x = ((x ^ (x >> 15)) * 0x846CA68B) & WORD
    return x ^ (x >> 16)
