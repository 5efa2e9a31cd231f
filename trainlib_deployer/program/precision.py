"""What of a step is in half precision."""

from __future__ import annotations

from dataclasses import dataclass

from golden.loss_scale import LossScale


@dataclass(frozen=True)
class Precision:
    """Beside the arithmetic, all of which is done by floats."""

    halves: bool = False  # activations, their gradients, and what products multiply
    keep: tuple[str, ...] = ()  # layers that stay float, and all in them
    weights: frozenset[str] = frozenset()  # parameters that are halves, too
    loss_scale: LossScale | None = None


FP32 = Precision()
