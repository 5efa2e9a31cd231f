"""Torch functions that are captured in another, equal form: one that keeps what a kernel needs, or that PyTorch
can trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

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
    if running_mean is None or running_var is None:
        return aten._native_batch_norm_legit.no_stats(x, weight, bias, True, momentum, eps)[0]
    return aten._native_batch_norm_legit(x, weight, bias, running_mean, running_var, True, momentum, eps)[0]


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
    """A group of one channel each is the same arithmetic."""
    if not use_input_stats or running_mean is not None:
        return NotImplemented
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
    tail = F.softplus(-x, threshold=1e9)
    positive = 1 if pos_weight is None else 1 + (pos_weight - 1) * y
    loss = (1 - y) * x + positive * tail
    if weight is not None:
        loss = loss * weight
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


REWRITES: dict[Any, Callable[..., Any]] = {
    F.batch_norm: batch_norm,
    F.instance_norm: instance_norm,
    F.binary_cross_entropy_with_logits: binary_cross_entropy_with_logits,
}
