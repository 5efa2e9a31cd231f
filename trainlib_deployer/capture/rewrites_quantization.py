"""Quantization-aware training: what an observer measures, and the steps that follow from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from golden.observers import scale_and_zero, within

Tensor = torch.Tensor


def observed_and_quantized(
    x: Tensor,
    observer_on: Tensor,
    fake_quant_on: Tensor,
    running_min: Tensor,
    running_max: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    averaging_const: float,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
) -> Any:
    """torch.fused_moving_avg_obs_fake_quant; an observer by rows has the shape of its rows only after a first call."""
    if per_row_fake_quant and running_min.numel() != x.shape[ch_axis]:
        return NotImplemented
    rows = [d for d in range(x.dim()) if d != ch_axis] if per_row_fake_quant else list(range(x.dim()))
    observes = observer_on.reshape(()) != 0
    with torch.no_grad():
        for kept, now in ((running_min, x.detach().amin(rows)), (running_max, x.detach().amax(rows))):
            kept.copy_(torch.where(observes, within(kept, now, averaging_const), kept))
        found = scale_and_zero(running_min, running_max, quant_min, quant_max, symmetric_quant)
        for kept, now in zip((scale, zero_point), found, strict=True):
            kept.copy_(torch.where(observes, now.to(kept.dtype), kept))
    by = scale.detach(), zero_point.detach()
    if per_row_fake_quant:
        quantized = torch.fake_quantize_per_channel_affine(x, *by, ch_axis, quant_min, quant_max)
    else:
        quantized = torch.fake_quantize_per_tensor_affine(x, *by, quant_min, quant_max)
    return torch.where(fake_quant_on.reshape(()) != 0, quantized, x)


REWRITES: dict[Any, Callable[..., Any]] = {torch.fused_moving_avg_obs_fake_quant: observed_and_quantized}
