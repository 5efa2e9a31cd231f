"""Types of half a float's bits: what rounding to one does, and how much that is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Half:
    """What activations and gradients lie in memory as."""

    dtype: torch.dtype
    bits: int  # of a number, with the first one, which is not stored
    least: int  # exponent of the smallest one above zero

    @property
    def ulp(self) -> float:
        """Relative: from one to the next."""
        return 2.0 ** (1 - self.bits)

    @property
    def granted(self) -> float:
        """Relative: eight unit roundoffs."""
        return 2.0 ** (3 - self.bits)

    def rounded(self, value: torch.Tensor) -> torch.Tensor:
        """The reference's own conversion, which is one."""
        made: torch.Tensor = torch.ops.aten._to_copy.default(value, dtype=self.dtype)
        return made

    def gap(self, value: torch.Tensor) -> torch.Tensor:
        """From one to the next."""
        exponents = torch.frexp(value.nan_to_num(0.0, 0.0, 0.0)).exponent
        return torch.ldexp(torch.ones_like(value), (exponents - self.bits).clamp(min=self.least))

    def across(self, value: float, corner: float) -> float:
        """The one next to the corner on its other side."""
        kept = self.rounded(torch.tensor(corner, dtype=torch.float64))  # a conversion by .to() may change nothing here
        near = float(kept)
        if near < corner if value > corner else near > corner:
            return near
        if near == 0:
            return math.copysign(2.0**self.least, corner - value if value != corner else 1.0)
        away = (near > 0) != (value > corner)  # from zero
        return float((kept.view(torch.int16) + (1 if away else -1)).view(self.dtype))


HALF, BFLOAT = Half(torch.float16, 11, -24), Half(torch.bfloat16, 8, -133)
