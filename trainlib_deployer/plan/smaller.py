"""What was done to a step so that it takes fewer bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Recomputed:
    """Work that is done twice so that a step fits."""

    operations: int
    macs: int
    bytes_saved: int  # of the level that the tensors live in


@dataclass(frozen=True)
class Saved:
    """How the forward pass keeps tensors for the backward pass, and what that changes."""

    dtype: str = "fp32"
    tensors: int = 0
    operations: int = 0  # conversions that are no part of another operation
    bytes_saved: int = 0  # of the level that the tensors live in

    @property
    def used(self) -> str:
        """What lies in memory in the end: float, where half precision would lower no peak."""
        return self.dtype if self.tensors else "fp32"

    @property
    def sentence(self) -> str:
        if self.dtype == "fp32":
            return ""
        effect = f"{self.bytes_saved:,} bytes less, {self.operations:,} operations more"
        return f"{self.tensors:,} tensors are kept for the backward pass in half precision: {effect}"


NOTHING_TWICE, AS_FLOATS = Recomputed(0, 0, 0), Saved()
