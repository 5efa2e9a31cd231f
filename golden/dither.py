"""Parameters that are halves: rounded up or down by chance, so that updates below their last bit are not lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from zlib import crc32

import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

from golden.half import HALF
from golden.precision import as_real, shaped_like
from golden.random_numbers import Numbers

LEAST_NORMAL, BELOW = 0x38800000, 0x1FFF  # of halves, as bits of a float; the bits that a float has besides


def nearest(parameters: Mapping[str, nn.Parameter], names: Sequence[str]) -> None:
    """What these begin with."""
    with torch.no_grad(), _disable_current_modes():
        for p in map(parameters.__getitem__, names):
            put(p, HALF.rounded(as_real(p.detach())))


def by_chance(parameters: Mapping[str, nn.Parameter], names: Sequence[str], step: int) -> None:
    """What an update has made of them. A half stays as it is; what lies beyond the largest one is infinite."""
    with torch.no_grad(), _disable_current_modes():
        for name in names:
            value = as_real(parameters[name].detach())
            words = Numbers(step).words(value.shape, crc32(name.encode()))
            put(parameters[name], HALF.rounded(nearby(value.float(), words)))


def put(p: nn.Parameter, value: torch.Tensor) -> None:
    p.copy_(shaped_like(value.to(as_real(p.detach()).dtype), p))


def nearby(value: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """The half above or below, as float32; tl_nearby_half of c_lib/include/tl_half.h."""
    bits = value.abs().view(torch.int32)
    normal = ((bits + (words >> 19).to(torch.int32)) & ~BELOW).view(torch.float32)
    steps = value.abs() * 2.0**24
    whole = steps.floor()
    small = (whole + (steps - whole > (words >> 8).float() * 2.0**-24).float()) * 2.0**-24
    found = torch.where(bits >= LEAST_NORMAL, normal, small).copysign(value)
    return torch.where(value.isfinite(), found, value)
