"""Values of images and volumes at computed places, in terms of gather."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from trainlib_deployer.capture.extents import per_dimension

Tensor = torch.Tensor
MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")


# ---- grids


def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Tensor:
    """Where in the source each pixel's centre lies: theta (x, y, 1), or (x, y, z, 1); coordinates from -1 to 1."""
    extents = size[2:]
    axes = [centres(n, bool(align_corners)) for n in extents]
    points = [*reversed(torch.meshgrid(*axes, indexing="ij")), torch.ones(*extents)]
    base = torch.stack(points, dim=-1).reshape(1, -1, len(points))
    return (base @ theta.transpose(1, 2)).view(size[0], *extents, len(extents))


def centres(count: int, align_corners: bool) -> Tensor:
    ends = 1.0 if align_corners else (count - 1) / count
    return torch.linspace(-ends, ends, count) if count > 1 else torch.zeros(1)


def grid_sample(
    x: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Every point from its nearest neighbour, from the two along each dimension, or from four."""
    corners, extents = bool(align_corners), x.shape[2:]
    coordinates = zip(reversed(grid.unbind(-1)), extents, strict=True)  # x comes first, and last in memory
    at = [pixels(g, n, corners) for g, n in coordinates]
    if mode == "bicubic":
        return mixed(Points(x, padding_mode, corners), at, cubic)
    inner = [inside(p, n, padding_mode, corners) for p, n in zip(at, extents, strict=True)]
    place = Points(x)
    if mode == "bilinear":
        return mixed(place, inner, linear)
    return place([p.detach().round() for p in inner]) + nothing_of(grid)


def nothing_of(grid: Tensor) -> Tensor:
    """Zeros [batch, 1, ...] that depend on the grid: its gradient is zero, not missing."""
    return grid.masked_fill(torch.ones_like(grid, dtype=torch.bool), 0.0).sum(-1).unsqueeze(1)


def grid_sampler(x: Tensor, grid: Tensor, mode: int, padding_mode: int, align_corners: bool) -> Tensor:
    return grid_sample(x, grid, MODES[mode], PADDINGS[padding_mode], align_corners)


def pixels(g: Tensor, count: int, corners: bool) -> Tensor:
    """Positions from coordinates between -1 and 1."""
    return (g + 1) * ((count - 1) / 2) if corners else ((g + 1) * count - 1) / 2


def inside(at: Tensor, count: int, padding_mode: str, corners: bool) -> Tensor:
    """Positions outside moved to the border, or mirrored at it; what was moved there has no slope."""
    if padding_mode == "zeros":
        return at
    if padding_mode == "reflection":
        at = mirrored(at, 0.0 if corners else -0.5, count - 1.0 if corners else float(count))
    held = at.detach()
    return torch.where((held > 0) & (held < count - 1), at, held.clamp(0, count - 1))


def mirrored(at: Tensor, low: float, span: float) -> Tensor:
    """Between `low` and `span` more, back and forth."""
    if not span:
        return at  # the border is all that there is
    held = at.detach()
    apart = (held - low).abs()
    turns = (apart / span).floor()
    rest = apart - turns * span
    back = turns % 2 == 1
    place = torch.where(back, span - rest, rest) + low
    slope = torch.where(back, -1.0, 1.0) * torch.where(held < low, -1.0, 1.0)
    return place + slope * (at - held)


# ---- what is mixed

Taps = Sequence[tuple[Tensor, Tensor]]  # whole positions along a dimension, and their shares


def linear(at: Tensor) -> Taps:
    first = at.detach().floor()
    share = at - first
    return [(first, 1 - share), (first + 1, share)]


A = -0.75


def cubic(at: Tensor) -> Taps:
    """Keys' kernel, as PyTorch's bicubic interpolation has it."""
    first = at.detach().floor()
    t = at - first

    def near(d: Tensor) -> Tensor:
        return ((A + 2) * d - (A + 3)) * d * d + 1

    def far(d: Tensor) -> Tensor:
        return ((A * d - 5 * A) * d + 8 * A) * d - 4 * A

    return [(first - 1, far(t + 1)), (first, near(t)), (first + 1, near(1 - t)), (first + 2, far(2 - t))]


def mixed(place: Points, at: Sequence[Tensor], taps: Callable[[Tensor], Taps]) -> Tensor:
    """The sum over all neighbours, of which each dimension has a few. Backward looks each up again, as PyTorch's does:
    what that makes on the way is many times as large as the image and the grid."""

    def term(numbers: Sequence[int]) -> Tensor:
        chosen = [taps(p)[i] for p, i in zip(at, numbers, strict=True)]
        share = reduce(torch.mul, [s for _, s in chosen])
        return place([p for p, _ in chosen]) * share.unsqueeze(1)

    neighbours = itertools.product(*(range(len(taps(p))) for p in at))
    return reduce(torch.add, (again(term, numbers) for numbers in neighbours))


def again(function: Callable[..., Tensor], *args: Any) -> Tensor:
    """Its result; what backward needs of it is computed again there."""
    made: Tensor = checkpoint(function, *args, use_reentrant=False, preserve_rng_state=False)
    return made


class Points:
    """x[:, :, y, x] at whole positions, one tensor [batch, ...] a dimension; outside there is zero, or what the padding
    has there."""

    def __init__(self, x: Tensor, padding_mode: str = "zeros", corners: bool = False) -> None:
        self.x = x
        self.padding_mode = padding_mode
        self.corners = corners

    def __call__(self, at: Sequence[Tensor]) -> Tensor:
        batch, channels, *extents = self.x.shape
        at = [inside(p, n, self.padding_mode, self.corners) for p, n in zip(at, extents, strict=True)]
        inner = [p.clamp(0, n - 1) for p, n in zip(at, extents, strict=True)]
        index = reduce(lambda total, pn: total * pn[1] + pn[0], zip(inner[1:], extents[1:], strict=True), inner[0])
        flat = index.long().reshape(batch, 1, -1).expand(-1, channels, -1)
        found = self.x.flatten(2).gather(2, flat).reshape(batch, channels, *at[0].shape[1:])
        if self.padding_mode != "zeros":
            return found
        within = reduce(torch.logical_and, [p == q for p, q in zip(at, inner, strict=True)])
        return found * within.unsqueeze(1)


# ---- deformable convolution


def deform_conv2d(x: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, *settings: Any) -> Tensor:
    """Each tap of the kernel reads where its offset moves it; the rest is a product with all taps of a point."""
    strides, around, steps = (per_dimension(settings[i : i + 2], 2) for i in (0, 2, 4))
    groups, shared, masked = settings[6:9]  # channels that share their offsets are neighbours
    count, rows, columns = len(x), *offset.shape[2:]
    taps = math.prod(weight.shape[2:])
    moved = offset.reshape(count * shared, taps, 2, rows, columns)
    grids = [
        torch.arange(k).mul(step).reshape((-1, 1, 1, 1) if d == 0 else (1, -1, 1, 1))
        + torch.arange(n).mul(stride).sub(pad).reshape((1, 1, -1, 1) if d == 0 else (1, 1, 1, -1))
        for d, (k, n, step, stride, pad) in enumerate(
            zip(weight.shape[2:], (rows, columns), steps, strides, around, strict=True)
        )
    ]
    shape = (*weight.shape[2:], rows, columns)
    at = [g.expand(shape).reshape(taps, rows, columns) + moved[:, :, d] for d, g in enumerate(grids)]
    found = mixed(Points(x.reshape(count * shared, -1, *x.shape[2:])), at, linear)
    if masked:
        found = found * mask.reshape(count * shared, 1, taps, rows, columns)
    return F.conv2d(found.reshape(count, -1, rows, columns), weight.reshape(len(weight), -1, 1, 1), bias, groups=groups)


REWRITES: dict[Any, Callable[..., Any]] = {
    F.affine_grid: affine_grid,
    F.grid_sample: grid_sample,
    torch.grid_sampler: grid_sampler,
    torch.grid_sampler_2d: grid_sampler,
    torch.grid_sampler_3d: grid_sampler,
    "torchvision::deform_conv2d": deform_conv2d,
}
