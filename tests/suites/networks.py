"""Networks of packages, small and with random weights: name to a function that makes one."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from tests.suites.subjects import STEPS, Subject, seeded

Inputs = Callable[[torch.Generator], tuple[Any, ...]]


@dataclass(frozen=True)
class Network:
    """A module and how its inputs are drawn."""

    module: nn.Module
    inputs: Inputs


Make = Callable[[], Network]


class FirstTensor(nn.Module):
    """A network whose output is a record, a tuple or a tensor, as one that returns the first tensor of floats."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, *args: Any) -> torch.Tensor:
        out = self.net(*args)
        values = list(out.values()) if isinstance(out, dict) else pytree.tree_leaves(out)
        return next(v for v in values if isinstance(v, torch.Tensor) and v.is_floating_point())


def of(net: nn.Module, *shapes: tuple[int, ...]) -> Network:
    """For inputs of normal random numbers."""
    return Network(FirstTensor(net), lambda g: tuple(torch.randn(shape, generator=g) for shape in shapes))


def of_tokens(net: nn.Module, shape: tuple[int, ...], vocabulary: int) -> Network:
    return Network(FirstTensor(net), lambda g: (torch.randint(2, vocabulary, shape, generator=g),))


def subject(name: str, make: Make) -> Subject:
    """With random targets of the output's shape, and no dropout that a plain run could not repeat."""
    without_kernels()
    torch.manual_seed(7)
    network = make()
    quiet(network.module)
    g = seeded(name)
    inputs = [network.inputs(g) for _ in range(STEPS)]
    with torch.no_grad():
        shape = copy.deepcopy(network.module).eval()(*inputs[0]).shape  # a forward may leave traces
    network.module.train()
    data = [(given, torch.randn(shape, generator=g)) for given in inputs]
    return Subject(name, network.module, data, nn.MSELoss(), from_outside=True)


library: Any = None  # keeps the operators below defined


def without_kernels() -> None:
    """Let torchvision be imported where its compiled operators cannot be loaded; none of these networks calls one."""
    global library
    if library is None and not hasattr(torch.ops.torchvision, "nms"):
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def quiet(module: nn.Module) -> None:
    """Without dropout, so that eager PyTorch can be held against it."""
    for m in module.modules():
        if isinstance(m, nn.modules.dropout._DropoutNd):
            m.p = 0.0
        elif type(m).__name__.endswith(("DropPath", "StochasticDepth")):  # each package has its own
            m.drop_prob = 0.0
            m.p = 0.0


def preload() -> None:
    """Import once what every network's process would import."""
    without_kernels()
    for package in ("transformers.modeling_utils", "timm", "braindecode.models", "snntorch"):
        importlib.import_module(package)


def all_networks() -> dict[str, Make]:
    from tests.suites import (
        networks_biosignals,
        networks_graphs,
        networks_text,
        networks_vision,
    )  # their packages are imported when made

    found = networks_text.NETWORKS | networks_vision.NETWORKS | networks_biosignals.NETWORKS
    return found | networks_graphs.NETWORKS


EMULATED = (
    "TCN",
    "snntorch Leaky",
    "snntorch Synaptic",
    "braindecode EEGNet",
    "braindecode ShallowFBCSPNet",
    "torch_geometric GCN",
    "torch_geometric GAT",
    "torch_geometric GraphConv",
    "torch_geometric EdgeConv",
    "monai UNet of volumes",
)  # those that run on the emulated cluster, too: small ones, for an emulator takes its time
