"""Operations: volumes, places, small matrices."""

# ruff: noqa: PLW0108 - lambdas keep a case on one line, and `x == x` is one
from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.e2e.operation_case import (
    Leaf,
    case,
    cases,
    fixed,
    integers,
    mask,
    module,
    normal,
    positive,
    spread,
)

# ---- three dimensions

VOLUME = (2, 4, 5, 7, 6)
module("volumes", "Conv3d", nn.Conv3d(4, 6, (3, 2, 3), (2, 1, 2), (1, 0, 2), groups=2), VOLUME)
module("volumes", "Conv3d same", nn.Conv3d(4, 3, (2, 3, 4), padding="same", dilation=(2, 1, 1)), VOLUME)
module("volumes", "Conv3d of one sample", nn.Conv3d(4, 3, 2, bias=False), VOLUME[1:])
module(
    "volumes",
    "ConvTranspose3d",
    nn.ConvTranspose3d(4, 6, (3, 2, 3), (3, 2, 1), (1, 0, 1), (2, 1, 0), groups=2, dilation=(1, 2, 1)),
    VOLUME,
)
module("volumes", "MaxPool3d", nn.MaxPool3d((2, 3, 2), (1, 2, 2), (1, 1, 0), ceil_mode=True), spread(*VOLUME))
module("volumes", "MaxPool3d dilated", nn.MaxPool3d(2, 1, dilation=(2, 1, 3)), spread(*VOLUME))
module("volumes", "AvgPool3d", nn.AvgPool3d((2, 3, 2), (2, 3, 1), 1, ceil_mode=True), VOLUME)
module("volumes", "AvgPool3d counted", nn.AvgPool3d(3, 2, 1, ceil_mode=True, count_include_pad=False), VOLUME)
module("volumes", "AvgPool3d divided", nn.AvgPool3d(2, divisor_override=3), VOLUME)
module("volumes", "LPPool3d", nn.LPPool3d(2, 2), positive(*VOLUME))
module("volumes", "AdaptiveAvgPool3d", nn.AdaptiveAvgPool3d((3, None, 4)), VOLUME)
module("volumes", "AdaptiveMaxPool3d", nn.AdaptiveMaxPool3d((3, 2, None)), spread(*VOLUME))
module("volumes", "ReflectionPad3d", nn.ReflectionPad3d((1, 2, 3, 0, 2, 1)), VOLUME)
module("volumes", "ReplicationPad3d of one sample", nn.ReplicationPad3d((1, 0, 2, 3, 1, 2)), VOLUME[1:])
module("volumes", "trilinear", nn.Upsample(scale_factor=(1.5, 2.0, 0.7), mode="trilinear"), VOLUME)
module("volumes", "trilinear aligned", nn.Upsample((7, 3, 8), mode="trilinear", align_corners=True), VOLUME)

# ---- places of maxima

module("places", "MaxPool1d", nn.MaxPool1d(3, 2, 1, 2, True, ceil_mode=True), spread(2, 3, 11))
module("places", "MaxPool2d", nn.MaxPool2d((3, 2), (2, 1), 1, return_indices=True), spread(2, 3, 7, 5))
module("places", "MaxPool3d", nn.MaxPool3d(2, return_indices=True), spread(2, 4, 5, 3))
module("places", "AdaptiveMaxPool2d", nn.AdaptiveMaxPool2d((3, 2), return_indices=True), spread(2, 3, 7, 5))


class Unpooled(nn.Module):
    """Pooled, scaled, and put back where the maxima were."""

    def __init__(self, dims: int) -> None:
        super().__init__()
        self.pool = getattr(nn, f"MaxPool{dims}d")(2, return_indices=True)
        self.unpool = getattr(nn, f"MaxUnpool{dims}d")(2)

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> Any:
        y, places = self.pool(x)
        return self.unpool(y * w, places, output_size=x.shape)


