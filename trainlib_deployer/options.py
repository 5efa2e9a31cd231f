"""What one deployment was asked for, apart from the model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainlib_deployer.machine.machine import Machine

SAVED = ("fp32", "fp16")


@dataclass(frozen=True)
class Options:
    target: Machine
    out: Path
    steps: int = 5  # training steps of a verification run
    accumulate: int = 1  # samples an update: their gradients are averaged
    dtype: str = "fp32"
    saved: str = "fp32"  # how tensors lie in memory that the forward pass keeps for the backward pass
    force: bool = False  # write even where the graph and eager PyTorch disagree
