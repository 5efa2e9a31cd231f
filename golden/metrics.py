"""What is measured beside the loss: the user's functions of output and target, or the share of labels named rightly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

Metrics = Mapping[str, Callable[[Any, Any], torch.Tensor]]


def functions_of(given: Any) -> Metrics:
    """What a file calls `metrics`, if it is functions under names; objects that add up by themselves are left alone."""
    functions = isinstance(given, dict) and all(
        isinstance(n, str) and callable(f) and not isinstance(f, nn.Module) for n, f in given.items()
    )
    return given if functions else {}


def measured(metrics: Metrics, output: Any, target: Any) -> dict[str, torch.Tensor]:
    """One float32 number each."""
    return {name: function(output, target).detach().to(torch.float32).reshape(()) for name, function in metrics.items()}


def default_metrics(output: Any, target: Any) -> Metrics:
    """The accuracy, where the target is the number of a class."""
    if not isinstance(output, torch.Tensor) or not isinstance(target, torch.Tensor) or target.dtype is not torch.int64:
        return {}
    labels = output.dim() > 1 and (output.shape[0], *output.shape[2:]) == tuple(target.shape)
    return {"accuracy": accuracy} if labels else {}


def accuracy(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Of the labels that are a class."""
    counted = (target >= 0) & (target < output.shape[1])
    right = (output.argmax(1) == target) & counted
    return right.sum().to(torch.float32) / counted.sum().clamp(min=1).to(torch.float32)
