"""Arguments that PyTorch takes as one number for all dimensions, or one each."""

from __future__ import annotations

from typing import Any


def per_dimension(value: Any, dims: int) -> list[Any]:
    values = [value] if isinstance(value, int | float) else list(value)
    return values * dims if len(values) == 1 else values
