"""Values at computed places, taken apart, beside PyTorch's own and beside plain loops: results and gradients."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from trainlib_deployer.capture.rewrites import REWRITES
from trainlib_deployer.capture.rewrites_sampling import MODES, PADDINGS

Tensor = torch.Tensor
DEFORMED = REWRITES["torchvision::deform_conv2d"]


def far(ours: Callable[..., Tensor], theirs: Callable[..., Tensor], *leaves: Tensor) -> float:
    """The largest difference of results and gradients."""
    found = []
    for function in (ours, theirs):
        own = [leaf.clone().requires_grad_() for leaf in leaves]
        y = function(*own)
        slopes = torch.randn(y.shape, generator=torch.Generator().manual_seed(2), dtype=y.dtype)
        found.append([y.detach(), *torch.autograd.grad(y, own, slopes)])
    return max(float((a - b).abs().max()) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padding", PADDINGS)
def test_every_mode_of_grid_sample(mode: str, padding: str) -> None:
    """Far outside, and on the pixels themselves, where slopes break."""
    torch.manual_seed(1)
    for corners, deep in itertools.product((True, False), (False, True)):
        if deep and mode == "bicubic":
            continue
        size = (2, 3, 5, 7, 4) if deep else (2, 3, 5, 7)
        rank = len(size) - 2
        settings = {"mode": mode, "padding_mode": padding, "align_corners": corners}
        own = F.affine_grid(torch.eye(rank, rank + 1).expand(2, -1, -1), list(size), align_corners=corners)
        for grid in (torch.randn(2, *range(3, 3 + rank), rank) * 1.7, own):
            x, grid = torch.randn(size).double(), grid.double()
            ours = lambda x, g, s=settings: REWRITES[F.grid_sample](x, g, **s)  # noqa: E731
            assert far(ours, lambda x, g, s=settings: F.grid_sample(x, g, **s), x, grid) < 1e-9
        lonely = torch.randn(1, 2, *[1] * rank).double(), torch.randn(1, *range(2, 2 + rank), rank).double()
        assert far(ours, lambda x, g, s=settings: F.grid_sample(x, g, **s), *lonely) < 1e-9


def bilinear(plane: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """One value of a plane around which all is zero."""
    total = torch.zeros((), dtype=plane.dtype)
    for row, column in itertools.product((math.floor(y), math.floor(y) + 1), (math.floor(x), math.floor(x) + 1)):
        if 0 <= row < plane.shape[0] and 0 <= column < plane.shape[1]:
            total = total + plane[row, column] * (1 - (y - row).abs()) * (1 - (x - column).abs())
    return total


def by_loops(x: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, *settings: int) -> Tensor:
    stride, pad, step, groups, shared = settings[0:2], settings[2:4], settings[4:6], settings[6], settings[7]
    kernel, out = weight.shape[2:], offset.shape[2:]
    y = bias.reshape(1, -1, 1, 1).expand(len(x), -1, *out).clone()
    taps = list(itertools.product(*map(range, kernel)))
    for n, o, i, j in itertools.product(*map(range, y.shape)):
        for c, (k, (a, b)) in itertools.product(range(weight.shape[1]), enumerate(taps)):
            channel = o // (len(weight) // groups) * weight.shape[1] + c
            pair = channel // (x.shape[1] // shared) * len(taps) + k
            row = i * stride[0] - pad[0] + a * step[0] + offset[n, 2 * pair, i, j]
            column = j * stride[1] - pad[1] + b * step[1] + offset[n, 2 * pair + 1, i, j]
            value = bilinear(x[n, channel], row, column)
            y[n, o, i, j] = y[n, o, i, j] + weight[o, c, a, b] * value * mask[n, pair, i, j]
    return y


def test_deformable_convolution() -> None:
    torch.manual_seed(2)
    settings = (1, 2, 1, 0, 2, 1, 2, 2)
    shapes = ((1, 4, 5, 4), (2, 2, 2, 3), (1, 2 * 2 * 6, 5, 1), (1, 2 * 6, 5, 1), (2,))
    leaves = [torch.randn(s).double() for s in shapes]

    def ours(*given: Any) -> Tensor:
        return DEFORMED(*given, *settings, True)

    assert far(ours, lambda *given: by_loops(*given, *settings), *leaves) < 1e-9
