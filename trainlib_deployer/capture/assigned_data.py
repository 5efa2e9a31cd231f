"""`self.weight.data = f(self.weight.data)` in forward, as constraints on a norm are written: no trace sees it, and it
means what an update in place means. So it is traced as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def assign_data(t: torch.Tensor, value: torch.Tensor) -> Any:
    """For what the module holds; the name of a passing result may be given to other data as ever."""
    if not t.is_leaf:
        return NotImplemented
    if t.shape != value.shape or t.dtype is not value.dtype:
        raise NotImplementedError("a tensor's data is replaced by data of another shape or type")
    with torch.no_grad():
        t.data.copy_(value)
    return None


REWRITES: dict[Any, Callable[..., Any]] = {torch.Tensor.data.__set__: assign_data}  # type: ignore[attr-defined]
