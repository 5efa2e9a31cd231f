"""Randomness: masks that a program can compute again, element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

WORD = 0xFFFFFFFF
FIRST_CALL = 1 << 20  # the generator's seed before the first mask of a step


class Masks(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Fills every tensor that PyTorch would fill with random bits (all kinds of dropout do) by
    `fill(shape, probability of a one, number of the call)`.

    The number of the call is kept in PyTorch's generator, so that a forward that is computed again for the backward,
    as torch.utils.checkpoint does, meets the same masks.
    """

    def __init__(self, fill: Callable[[Sequence[int], float, int], torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.fill = fill

    def __enter__(self) -> Any:
        torch.default_generator.manual_seed(FIRST_CALL)
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.ops.aten.bernoulli_.float:
            return func(*args, **(kwargs or {}))
        seed = torch.default_generator.initial_seed()
        torch.default_generator.manual_seed(seed + 1)
        target, probability = args[0], args[1] if len(args) > 1 else 0.5
        return target.copy_(self.fill(target.shape, probability, seed - FIRST_CALL))


def keep(shape: Sequence[int], probability: float, call: int, step: int) -> torch.Tensor:
    """True where the upper 24 bits of a hash of (step, call, element) lie below the probability."""
    key = (mix(torch.tensor(step * 0x9E3779B9 & WORD)) + mix(torch.tensor(call + 1))) & WORD
    element = torch.arange(int(np.prod(tuple(shape), dtype=np.int64))).reshape(tuple(shape))
    return (mix(element ^ key) >> 8) < int(probability * 2**24)


def mix(x: torch.Tensor) -> torch.Tensor:
    """A permutation of 32-bit numbers in which every bit of x reaches every bit (in int64; products wrap)."""
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & WORD
    x = ((x ^ (x >> 15)) * 0x846CA68B) & WORD
    return x ^ (x >> 16)