for dims, extents in ((1, (11,)), (2, (7, 5)), (3, (5, 3, 4))):
    case("places", f"MaxUnpool{dims}d", Unpooled(dims), spread(2, 3, *extents), tuple(e // 2 for e in extents))

# ---- rare ones

case("rare", "cummax", lambda x: torch.cummax(x, 1), spread(3, 11, 2))
case("rare", "cummin", lambda x: torch.cummin(x, 0), spread(13))
case("rare", "logcumsumexp", lambda x: torch.logcumsumexp(x, -1), (3, 13))
case("rare", "masked_scatter", lambda x, m, s: x.masked_scatter(m, s), (5, 7), mask(5, 7), (37,))
case("rare", "copysign", lambda x, y: torch.copysign(x, torch.cat([y, y * 0])), (14,), spread(7))
case("rare", "round to decimals", lambda x: x * torch.round(x.detach(), decimals=2), spread(11))
case("rare", "addbmm", lambda x, a, b: torch.addbmm(x, a, b, beta=0.5, alpha=2), (3, 5), (4, 3, 2), (4, 2, 5))
case("rare", "block_diag", lambda x, y, z: torch.block_diag(x, y, z), (2, 3), (5,), ())
case("rare", "sgn", lambda x: x * torch.sgn(x) + torch.sgn(x), spread(11))
case("rare", "copies of views", lambda x: torch.permute_copy(torch.squeeze_copy(x, 1), (1, 0)), (5, 1, 3))
case(
    "rare",
    "statistics of group norm",
    lambda x, w: torch.native_group_norm(x, w, None, 2, 4, 15, 2, 1e-5),
    (2, 4, 15),
    (4,),
)
case("rare", "an output without elements", lambda x: (x, x[:0]), (5,))
case("rare", "dimensions of a number", lambda x: x.transpose(0, -1).unfold(0, 1, 1) * 2, ())

# ---- small matrices


def solid(*shape: int) -> Leaf:
    """Far from singular, and not symmetric."""
    return normal(shape) + 2.0 * math.sqrt(shape[-1]) * torch.eye(shape[-1])


SQUARE = (2, 5, 5)
cases(
    "matrices",
    {
        "inverse": torch.linalg.inv,
        "determinant": torch.linalg.det,
        "logarithm of the determinant": torch.linalg.slogdet,
        "Cholesky": lambda a: torch.linalg.cholesky(a @ a.mT),
        "Cholesky, upper": lambda a: torch.linalg.cholesky(a @ a.mT, upper=True),
        "LU": torch.linalg.lu,
        "matrix exponential": lambda a: torch.linalg.matrix_exp(a * 0.3),
        "negative power": lambda a: torch.linalg.matrix_power(a, -2),
    },
    solid(*SQUARE),
)
case("matrices", "determinant that is zero", lambda a: a + torch.linalg.det(a * torch.eye(3)[:, [0, 1, 1]].mT), (3, 3))
case("matrices", "QR of a triangle", lambda a: torch.linalg.qr(a.triu())[1], (4, 4))
case("matrices", "rows are exchanged", torch.linalg.inv, solid(7, 7).flip(0))
case("matrices", "solve", torch.linalg.solve, solid(*SQUARE), (2, 5, 3))
case("matrices", "solve for a vector", torch.linalg.solve, solid(3, 3), (3,))
case("matrices", "solve from the right", lambda a, b: torch.linalg.solve(a, b, left=False), solid(*SQUARE), (3, 5))
case(
    "matrices",
    "triangle",
    lambda a, b: torch.linalg.solve_triangular(a, b, upper=True, left=False, unitriangular=True),
    solid(*SQUARE),
    (2, 3, 5),
)
case("matrices", "QR, tall", lambda a: torch.linalg.qr(a), (2, 7, 3))
case("matrices", "QR, wide", lambda a: torch.linalg.qr(a, mode="complete"), (3, 5))
case("rare", "strides", lambda x: torch.as_strided(x, (3, 4), (2, 1), 1), (3, 5))
case("rare", "diagonal_scatter", lambda x, y: torch.diagonal_scatter(x, y, 1, 0, 2), (3, 2, 5), (2, 3))


# ---- into places, by rank

for how in ("sum", "prod", "mean", "amax", "amin"):
    for whole in (True, False):
        case(
            "into places",
            f"scatter_reduce {how} {whole}",
            lambda x, i, s, how=how, whole=whole: x.scatter_reduce(1, i, s, how, include_self=whole),
            positive(3, 5, 2),
            integers((2, 7, 2), 5),
            positive(2, 7, 2),
        )
for how in ("prod", "mean", "amax", "amin"):
    case(
        "into places",
        f"index_reduce {how}",
        lambda x, i, s, how=how: x.index_reduce(0, i, s, how, include_self=False),
        positive(5, 3),
        integers((7,), 5),
        positive(7, 3),
    )
case("by rank", "kthvalue", lambda x: torch.kthvalue(x, 3, 0, keepdim=True), spread(7, 3))
case("by rank", "nanmedian", lambda x, m: torch.nanmedian(x.masked_fill(m, math.nan), 1)[0], spread(3, 11), mask(3, 11))
case(
    "by rank", "take and put", lambda x, i, s: x.put(i, s, accumulate=True).take(i - 5), (3, 5), integers((4,), 5), (4,)
)
case("by rank", "combinations", lambda x: torch.combinations(x, 3), (5,))
case("by rank", "cov", lambda x, w: torch.cov(x, aweights=w), (3, 7), positive(7))
case("by rank", "corrcoef", torch.corrcoef, (3, 7))
module(
    "by rank",
    "EmbeddingBag",
    nn.EmbeddingBag(7, 3, mode="max", padding_idx=2),
    integers((11,), 7),
    fixed(torch.tensor([0, 4, 4, 9])),
)
module(
    "by rank",
    "mean of a bag",
    nn.EmbeddingBag(7, 3, include_last_offset=True),
    integers((11,), 7),
    fixed(torch.tensor([0, 4, 11])),
)
case("losses", "multi_margin_loss of one sample", lambda x: F.multi_margin_loss(x, torch.tensor(2)), (5,))


def ranks(x: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Whole numbers that floats would take for equal."""
    places = [numbers.sort(1)[1], numbers.sort(0, descending=True)[1], numbers.sort(1)[0].diff(dim=1) < 3]
    places += [numbers.topk(3, 1)[1], numbers.max(1)[1], numbers.min(0)[1], numbers.argmax(1), numbers.argmin()]
    return x * sum(((p + 1) * (7 * torch.arange(p.numel()).reshape(p.shape) + 1)).sum() for p in places) / 1e4


large = torch.where(mask(5, 7), 2**29, -(2**29)) + (13 * torch.arange(35) % 35).reshape(5, 7)
case("by rank", "integers beyond 2^24", ranks, (3,), fixed(large))
case("rare", "most frequent", lambda x: torch.mode(torch.cat([x, x.flip(1), x[:, 3:5]], 1), 1), (7, 11))
case("rare", "index_fill of one number", lambda x, i: x.index_fill(0, i, 0.5) + x, (), fixed(torch.tensor([0])))
case("rare", "resize_as", lambda x: x.sum(1) * x.detach().mul(2).resize_as_(x[0]), (4, 4))
case("rare", "index_copy of one number", lambda x, i, y: x.index_copy(0, i, y), (), fixed(torch.tensor([0])), ())
