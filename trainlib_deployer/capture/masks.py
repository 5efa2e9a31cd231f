"""Random numbers in the captured graph: the scale of a dropout mask becomes part of it, and the backward computes them
again. Stored, a mask would take as much memory as the activation that it is applied to."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from trainlib_deployer.ops.random import KEEP, UNIFORM

aten = torch.ops.aten
POINTWISE = {
    aten.add.Scalar,
    aten.add.Tensor,
    aten.mul.Scalar,
    aten.mul.Tensor,
    aten.div.Scalar,
    aten.div.Tensor,
    aten.reshape.default,
    aten.expand.default,
    aten.unsqueeze.default,
    aten.squeeze.dim,
}


def tidy_masks(graph: fx.GraphModule, tag: str) -> None:
    for node in list(graph.graph.nodes):
        scaled = node.target in (aten.div.Scalar, aten.div.Tensor) and is_mask(node.args[0])
        if scaled and isinstance(node.args[1], int | float) and len(node.args[0].users) == 1:
            fold_scale(node)
    derived = masks_and_what_follows(graph)
    for node in list(graph.graph.nodes):
        origin = (node.meta.get("custom") or {}).get(tag)
        if origin is None or origin.phase != "backward" or node in derived:
            continue
        for old in [n for n in node.all_input_nodes if n in derived]:
            with graph.graph.inserting_before(node):
                node.replace_input_with(old, again(graph.graph, old, derived, node.meta.get("custom")))
    graph.graph.eliminate_dead_code()
    graph.recompile()


def is_mask(node: Any) -> bool:
    return isinstance(node, fx.Node) and node.target is KEEP


def fold_scale(node: fx.Node) -> None:
    """div(keep(..., v), c) becomes keep(..., v / c)."""
    mask = node.args[0]
    assert isinstance(mask, fx.Node)
    *most, value = mask.args
    mask.args = (*most, value / node.args[1])
    node.replace_all_uses_with(mask)


def masks_and_what_follows(graph: fx.GraphModule) -> set[fx.Node]:
    """Numbers and what pointwise operations make of nothing but them."""
    found: set[fx.Node] = set()
    for node in graph.graph.nodes:
        inputs = node.all_input_nodes
        if node.target in (KEEP, UNIFORM) or (node.target in POINTWISE and inputs and all(n in found for n in inputs)):
            found.add(node)
    return found


def again(graph: fx.Graph, node: fx.Node, derived: set[fx.Node], custom: Any) -> fx.Node:
    """A copy of the chain that ends in `node`."""

    def moved(n: fx.Node) -> fx.Node:
        return again(graph, n, derived, custom) if n in derived else n

    copy = graph.node_copy(node, moved)
    copy.meta["custom"] = custom
    return copy
