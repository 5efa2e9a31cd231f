"""All that can be known of a model and the random generators, as plain values that can be compared: written apart from
the code that puts models back, so that it can find what that forgets."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import nn


def fingerprint(*roots: Any) -> list[tuple[str, Any]]:
    """Paths with identities, values, modes, gradients and classes; then the generators."""
    found: list[tuple[str, Any]] = []
    for root in roots:
        look("model", root, found, set())
    numpy_state = np.random.get_state(legacy=False)
    generators = random.getstate(), str(numpy_state), tuple(torch.random.get_rng_state().tolist())
    return [*found, ("generators", generators)]


def look(path: str, value: Any, found: list[tuple[str, Any]], seen: set[int]) -> None:
    found.append((path, (type(value), id(value) if not isinstance(value, int | float | str) else value)))
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        data = value.detach()
        bits = data.contiguous().numpy(force=True).tobytes()
        found.append((path, (data.data_ptr(), tuple(data.shape), data.stride(), data.dtype, bits)))
        found.append((path, (value.requires_grad, value.is_leaf)))
        if value.is_leaf:
            look(f"{path}.grad", value.grad, found, seen)
    elif isinstance(value, dict):
        found.append((path, [str(k) for k in value]))
        for key, held in value.items():
            look(f"{path}.{key}", held, found, seen)
    elif isinstance(value, list | tuple):
        for i, held in enumerate(value):
            look(f"{path}.{i}", held, found, seen)
    elif isinstance(value, nn.Module):
        found.append((path, {k: v for k, v in vars(type(value)).items() if isinstance(v, int | float)}))
        look(f"{path}|", vars(value), found, seen)


def changes(before: list[tuple[str, Any]], after: list[tuple[str, Any]]) -> list[str]:
    """The paths that differ."""
    differing = [path for (path, a), (_, b) in zip(before, after, strict=False) if a != b]
    return differing + ([f"{len(before)} entries, now {len(after)}"] if len(before) != len(after) else [])
