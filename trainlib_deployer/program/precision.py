"""What of a step is in half precision."""

from __future__ import annotations

from dataclasses import dataclass

from golden.loss_scale import LossScale
from trainlib_deployer.formats import DType


@dataclass(frozen=True)
class Precision:
    """Beside the arithmetic, all of which is done by floats."""

    halves: bool = False  # activations, their gradients, and what products multiply
    keep: tuple[str, ...] = ()  # layers that stay float, and all in them
    weights: frozenset[str] = frozenset()  # parameters that are halves, too
    loss_scale: LossScale | None = None
    half: DType = DType.F16  # what a half is


FP32 = Precision()
HALVES = {"mixed": DType.F16, "fp16": DType.F16, "bf16": DType.BF16}  # by what --dtype says
