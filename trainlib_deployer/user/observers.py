"""Observers of quantization-aware training that wait for a first tensor to learn how many rows it has."""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import inf

from torch import nn

from golden.snapshot import Snapshot
from trainlib_deployer.errors import Unsupported

FIRST = {"min_val": inf, "max_val": -inf, "scale": 1.0, "zero_point": 0.0}  # before anything was observed


def shape_observers(module: nn.Module, call: Callable[[], object]) -> None:
    """They get the shapes of a first call, for good, and have still observed nothing."""
    waiting = [name for name, b in module.named_buffers() if name.endswith(".min_val") and not b.numel()]
    if not waiting:
        return
    check_averages(module)
    with Snapshot(module).undone():
        call()
        found = {n: b.shape for n, b in module.named_buffers() if n.rpartition(".")[2] in FIRST}
    for name, b in module.named_buffers():
        if name in found and b.shape != found[name]:
            b.resize_(found[name]).fill_(FIRST[name.rpartition(".")[2]])


def check_averages(module: nn.Module) -> None:
    """Averages that are no part of the fused operation take the first tensor as it is only where they have no shape."""
    observer = sys.modules.get("torch.ao.quantization.observer")
    fused = sys.modules.get("torch.ao.quantization.fake_quantize")
    if observer is None or fused is None:
        return
    kind, fused_kind = observer.MovingAveragePerChannelMinMaxObserver, fused.FusedMovingAvgObsFakeQuantize
    inside = {id(m.activation_post_process) for m in module.modules() if isinstance(m, fused_kind)}
    for name, m in module.named_modules():
        if isinstance(m, kind) and id(m) not in inside and not m.min_val.numel():
            raise Unsupported(
                f"the observer '{name}' has no shape before a first call, and averages from there",
                remedy="call the prepared model once on an example before it is deployed: model(example_input)",
            )
