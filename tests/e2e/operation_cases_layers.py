"""Operations: convolutions, normalisations, pooling, embeddings."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from tests.e2e.operation_case import (
    case,
    fixed,
    integers,
    module,
    positive,
    spread,
    uniform,
)

# ---- convolutions

module("convolutions", "conv2d", nn.Conv2d(2, 3, 3), (2, 2, 5, 7))
module("convolutions", "conv2d_stride_pad", nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 2)), (2, 2, 6, 5))
module("convolutions", "conv2d_dilation", nn.Conv2d(2, 3, 3, dilation=(2, 1), padding=1, bias=False), (1, 2, 7, 6))
module("convolutions", "conv2d_groups", nn.Conv2d(4, 6, 3, groups=2, padding=1), (2, 4, 5, 4))
module("convolutions", "conv2d_depthwise", nn.Conv2d(3, 6, 3, groups=3, stride=2, padding=1), (2, 3, 7, 6))
module("convolutions", "conv2d_same", nn.Conv2d(2, 3, (3, 4), padding="same", dilation=(1, 2)), (1, 2, 6, 7))
module("convolutions", "conv2d_valid", nn.Conv2d(2, 3, 2, padding="valid"), (1, 2, 4, 5))
module("convolutions", "conv2d_1x1", nn.Conv2d(3, 5, 1), (2, 3, 4, 3))
module("convolutions", "conv2d_patches", nn.Conv2d(3, 5, (2, 3), stride=(2, 3)), (2, 3, 6, 9))
module("convolutions", "conv2d_pixels_apart", nn.Conv2d(3, 5, 1, stride=(2, 3)), (2, 3, 7, 8))
module("convolutions", "conv1d_patches", nn.Conv1d(2, 4, 3, stride=3, bias=False), (2, 2, 12))
module("convolutions", "conv2d_large", nn.Conv2d(2, 33, (3, 5), stride=(2, 1), dilation=(1, 2)), (2, 2, 9, 13))
module("convolutions", "conv1d_large", nn.Conv1d(3, 34, 11, stride=2, dilation=2), (1, 3, 87))
module("convolutions", "conv2d_unbatched", nn.Conv2d(2, 3, 3, padding=1), (2, 5, 4))
for mode in ("reflect", "replicate", "circular"):
    module("convolutions", f"conv2d_{mode}", nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode=mode), (2, 2, 5, 4))
    module("convolutions", f"conv1d_{mode}", nn.Conv1d(2, 3, 3, padding=2, padding_mode=mode), (2, 2, 6))
module("convolutions", "conv1d", nn.Conv1d(3, 4, 3), (2, 3, 9))
module("convolutions", "conv1d_full", nn.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2), (2, 4, 9))
module("convolutions", "conv1d_same", nn.Conv1d(2, 3, 4, padding="same"), (2, 2, 7))
module("convolutions", "conv1d_unbatched", nn.Conv1d(2, 3, 3), (2, 7))
module("convolutions", "transpose2d", nn.ConvTranspose2d(3, 2, 3), (2, 3, 4, 3))
module(
    "convolutions",
    "transpose2d_full",
    nn.ConvTranspose2d(4, 6, (3, 2), stride=(2, 3), padding=1, output_padding=(1, 0), groups=2, dilation=(1, 2)),
    (2, 4, 4, 3),
)
module("convolutions", "transpose2d_no_bias", nn.ConvTranspose2d(3, 2, 2, stride=2, bias=False), (1, 3, 3, 4))
module("convolutions", "transpose2d_stamps", nn.ConvTranspose2d(5, 3, (2, 3), stride=(2, 3)), (2, 5, 3, 5))
module("convolutions", "transpose2d_stamps_no_bias", nn.ConvTranspose2d(4, 3, 2, stride=2, bias=False), (1, 4, 7, 1))
module("convolutions", "transpose1d_stamps", nn.ConvTranspose1d(7, 2, 3, stride=3), (2, 7, 5))
module("convolutions", "transpose2d_depthwise", nn.ConvTranspose2d(3, 3, 3, stride=2, groups=3), (1, 3, 3, 4))
module("convolutions", "transpose1d", nn.ConvTranspose1d(3, 2, 3), (2, 3, 5))
module(
    "convolutions",
    "transpose1d_full",
    nn.ConvTranspose1d(4, 2, 4, stride=3, padding=1, output_padding=2, groups=2),
    (2, 4, 5),
)
module("convolutions", "separable", nn.Sequential(nn.Conv2d(2, 2, 3, groups=2), nn.Conv2d(2, 4, 1)), (1, 2, 5, 5))

# ---- normalisations

module("norms", "layer", nn.LayerNorm(6), (2, 3, 6))
module("norms", "layer_two", nn.LayerNorm((3, 4)), (2, 3, 4))
module("norms", "layer_plain", nn.LayerNorm(6, elementwise_affine=False), (3, 6))
module("norms", "layer_no_bias", nn.LayerNorm(6, bias=False), (3, 6))
module("norms", "rms", nn.RMSNorm(6), (2, 3, 6))
module("norms", "rms_eps_two", nn.RMSNorm((3, 4), eps=1e-3), (2, 3, 4))
module("norms", "rms_plain", nn.RMSNorm(6, elementwise_affine=False), (3, 6))
module("norms", "group", nn.GroupNorm(2, 4), (2, 4, 3, 2))
module("norms", "group_1d", nn.GroupNorm(3, 6), (2, 6, 5))
module("norms", "group_flat", nn.GroupNorm(2, 6), (3, 6))
module("norms", "group_plain", nn.GroupNorm(2, 4, affine=False), (2, 4, 3))
module("norms", "instance2d", nn.InstanceNorm2d(3), (2, 3, 4, 3))
module("norms", "instance2d_affine", nn.InstanceNorm2d(3, affine=True), (2, 3, 4, 3))
module("norms", "instance1d_affine", nn.InstanceNorm1d(3, affine=True), (2, 3, 7))
module("norms", "instance2d_tracked", nn.InstanceNorm2d(3, affine=True, track_running_stats=True), (2, 3, 4, 3))
module("norms", "instance1d_eval", nn.InstanceNorm1d(3, affine=True, track_running_stats=True).eval(), (2, 3, 7))
module("norms", "batch1d", nn.BatchNorm1d(5), (6, 5))
module("norms", "batch1d_signal", nn.BatchNorm1d(3), (2, 3, 5))
module("norms", "batch1d_eval", nn.BatchNorm1d(5).eval(), (4, 5))
module("norms", "batch2d", nn.BatchNorm2d(3, eps=1e-3, momentum=0.3), (2, 3, 4, 3))
module("norms", "batch2d_eval", nn.BatchNorm2d(3).eval(), (2, 3, 4, 3))
module("norms", "batch2d_plain", nn.BatchNorm2d(3, affine=False), (2, 3, 4, 3))
module("norms", "batch2d_no_stats", nn.BatchNorm2d(3, track_running_stats=False), (2, 3, 4, 3))
case(
    "norms",
    "batch_no_stats_function",
    lambda x, w: (
        F.batch_norm(x, None, None, w, training=True) + torch.batch_norm(x, w, None, None, None, True, 0.1, 1e-5, False)
    ),
    (2, 3, 4, 3),
    (3,),
)
module("norms", "batch2d_cumulative", nn.BatchNorm2d(3, momentum=None).eval(), (2, 3, 4, 3))
for sampling in ("bilinear", "nearest"):
    for edges in ("zeros", "border"):
        for corners in (False, True):
            case(
                "sampling",
                f"{sampling}_{edges}_{corners}",
                lambda x, g, s=sampling, e=edges, c=corners: F.grid_sample(x, g, s, e, c),
                (2, 3, 5, 4),
                (fixed if sampling == "nearest" else torch.Tensor.clone)(uniform((2, 3, 6, 2), -1.4, 1.4)),
            )
for corners in (False, True):
    case("sampling", f"affine_{corners}", lambda t, c=corners: F.affine_grid(t, (2, 3, 4, 5), c), (2, 2, 3))
module("norms", "local_response", nn.LocalResponseNorm(3, alpha=0.1, k=1.2), (2, 5, 3, 2))
module("norms", "local_response_1d", nn.LocalResponseNorm(2, alpha=0.3), (2, 5, 4))
for dim in (0, 1, -1):
    case("norms", f"softmax_dim{dim % 3}", lambda x, d=dim: F.softmax(x, d), (3, 4, 5))
    case("norms", f"log_softmax_dim{dim % 3}", lambda x, d=dim: F.log_softmax(x, d), (3, 4, 5))
case("norms", "softmin", lambda x: F.softmin(x, 1), (3, 4))
module("norms", "softmax2d", nn.Softmax2d(), (2, 3, 2, 2))
case(
    "norms",
    "softmax_masked",
    lambda x, m: F.softmax(x.masked_fill(m, float("-inf")), -1),
    (3, 4),
    fixed(torch.tensor([[False, True, False, False], [True, False, True, False], [False] * 4])),
)
module("norms", "weight_norm", parametrizations.weight_norm(nn.Linear(4, 3)), (2, 4))
module("norms", "weight_norm_conv", parametrizations.weight_norm(nn.Conv1d(2, 3, 3)), (2, 2, 5))
case("norms", "renorm", lambda x: torch.renorm(x, 2, 1, 1.5) * x.renorm(3.0, 0, 0.5), (3, 4, 2))
case("norms", "max_norm", lambda x, t: F.embedding(t, x, max_norm=1.2, norm_type=1.0), (7, 3), integers((2, 5), 7))
case("norms", "spectral_norm", parametrizations.spectral_norm(nn.Conv1d(2, 3, 3), n_power_iterations=2), (2, 2, 5))
case("norms", "spectral_norm_old", nn.utils.spectral_norm(nn.Linear(4, 3)), (2, 4))
case("norms", "orthogonal", parametrizations.orthogonal(nn.Linear(5, 3)), (2, 5))
module("norms", "weight_norm_whole", parametrizations.weight_norm(nn.Linear(4, 3), dim=None), (2, 4))

# ---- pools

module("pools", "max2d", nn.MaxPool2d(2), spread(2, 3, 4, 6))
module("pools", "max2d_full", nn.MaxPool2d((3, 2), stride=(2, 1), padding=1, dilation=(1, 2)), spread(2, 2, 6, 5))
module("pools", "max2d_ceil", nn.MaxPool2d(3, stride=2, ceil_mode=True), spread(1, 2, 6, 8))
module("pools", "max1d", nn.MaxPool1d(3, stride=2, padding=1), spread(2, 3, 8))
module("pools", "max1d_ceil", nn.MaxPool1d(2, ceil_mode=True), spread(2, 3, 7))
module("pools", "avg2d", nn.AvgPool2d(2), (2, 3, 4, 6))
module("pools", "avg2d_full", nn.AvgPool2d((3, 2), stride=(2, 1), padding=1), (2, 2, 6, 5))
module("pools", "avg2d_exclude", nn.AvgPool2d(3, 2, padding=1, ceil_mode=True, count_include_pad=False), (1, 2, 6, 5))
module("pools", "avg2d_ceil", nn.AvgPool2d(3, 2, padding=1, ceil_mode=True), (1, 2, 6, 5))
module("pools", "avg2d_divisor", nn.AvgPool2d(2, divisor_override=3), (1, 2, 4, 4))
module("pools", "avg1d", nn.AvgPool1d(3, stride=2, padding=1), (2, 3, 8))
module("pools", "avg1d_ceil", nn.AvgPool1d(3, 2, ceil_mode=True, count_include_pad=False), (2, 3, 8))
module("pools", "adaptive_avg2d", nn.AdaptiveAvgPool2d((2, 3)), (2, 3, 5, 7))
module("pools", "adaptive_avg2d_one", nn.AdaptiveAvgPool2d(1), (2, 3, 5, 4))
module("pools", "adaptive_avg2d_none", nn.AdaptiveAvgPool2d((None, 2)), (2, 3, 5, 4))
module("pools", "adaptive_avg1d", nn.AdaptiveAvgPool1d(3), (2, 3, 7))
module("pools", "adaptive_max2d", nn.AdaptiveMaxPool2d((2, 3)), spread(2, 3, 5, 7))
module("pools", "adaptive_max1d", nn.AdaptiveMaxPool1d(3), spread(2, 3, 7))
module("pools", "lp2d", nn.LPPool2d(2, 3, stride=2), positive(2, 2, 5, 5))
module("pools", "lp1d", nn.LPPool1d(3, 2), positive(2, 2, 6))
module("pools", "max_unpool", nn.MaxPool2d(2, stride=2), spread(2, 4, 4))
case("pools", "max_indices", lambda x: F.max_pool2d(x, 2, return_indices=True)[0], spread(1, 2, 4, 4))
case("pools", "global_mean", lambda x: x.mean((2, 3)).flatten(1), (2, 3, 4, 3))

# ---- embeddings and images

tokens = fixed(torch.tensor([[1, 4, 1, 0, 2], [4, 4, 3, 1, 0]]))
module("embeddings", "embedding", nn.Embedding(6, 3), tokens)
module("embeddings", "embedding_padding", nn.Embedding(6, 3, padding_idx=1), tokens)
module("embeddings", "embedding_negative_padding", nn.Embedding(6, 3, padding_idx=-2), tokens)
module("embeddings", "embedding_vector", nn.Embedding(6, 4), fixed(torch.tensor([3, 3, 5])))
module("embeddings", "embedding_scalar", nn.Embedding(6, 4), fixed(torch.tensor(3)))
module("embeddings", "embedding_max", nn.Sequential(nn.Embedding(6, 4), nn.Linear(4, 3)), tokens)
case("embeddings", "embedding_tied", lambda w, i: F.embedding(i, w) @ w.t(), (6, 3), tokens)
case("embeddings", "embedding_by_freq", lambda w, i: F.embedding(i, w, scale_grad_by_freq=True), (6, 3), tokens)
for mode in ("sum", "mean", "max"):
    module("embeddings", f"bag_{mode}", nn.EmbeddingBag(6, 3, mode=mode), tokens)
case("embeddings", "one_hot", lambda w, i: F.one_hot(i, 6).float() @ w, (6, 3), tokens)

case("images", "nearest", lambda x: F.interpolate(x, scale_factor=2), (2, 2, 3, 4))
case("images", "nearest_size", lambda x: F.interpolate(x, size=(5, 3)), (1, 2, 3, 4))
case("images", "nearest_1d", lambda x: F.interpolate(x, scale_factor=3), (2, 2, 4))
case("images", "bilinear", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (2, 2, 3, 4))
case("images", "bilinear_size", lambda x: F.interpolate(x, size=(5, 3), mode="bilinear"), (1, 2, 3, 4))
case(
    "images",
    "bilinear_corners",
    lambda x: F.interpolate(x, size=(5, 7), mode="bilinear", align_corners=True),
    (1, 2, 3, 4),
)
case("images", "linear_1d", lambda x: F.interpolate(x, scale_factor=2, mode="linear"), (2, 2, 4))
case("images", "linear_1d_corners", lambda x: F.interpolate(x, size=7, mode="linear", align_corners=True), (2, 2, 4))
case("images", "bicubic", lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), (1, 2, 4, 3))
case("images", "nearest_exact", lambda x: F.interpolate(x, size=(5, 3), mode="nearest-exact"), (1, 2, 3, 4))
case("images", "area", lambda x: F.interpolate(x, size=(2, 3), mode="area"), (1, 2, 5, 4))
module("images", "upsample", nn.Upsample(scale_factor=(2, 3), mode="bilinear", align_corners=True), (1, 2, 3, 2))
module("images", "upsampling_nearest", nn.UpsamplingNearest2d(scale_factor=2), (1, 2, 3, 2))
module("images", "pixel_shuffle", nn.PixelShuffle(2), (2, 8, 3, 2))
module("images", "pixel_unshuffle", nn.PixelUnshuffle(2), (2, 2, 4, 6))
module("images", "channel_shuffle", nn.ChannelShuffle(2), (2, 6, 2, 3))
module("images", "unfold", nn.Unfold((2, 3), dilation=(1, 2), padding=1, stride=2), (2, 2, 4, 6))
module("images", "fold", nn.Fold((4, 5), (2, 2)), (2, 8, 12))
case("images", "pad_constant", lambda x: F.pad(x, (1, 2, -1, 1), value=0.7), (2, 2, 3, 4))
case("images", "pad_last", lambda x: F.pad(x, (2, 0)), (3, 4))
for mode in ("reflect", "replicate", "circular"):
    case("images", f"pad_{mode}_2d", lambda x, m=mode: F.pad(x, (2, 1, 1, 2), mode=m), (2, 2, 4, 5))
    case("images", f"pad_{mode}_1d", lambda x, m=mode: F.pad(x, (3, 1), mode=m), (2, 2, 5))
module("images", "zero_pad", nn.ZeroPad2d((1, 0, 2, 1)), (1, 2, 3, 3))
case("images", "crop", lambda x: x[:, :, 1:-1, 1:-1] + F.pad(x, (-1, -1, -1, -1)), (1, 2, 4, 5))
