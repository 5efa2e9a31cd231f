"""What does not depend on any input of the step is computed once, now: positions, masks, tables of sines."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

aten = torch.ops.aten


def fold_constants(graph: fx.GraphModule) -> None:
    """Replace such values by constants; those that are the same number everywhere are filled in by a loop."""
    known: dict[fx.Node, Any] = {}
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            known[node] = getattr(graph, node.target)
        elif node.op == "call_function" and all(n in known for n in node.all_input_nodes) and deterministic(node):
            args, kwargs = fx.node.map_arg((node.args, node.kwargs), known.__getitem__)
            known[node] = node.target(*args, **kwargs)
    for node in list(known):
        needed = any(user not in known for user in node.users)
        if node.op == "call_function" and needed and dense(known[node]):
            if varied(known[node]):
                store(graph, node, known[node])
            elif node.all_input_nodes and known[node].numel() and known[node].device.type == "cpu":
                fill(graph, node, known[node])
    graph.graph.eliminate_dead_code()


def dense(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def deterministic(node: fx.Node) -> bool:
    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded not in tags


def varied(value: torch.Tensor) -> bool:
    flat = value.detach().reshape(-1)
    if flat.numel() <= 1 or value.device.type != "cpu":
        return False
    return not bool((flat == flat[0]).all()) or bool((flat.signbit() != flat[0].signbit()).any())


def store(graph: fx.GraphModule, node: fx.Node, value: torch.Tensor) -> None:
    name = f"constant_{node.name}"
    graph.register_buffer(name, value.detach().clone())
    with graph.graph.inserting_before(node):
        made = graph.graph.get_attr(name)
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made)


def fill(graph: fx.GraphModule, node: fx.Node, value: torch.Tensor) -> None:
    with graph.graph.inserting_before(node):
        made = graph.graph.call_function(
            aten.full.default, (list(value.shape), value.flatten()[0].item()), {"dtype": value.dtype}
        )
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made)
