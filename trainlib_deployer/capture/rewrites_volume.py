"""Three dimensions in terms of two: the kernel's depth becomes channels, windows are taken plane by plane."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F

from trainlib_deployer.capture.extents import per_dimension

Tensor = torch.Tensor
Three = Sequence[int]


def triple(value: Any) -> list[Any]:
    return per_dimension(value, 3)


def batched(x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """With a batch of one where there is none."""
    return function(x) if x.dim() == 5 else function(x.unsqueeze(0)).squeeze(0)


def conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Planes that meet the same planes of the kernel lie beside each other as channels of one image."""
    strides, steps, kernel = triple(stride), triple(dilation), weight.shape[2:]
    before, after = paddings(padding, kernel, steps)

    def whole(x: Tensor) -> Tensor:
        if before != after:
            x = F.pad(x, [n for pair in zip(before[::-1], after[::-1], strict=True) for n in pair])
            around = [0, 0]
        else:
            x = F.pad(x, [0, 0, 0, 0, before[0], after[0]])
            around = before[1:]
        depth = (x.shape[2] - steps[0] * (kernel[0] - 1) - 1) // strides[0] + 1
        reach = (depth - 1) * strides[0] + 1
        planes = [x.narrow(2, k * steps[0], reach)[:, :, :: strides[0]] for k in range(kernel[0])]
        images = torch.stack(planes, 2).permute(0, 3, 1, 2, 4, 5).flatten(2, 3).flatten(0, 1)
        y = F.conv2d(images, weight.flatten(1, 2), bias, strides[1:], around, steps[1:], groups)
        return y.reshape(len(x), depth, *y.shape[1:]).transpose(1, 2)

    return batched(x, whole)


