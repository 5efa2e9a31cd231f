"""nn.BatchNorm*(momentum=None): running statistics are the means over all batches so far.

PyTorch reads its counter of batches as a number, which no trace can follow. While a step is traced, such a layer has a
`Share` as its momentum, which takes the number of the step instead.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


class Share(float):
    """A momentum of 1 / (batches before + number of the step + 1)."""

    def __new__(cls, *_: object) -> Share:
        return super().__new__(cls, 1.0)

    def __init__(self, before: int, step: torch.Tensor) -> None:
        self.before, self.step, self.used = before, step, False

    def value(self) -> torch.Tensor:
        if self.used:
            raise NotImplementedError("BatchNorm with momentum=None runs more than once in a step")
        self.used = True
        return 1.0 / (self.step + (self.before + 1)).float()


@contextlib.contextmanager
def counted_by(step: torch.Tensor, counts: dict[_BatchNorm, int]) -> Iterator[None]:
    for layer, before in counts.items():
        layer.momentum = Share(before, step)
    try:
        yield
    finally:
        for layer in counts:
            layer.momentum = None


def batch_counts(module: nn.Module) -> dict[_BatchNorm, int]:
    """How many batches each such layer has seen."""
    return {
        m: int(m.num_batches_tracked)
        for m in module.modules()
        if isinstance(m, _BatchNorm) and m.training and m.momentum is None and m.num_batches_tracked is not None
    }
