"""Sampling of images at computed places, in terms of gather."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

Tensor = torch.Tensor


def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Any:
    """Where in the source each pixel's centre lies: theta (x, y, 1), coordinates from -1 to 1."""
    if len(size) != 4:
        return NotImplemented
    rows, columns = size[2:]
    y, x = (centres(n, bool(align_corners)) for n in (rows, columns))
    ones = torch.ones(rows, columns)
    base = torch.stack([x.expand(rows, columns), y.unsqueeze(1).expand(rows, columns), ones], dim=-1)
    return (base.view(1, rows * columns, 3) @ theta.transpose(1, 2)).view(size[0], rows, columns, 2)


def centres(count: int, align_corners: bool) -> Tensor:
    ends = 1.0 if align_corners else (count - 1) / count
    return torch.linspace(-ends, ends, count) if count > 1 else torch.zeros(1)


def grid_sample(
    x: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Any:
    """Every pixel from its nearest neighbour (then nobody trains the grid), or from four of them."""
    if mode == "nearest" and grid.requires_grad:
        return NotImplemented
    if x.dim() != 4 or mode not in ("bilinear", "nearest") or padding_mode not in ("zeros", "border"):
        return NotImplemented
    rows, columns = x.shape[2:]
    place = Pixels(x, padding_mode == "zeros")
    at_x, at_y = (
        position(grid.select(-1, i), n, bool(align_corners), padding_mode) for i, n in enumerate((columns, rows))
    )
    if mode == "nearest":
        return place(at_x.round(), at_y.round())
    left, top = at_x.detach().floor(), at_y.detach().floor()
    right_share, bottom_share = (at_x - left).unsqueeze(1), (at_y - top).unsqueeze(1)
    upper = place(left, top) * (1 - right_share) + place(left + 1, top) * right_share
    lower = place(left, top + 1) * (1 - right_share) + place(left + 1, top + 1) * right_share
    return upper * (1 - bottom_share) + lower * bottom_share


def position(g: Tensor, count: int, align_corners: bool, padding_mode: str) -> Tensor:
    """Pixels from coordinates between -1 and 1."""
    at = (g + 1) * ((count - 1) / 2) if align_corners else ((g + 1) * count - 1) / 2
    return at.clamp(0, count - 1) if padding_mode == "border" else at


class Pixels:
    """x[:, :, y, x] at whole positions [batch, rows, columns]; outside of the image the nearest pixel, or zero."""

    def __init__(self, x: Tensor, zeros: bool) -> None:
        self.x = x
        self.zeros = zeros

    def __call__(self, at_x: Tensor, at_y: Tensor) -> Tensor:
        batch, channels, rows, columns = self.x.shape
        inner_x, inner_y = at_x.clamp(0, columns - 1), at_y.clamp(0, rows - 1)
        index = (inner_y * columns + inner_x).long().view(batch, 1, -1).expand(-1, channels, -1)
        found = self.x.flatten(2).gather(2, index).view(batch, channels, *at_x.shape[1:])
        inside = (inner_x == at_x) & (inner_y == at_y)
        return found * inside.unsqueeze(1) if self.zeros else found


def adaptive_avg_pool2d(x: Tensor, output_size: Any) -> Any:
    """PyTorch's own mean is laid out like x, by strides, where x has the channels last."""
    if output_size in (1, (1, 1), [1, 1]):
        return x.mean((-2, -1), keepdim=True)
    return NotImplemented


def adaptive_avg_pool1d(x: Tensor, output_size: Any) -> Any:
    """PyTorch takes it as an image of one row."""
    return x.mean(-1, keepdim=True) if output_size in (1, (1,), [1]) else NotImplemented


REWRITES: dict[Any, Callable[..., Any]] = {
    F.adaptive_avg_pool1d: adaptive_avg_pool1d,
    F.adaptive_avg_pool2d: adaptive_avg_pool2d,
    F.affine_grid: affine_grid,
    F.grid_sample: grid_sample,
}