def paddings(padding: Any, kernel: Three, steps: Three) -> tuple[list[int], list[int]]:
    """Before and after each dimension."""
    if padding == "valid":
        padding = 0
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(steps, kernel, strict=True)]
        return [n // 2 for n in total], [n - n // 2 for n in total]
    return triple(padding), triple(padding)


def conv_transpose3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Each plane of the input becomes as many as the kernel is deep; those that meet in a plane are added."""
    strides, around, extra, steps = (triple(v) for v in (stride, padding, output_padding, dilation))
    deep = weight.shape[2]

    def whole(x: Tensor) -> Tensor:
        count, depth = len(x), x.shape[2]
        images = x.transpose(1, 2).flatten(0, 1)
        made = F.conv_transpose2d(
            images, weight.flatten(1, 2), None, strides[1:], around[1:], extra[1:], groups, steps[1:]
        )
        planes = made.reshape(count, depth, -1, deep, *made.shape[2:]).transpose(1, 2)  # [n, out, depth, deep, y, x]
        spread = (depth - 1) * strides[0] + 1
        out = spread + steps[0] * (deep - 1) + extra[0] - 2 * around[0]
        length = max(spread + steps[0] * (deep - 1), around[0] + out)
        parts = []
        for k in range(deep):
            part = F.pad(planes.select(3, k).unsqueeze(3), [0, 0, 0, 0, 0, strides[0] - 1]).flatten(2, 3)
            at = k * steps[0]
            parts.append(F.pad(part.narrow(2, 0, spread), [0, 0, 0, 0, at, length - at - spread]))
        total = torch.stack(parts).sum(0).narrow(2, around[0], out)
        return total if bias is None else total + bias.reshape(-1, 1, 1, 1)

    return batched(x, whole)


# ---- windows


def by_planes(x: Tensor, flat: Callable[[Tensor], Tensor], deep: Callable[[Tensor], Tensor]) -> Tensor:
    """`flat` on every plane, then `deep` on columns [depth, points of a plane]."""

    def whole(x: Tensor) -> Tensor:
        y = flat(x.flatten(1, 2))
        size = y.shape[2:]
        y = deep(y.reshape(*x.shape[:3], -1))
        return y.reshape(*y.shape[:3], *size)

    return batched(x, whole)


def max_pool3d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    """The first of the largest elements is the same one, too."""
    kernel, around, steps = triple(kernel_size), triple(padding), triple(dilation)
    strides = triple(stride) if stride else kernel

    def flat(x: Tensor) -> Tensor:
        return F.max_pool2d(x, kernel[1:], strides[1:], around[1:], steps[1:], ceil_mode)

    def deep(x: Tensor) -> Tensor:
        return F.max_pool2d(x, (kernel[0], 1), (strides[0], 1), (around[0], 0), (steps[0], 1), ceil_mode)

    return by_planes(x, flat, deep)


def avg_pool3d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Sums of sums, over the number of elements."""
    kernel, around = triple(kernel_size), triple(padding)
    strides = triple(stride) if stride else kernel

    def flat(x: Tensor) -> Tensor:
        return F.avg_pool2d(x, kernel[1:], strides[1:], around[1:], ceil_mode, divisor_override=1)

    def deep(x: Tensor) -> Tensor:
        return F.avg_pool2d(x, (kernel[0], 1), (strides[0], 1), (around[0], 0), ceil_mode, divisor_override=1)

    total = by_planes(x, flat, deep)
    if divisor_override is not None:
        return total / divisor_override
    sizes = [
        window_sizes(*along, with_padding=count_include_pad)
        for along in zip(x.shape[-3:], kernel, strides, around, total.shape[-3:], strict=True)
    ]
    if all(len(set(counts)) == 1 for counts in sizes):
        return total / math.prod(counts[0] for counts in sizes)
    d, h, w = (torch.tensor(counts, dtype=x.dtype) for counts in sizes)
    return total / (d.reshape(-1, 1, 1) * h.reshape(-1, 1) * w)


def window_sizes(extent: int, kernel: int, stride: int, around: int, out: int, with_padding: bool) -> list[int]:
    """How many elements each window has, along one dimension."""
    found = []
    for start in range(-around, -around + out * stride, stride):
        end = min(start + kernel, extent + around)
        found.append(end - start if with_padding else min(end, extent) - max(start, 0))
    return found


def adaptive_sizes(x: Tensor, output_size: Any) -> list[int]:
    wanted = [output_size] * 3 if output_size is None or isinstance(output_size, int) else list(output_size)
    return [n if w is None else w for w, n in zip(wanted, x.shape[-3:], strict=True)]


def adaptive_avg_pool3d(x: Tensor, output_size: Any) -> Tensor:
    """The windows of a point are a product of intervals: its mean is a mean of means."""
    size = adaptive_sizes(x, output_size)
    return by_planes(
        x,
        lambda planes: F.adaptive_avg_pool2d(planes, (size[1], size[2])),
        lambda columns: F.adaptive_avg_pool2d(columns, (size[0], columns.shape[-1])),
    )


def lp_pool3d(x: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The root of a window's sum of powers."""
    mean = avg_pool3d(x.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    total: Tensor = mean.sign() * mean.abs().relu() * math.prod(triple(kernel_size))
    return total.pow(1.0 / norm_type)


def interpolate(x: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", **_: Any) -> Any:
    """By means over areas: the other modes are products with fixed matrices."""
    if mode != "area" or x.dim() != 5:
        return NotImplemented
    if size is None:
        size = [math.floor(n * f) for n, f in zip(x.shape[2:], triple(scale_factor), strict=True)]
    return adaptive_avg_pool3d(x, triple(size))


def pad(x: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """Pixels of each plane, then planes."""
    if mode not in ("reflect", "replicate") or len(pad) != 6:
        return NotImplemented
    around, behind = list(pad[:4]), [0, 0, *pad[4:]]
    return by_planes(x, lambda planes: F.pad(planes, around, mode), lambda columns: F.pad(columns, behind, mode))


REWRITES: dict[Any, Callable[..., Any]] = {
    F.pad: pad,
    torch.conv3d: conv3d,
    torch.conv_transpose3d: conv_transpose3d,
    torch.max_pool3d: max_pool3d,
    F.max_pool3d: max_pool3d,
    F.avg_pool3d: avg_pool3d,
    F.adaptive_avg_pool3d: adaptive_avg_pool3d,
    F.lp_pool3d: lp_pool3d,
    F.interpolate: interpolate,
}
