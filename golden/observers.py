"""What an observer of quantization-aware training makes of a tensor: its range so far, scale and zero."""

from __future__ import annotations

import torch

Tensor = torch.Tensor
LEAST_SCALE = 6.1e-5  # smaller ones are enlarged, with their range


def within(kept: Tensor, now: Tensor, averaging: float) -> Tensor:
    """The moving average of a bound; the first one is taken as it is."""
    return torch.where(kept.isinf(), now, kept + averaging * (now - kept))


def scale_and_zero(low: Tensor, high: Tensor, least: int, most: int, symmetric: bool) -> tuple[Tensor, Tensor]:
    """The scale, and what stands for zero."""
    low, high = low.clamp(max=0.0), high.clamp(min=0.0)
    signed = symmetric and least < 0 < most
    if signed:
        half = (most - least) // 2
        step = torch.maximum(low / -(half + 1), high / half)
        low, high = step * -(half + 1), step * half
    scale = (high - low) / (most - least)
    nothing = (scale == 0) | (1 / scale).isinf()
    scale = torch.where(nothing, 0.1, scale)
    small = scale < LEAST_SCALE
    low, high = (torch.where(small, v * (LEAST_SCALE / scale), v) for v in (low, high))
    scale = torch.where(small, LEAST_SCALE, scale)
    if signed:
        return scale, torch.full_like(scale, (least + most) / 2).round()
    from_least, from_most = low / scale, high / scale
    by_least = abs(least) - from_least.abs() < abs(most) - from_most.abs()
    zero = torch.where(by_least, least - from_least, most - from_most)
    return scale, zero.clamp(least, most).round()


def observed_and_quantized(
    x: Tensor,
    observer_on: Tensor,
    fake_quant_on: Tensor,
    running_min: Tensor,
    running_max: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    averaging: float,
    least: int,
    most: int,
    axis: int,
    by_rows: bool = False,
    symmetric: bool = False,
) -> tuple[Tensor, Tensor]:
    """PyTorch's operation, which takes float32 alone, in any precision: the result, and what lay within the range."""
    rows = [d for d in range(x.dim()) if not by_rows or d != axis]
    if observer_on.item():
        for kept, now in ((running_min, x.amin(rows)), (running_max, x.amax(rows))):
            if kept.numel() != now.numel():
                kept.resize_(now.shape).fill_(torch.inf)
            kept.copy_(within(kept, now, averaging))
        found = scale_and_zero(running_min.double(), running_max.double(), least, most, symmetric)
        for kept, now in zip((scale, zero_point), found, strict=True):
            kept.resize_(now.shape).copy_(now.float())  # as PyTorch stores it
    if not fake_quant_on.item():
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    shape = [-1 if by_rows and d == axis else 1 for d in range(x.dim())]
    step, zero = scale.reshape(shape).to(x.dtype), zero_point.reshape(shape)
    at = (x / step).round() + zero
    return (at.clamp(least, most) - zero) * step, (at >= least) & (at <= most)
