"""A mistake of PyTorch's that the reference must not make."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class InOrder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """PyTorch's gradient of batch and instance norm on the CPU is wrong, in float64 as well, where the gradient it is
    given lies in memory as [1, height, width, channels] and the input does not: here, both lie in order."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.native_batch_norm_backward.default:
            gradient, x, *others = args
            args = (gradient.contiguous(), x.contiguous(), *others)
        return func(*args, **(kwargs or {}))
