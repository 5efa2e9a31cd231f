"""Torch functions that are captured in another, equal form: one that keeps what a kernel needs, or that PyTorch
can trace."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from trainlib_deployer.capture.assigned_data import REWRITES as ASSIGNED_DATA
from trainlib_deployer.capture.batch_counts import Share
from trainlib_deployer.capture.recurrent import REWRITES as RECURRENT
from trainlib_deployer.capture.rewrites_experts import REWRITES as EXPERTS
from trainlib_deployer.capture.rewrites_fractional import REWRITES as FRACTIONAL
from trainlib_deployer.capture.rewrites_linalg import REWRITES as LINALG
from trainlib_deployer.capture.rewrites_norm import REWRITES as NORM
from trainlib_deployer.capture.rewrites_quantization import REWRITES as QUANTIZATION
from trainlib_deployer.capture.rewrites_sampling import REWRITES as SAMPLING
from trainlib_deployer.capture.rewrites_selection import REWRITES as SELECTION
from trainlib_deployer.capture.rewrites_sequence import REWRITES as SEQUENCE
from trainlib_deployer.capture.rewrites_spectral import REWRITES as SPECTRAL
from trainlib_deployer.capture.rewrites_vision import REWRITES as VISION
from trainlib_deployer.capture.rewrites_volume import REWRITES as VOLUME
from trainlib_deployer.capture.rewrites_windows import REWRITES as WINDOWS

aten = torch.ops.aten
Tensor = torch.Tensor


def batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """The variant whose new statistics become results when mutation is removed."""
    if not training:
        return NotImplemented
    if isinstance(momentum, Share) and running_mean is not None and running_var is not None:
        return cumulative_batch_norm(x, (running_mean, running_var), weight, bias, momentum.value(), eps)
    return native_batch_norm(x, weight, bias, running_mean, running_var, True, momentum, eps)[0]


def torch_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Any:
    """The same, as torch.batch_norm spells it."""
    return batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def native_batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Training returns the batch's statistics, too."""
    if not training:
        y = F.batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
        return y, x.new_zeros(0), x.new_zeros(0)
    if running_mean is None or running_var is None:
        return aten._native_batch_norm_legit.no_stats(x, weight, bias, True, momentum, eps)
    return aten._native_batch_norm_legit(x, weight, bias, running_mean, running_var, True, momentum, eps)


def batch_norm_with_update(*args: Any) -> Any:
    """It returns the means that were used, too, and a reserve that is empty here."""
    y, mean, spread = aten._native_batch_norm_legit(*args[:5], True, *args[5:])
    return y, mean, spread, y.new_zeros(0)


def cumulative_batch_norm(
    x: Tensor, means: tuple[Tensor, Tensor], weight: Tensor | None, bias: Tensor | None, share: Tensor, eps: float
) -> Any:
    """With a momentum of one the statistics are the batch's own; a share of them goes into the means. A difference to
    these would lose digits: they begin with one, and the first share is all."""
    own = [m.clone() for m in means]
    y = aten._native_batch_norm_legit(x, weight, bias, own[0], own[1], True, 1.0, eps)[0]
    with torch.no_grad():
        for mean, new in zip(means, own, strict=True):
            mean.copy_(mean * (1 - share) + new * share)
    return y


def instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """A group of one channel each is the same arithmetic; running statistics are means over the batch."""
    if not use_input_stats:
        return NotImplemented
    if running_mean is not None and running_var is not None:
        with torch.no_grad():
            var, mean = torch.var_mean(x, tuple(range(2, x.dim())))
            running_mean.copy_(running_mean * (1 - momentum) + mean.mean(0) * momentum)
            running_var.copy_(running_var * (1 - momentum) + var.mean(0) * momentum)
    return F.group_norm(x, x.shape[1], weight, bias, eps)


