"""Observers of torch.ao that are written in Python: without the questions that they ask of values."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch

from golden.observers import within


def averaged(self: Any, x: torch.Tensor) -> torch.Tensor:
    """MovingAverageMinMaxObserver.forward: the first tensor has the range that is taken as it is."""
    if x.numel():
        for kept, now in ((self.min_val, x.detach().amin()), (self.max_val, x.detach().amax())):
            kept.copy_(within(kept, now, self.averaging_constant))
    return x


@contextlib.contextmanager
def ranges_unread() -> Iterator[None]:
    """They look whether there is a range yet, which there is after a first tensor, and turn a number into a float to
    make a row of it."""
    observer = sys.modules.get("torch.ao.quantization.observer")
    if observer is None:
        yield
        return
    base = observer.UniformQuantizationObserverBase
    made = base._calculate_qparams

    def in_rows(self: Any, low: torch.Tensor, high: torch.Tensor) -> Any:
        return made(self, low.reshape(-1), high.reshape(-1))

    with (
        mock.patch.object(observer.MovingAverageMinMaxObserver, "forward", averaged),
        mock.patch.object(observer, "check_min_max_valid", lambda low, high: True),
        mock.patch.object(base, "_calculate_qparams", in_rows),
    ):
        yield
