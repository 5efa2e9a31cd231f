"""The order of an epoch, as tl_fit.h has it: any place can be computed alone, so a chip needs no table."""

from __future__ import annotations

import torch

from golden.random_numbers import Numbers

ROUNDS = 12  # with six, some orders of five things come twice as often as others


def shuffled(count: int, seed: int, epoch: int) -> list[int]:
    """All numbers below `count`, in the order of this epoch (from 0 on)."""
    bits = (count - 1).bit_length()
    mask, shift = (1 << bits) - 1, (bits + 1) // 2
    keys = [int(k) for k in Numbers(epoch).words((2 * ROUNDS,), seed)]
    x = torch.arange(count)
    todo = torch.ones(count, dtype=torch.bool)
    while bool(todo.any()):
        y = x[todo]
        for flip, factor in zip(keys[::2], keys[1::2], strict=True):
            y = (y ^ flip) & mask
            y = (y * ((factor | 1) & mask)) & mask
            y = y ^ (y >> shift)
        x[todo] = y
        todo = x >= count
    return x.tolist()