def binary_cross_entropy_with_logits(
    x: Tensor,
    y: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Any:
    """max(x, 0) - x y + log(1 + exp(-|x|)), whose derivative autograd finds as sigmoid(x) - y."""
    tail = F.softplus(-x, threshold=math.inf)
    positive = 1 if pos_weight is None else 1 + (pos_weight - 1) * y
    loss = (1 - y) * x + positive * tail
    if weight is not None:
        loss = loss * weight
    return reduced(loss, reduction)


def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Any:
    """v scaled to the length g, over all dimensions but one (dim -1: over all)."""
    if dim == -1:
        return v * (g / v.norm())
    others = [d for d in range(v.dim()) if d != dim]
    return v * (g / torch.linalg.vector_norm(v, dim=others, keepdim=True))


def local_response_norm(x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha * mean of the squares of `size` neighbouring channels) ** beta."""
    around = [0, 0] * (x.dim() - 2) + [size // 2, (size - 1) // 2]
    squares = F.pad(x * x, around)
    total = squares.narrow(1, 0, x.shape[1])
    for i in range(1, size):
        total = total + squares.narrow(1, i, x.shape[1])
    return x / (k + total * (alpha / size)) ** beta


def rrelu(
    x: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Any:
    """Without randomness: the mean slope."""
    return NotImplemented if training else F.leaky_relu(x, (lower + upper) / 2, inplace)


def bilinear(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """out[o] = x^T weight[o] y + bias[o]."""
    products = (x.unsqueeze(-1) * y.unsqueeze(-2)).flatten(-2)
    return F.linear(products, weight.flatten(1), bias)


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Any:
    """All distances between rows, from the differences."""
    return norm_of_difference(x1.unsqueeze(-2) - x2.unsqueeze(-3), p)


def pdist(input: Tensor, p: float = 2.0) -> Any:
    """The distances between any two rows, each pair once."""
    first, second = torch.triu_indices(len(input), len(input), 1)
    return norm_of_difference(input[first] - input[second], p)


def norm_of_difference(d: Tensor, p: float) -> Any:
    """With p = 0 the number of elements that differ: its gradient is zero, where that of a norm is none at all."""
    if p:
        return torch.linalg.vector_norm(d, p, -1)
    return ((d != 0).to(d.dtype) + d.masked_fill(torch.ones_like(d, dtype=torch.bool), 0)).sum(-1)


def vdot(x: Tensor, y: Tensor) -> Any:
    return NotImplemented if x.is_complex() else (x * y).sum()


# ---- losses


def reduced(loss: Tensor, reduction: str) -> Tensor:
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def linear_cross_entropy(*args: Any, options: Any = None, **named: Any) -> Any:
    """In one piece: its memory is planned anyway."""
    return NotImplemented if options is None else F.linear_cross_entropy(*args, **named)


def gaussian_nll_loss(
    x: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """Without the check of the variance's sign, which reads its values."""
    if not isinstance(var, Tensor):
        var = torch.full_like(x, var)
    if var.dim() == x.dim() - 1:
        var = var.unsqueeze(-1)
    clamped = var + (var.detach().clamp(min=eps) - var.detach())
    loss = 0.5 * (torch.log(clamped) + (x - target) ** 2 / clamped)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, reduction)


def multi_margin_loss(
    x: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """sum over the other classes of max(0, margin - x[target] + x[i])^p / classes."""
    if x.dim() != 2:
        x, target = x.reshape(1, -1), target.reshape(1)
        loss = multi_margin_loss(x, target, p, margin, weight, reduction=reduction)
        return loss.reshape(())
    hinge = (margin - x.gather(1, target.unsqueeze(1)) + x).relu()
    loss = hinge if p == 1 else hinge * hinge
    if weight is not None:
        loss = loss * weight[target].unsqueeze(1)
    others = torch.arange(x.shape[1]) != target.unsqueeze(1)
    return reduced((loss * others).sum(1) / x.shape[1], reduction)


def multilabel_margin_loss(
    x: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """sum over labels j before the first -1 and classes i that are no label of max(0, 1 - x[j] + x[i]) / classes."""
    if x.dim() != 2:
        x, target = x.reshape(1, -1), target.reshape(1, -1)
        return multilabel_margin_loss(x, target, reduction=reduction).reshape(())
    counts = (target >= 0).float().cumprod(1)
    labels = target.clamp(min=0)
    free = torch.zeros_like(x).scatter_add(1, labels, counts) == 0
    hinge = (1 - x.gather(1, labels).unsqueeze(2) + x.unsqueeze(1)).relu()
    return reduced((hinge * counts.unsqueeze(2) * free.unsqueeze(1)).sum((1, 2)) / x.shape[1], reduction)


REWRITES: dict[Any, Callable[..., Any]] = {
    F.batch_norm: batch_norm,
    F.instance_norm: instance_norm,
    F.binary_cross_entropy_with_logits: binary_cross_entropy_with_logits,
    torch._weight_norm: weight_norm,
    F.local_response_norm: local_response_norm,
    F.rrelu: rrelu,
    F.bilinear: bilinear,
    torch.batch_norm: torch_batch_norm,
    torch.native_batch_norm: native_batch_norm,
    "aten::_batch_norm_with_update": batch_norm_with_update,
    torch.cdist: cdist,
    torch.pdist: pdist,
    F.pdist: pdist,
    torch.vdot: vdot,
    F.linear_cross_entropy: linear_cross_entropy,
    F.gaussian_nll_loss: gaussian_nll_loss,
    F.multi_margin_loss: multi_margin_loss,
    F.multilabel_margin_loss: multilabel_margin_loss,
    **ASSIGNED_DATA,
    **EXPERTS,
    **FRACTIONAL,
    **LINALG,
    **NORM,
    **QUANTIZATION,
    **RECURRENT,
    **SAMPLING,
    **SEQUENCE,
    **SPECTRAL,
    **SELECTION,
    **VISION,
    **VOLUME,
    **WINDOWS,
}
