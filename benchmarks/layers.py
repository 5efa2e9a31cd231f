"""Cycles of one layer in the middle of a network that trains on GVSoC's pulp-open: in tiles, with what moves them. Its
project is deployed for 64 kB of L1."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.asked import Layer
from benchmarks.bench_cycles import stepped
from benchmarks.networks import user_model
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.options import Options
from trainlib_deployer.pipeline import deploy_user_model

DIRECTIONS = {"": "fw", ".grad.input": "bw_x", ".grad.weight": "bw_w"}
PARAMETERS = 8192


@dataclass(frozen=True)
class Took:
    what: str
    kernel: str
    cycles: int
    macs: int


def run(module: nn.Module, shape: tuple[int, ...], optimizer: Callable[[Any], torch.optim.Optimizer]) -> list[Took]:
    """One step of a classifier."""
    user = user_model("layers", module, shape, 2, optimizer)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "p")
        deploy_user_model(user, Options(resolve("pulp-open", None, "64k", "2M"), folder, steps=1))
        step = stepped("layers", folder)
    return [Took(o.name, o.kernel, o.cycles, o.macs) for o in step.operations]


def of_layer(layer: Layer) -> list[Took]:
    """Its three directions, between layers of a weight for each channel."""
    pad, shape = layer.kernel // 2, (1, layer.channels, *layer.size)
    around = [nn.Conv2d(layer.channels, layer.channels, 1, groups=layer.channels) for _ in range(2)]
    middle = nn.Conv2d(layer.channels, layer.channels, layer.kernel, layer.stride, pad, groups=layer.groups, bias=False)
    module = nn.Sequential(around[0], middle, around[1], nn.AdaptiveAvgPool2d(1), nn.Flatten())
    found = {o.what: o for o in run(module, shape, lambda p: torch.optim.SGD(p, lr=0.1))}
    updated = {"1.conv2d.grad.weight": "1.weight: sgd"}  # where the gradient is made with its update
    return [found.get(name) or found[updated[name]] for name in (f"1.conv2d{suffix}" for suffix in DIRECTIONS)]


def of_adam() -> Took:
    """So many parameters at once."""
    module = nn.Linear(64, PARAMETERS // 64, bias=False)
    found = run(module, (4, 64), lambda p: torch.optim.Adam(p, lr=0.1))
    return next(o for o in found if o.what == "weight: adam")
