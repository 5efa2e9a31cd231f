"""PyTorch Geometric on a fixed graph, and MONAI's networks and losses for medical images."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.suites.networks import Make, Network, of

# From and to, one of them to itself; in two graphs of four and three nodes.
EDGES = torch.tensor([[0, 1, 1, 2, 3, 2, 4, 5, 6, 6, 5], [1, 0, 2, 1, 2, 3, 5, 4, 6, 5, 6]])
GRAPH_OF = torch.tensor([0, 0, 0, 0, 1, 1, 1])
NODES, FEATURES, CLASSES = 7, 5, 3


class OnGraph(nn.Module):
    """Two layers on the same graph; one result a node, or one a graph."""

    def __init__(self, first: nn.Module, second: nn.Module, pool: Callable[..., torch.Tensor] | None) -> None:
        super().__init__()
        self.first, self.second, self.pool = first, second, pool
        self.register_buffer("edges", EDGES.clone())
        self.register_buffer("graph_of", GRAPH_OF.clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(self.first(x, self.edges).relu(), self.edges)
        return y if self.pool is None else self.pool(y, self.graph_of)


def on_graph(kind: str, pool: str | None = None, width: int = 8, **options: Any) -> Make:
    def make() -> Network:
        pyg = importlib.import_module("torch_geometric.nn")
        layer = getattr(pyg, kind)
        own = options | ({"heads": 2} if "heads" in layer.__init__.__code__.co_varnames else {})
        first = layer(FEATURES, width // own.get("heads", 1), **own)
        return of(OnGraph(first, layer(width, CLASSES, **options), pool and getattr(pyg, pool)), (NODES, FEATURES))

    return make


def wrapped(kind: str, inputs: int) -> Make:
    """Layers around a network of their own, which sees so many times the features."""

    def make() -> Network:
        layer = getattr(importlib.import_module("torch_geometric.nn"), kind)
        inner = nn.Sequential(nn.Linear(inputs * FEATURES, 8), nn.ReLU(), nn.Linear(8, 6))
        return of(OnGraph(layer(inner), layer(nn.Linear(inputs * 6, CLASSES)), None), (NODES, FEATURES))

    return make


def medical(kind: str, shape: tuple[int, ...], **options: Any) -> Make:
    return lambda: of(getattr(importlib.import_module("monai.networks.nets"), kind)(**options), shape)


NETWORKS: dict[str, Make] = {
    "torch_geometric GCN": on_graph("GCNConv"),
    "torch_geometric GAT": on_graph("GATConv"),
    "torch_geometric GATv2": on_graph("GATv2Conv"),
    "torch_geometric Cheb": on_graph("ChebConv", K=3),
    "torch_geometric SAGE": on_graph("SAGEConv", aggr="max"),
    "torch_geometric GraphConv": on_graph("GraphConv", "global_mean_pool"),
    "torch_geometric GraphConv, largest": on_graph("GraphConv", "global_max_pool"),
    "torch_geometric TAG": on_graph("TAGConv"),
    "torch_geometric Transformer": on_graph("TransformerConv"),
    "torch_geometric SGConv": on_graph("SGConv", K=2),
    "torch_geometric ARMA": on_graph("ARMAConv"),
    "torch_geometric GIN": wrapped("GINConv", 1),
    "torch_geometric EdgeConv": wrapped("EdgeConv", 2),
    "monai UNet": medical(
        "UNet", (1, 1, 16, 16), spatial_dims=2, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2)
    ),
    "monai UNet of volumes": medical(
        "UNet", (1, 1, 8, 8, 8), spatial_dims=3, in_channels=1, out_channels=2, channels=(4, 8), strides=(2,)
    ),
    "monai SegResNet": medical(
        "SegResNet", (1, 1, 16, 16), spatial_dims=2, init_filters=8, in_channels=1, blocks_down=(1, 1), blocks_up=(1,)
    ),
    "monai BasicUNet": medical("BasicUNet", (1, 1, 32, 32), spatial_dims=2, in_channels=1, features=(4, 4, 8, 8, 8, 4)),
    "monai DenseNet": medical(
        "DenseNet",
        (2, 1, 32, 32),
        spatial_dims=2,
        in_channels=1,
        out_channels=3,
        init_features=4,
        growth_rate=4,
        block_config=(2, 2),
    ),
}
