"""What the types that a step may have take from its results, as measured (docs/decisions/mixed.md)."""

from __future__ import annotations

PERCENT = {"fp32": 0.0, "mixed": 0.1, "fp16": 0.2}  # of accuracy, expected
ROUNDED = {"mixed": "activations and gradients", "fp16": "weights, too"}  # to 11 bits


def loss_of(dtype: str) -> str:
    return f"11 bits of {ROUNDED[dtype]} ({PERCENT[dtype]} % less accuracy)"
