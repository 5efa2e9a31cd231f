"""The traced graph without what has no effect; writes to what is kept from step to step become its results."""

from __future__ import annotations

from dataclasses import replace
from operator import getitem
from typing import Any

import numpy as np
import torch
from torch import fx

from trainlib_deployer.capture.fold_constants import fold_constants
from trainlib_deployer.capture.holders import holder_of
from trainlib_deployer.capture.namer import TAG, Origin
from trainlib_deployer.capture.slots import Out, Slot
from trainlib_deployer.capture.trace import VIEWS
from trainlib_deployer.errors import Unsupported
from trainlib_deployer.program.ir import Source
from trainlib_deployer.user.model import UserModel
from trainlib_deployer.user.module import kept_loss

aten = torch.ops.aten


def check_written(graph: fx.GraphModule, user: UserModel) -> None:
    """What is written to lies in the model: a tensor that is found elsewhere is a constant of the graph."""
    for node in graph.graph.nodes:
        for target in written_by(node):
            while is_window(target):
                target = target.args[0]
            if target.op == "get_attr":
                holder = holder_of(user, getattr(graph, target.target))
                raise Unsupported(
                    f"{writer(node)} writes to {holder.words}, which is not the model's",
                    source=source_of(node),
                    remedy=holder.remedy,
                )


def writer(node: fx.Node) -> str:
    origin = origin_of(node)
    return "the loss" if origin is not None and origin.layer.partition(".")[0] == "loss" else "forward"


def is_window(node: fx.Node) -> bool:
    """On its first argument; one of several results is what has made them."""
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], fx.Node):
        return False
    return node.target is getitem or bool(node.target._schema.arguments[0].alias_info)


def written_by(node: fx.Node) -> list[fx.Node]:
    if not isinstance(node.target, torch._ops.OpOverload):
        return []
    given = zip(node.target._schema.arguments, node.args, strict=False)
    return [v for a, v in given if a.alias_info is not None and a.alias_info.is_write and isinstance(v, fx.Node)]


SAMPLE = ("input", "target")
LASTING = ("parameter", "buffer")


def take_writes(graph: fx.GraphModule, user: UserModel, slots: list[Slot], replaced: set[str]) -> tuple[Out, ...]:
    """copy_(buffer, value) becomes a result (buffer, value), and so does what forward writes to a parameter. Batch
    counters are bookkeeping that nothing here reads; an input that the forward changes is a sample, which comes as it
    was the next time; what is `replaced` at the end of forward is a result already."""
    nodes = list(graph.graph.nodes)
    slot_of = dict(zip([n for n in nodes if n.op == "placeholder"], slots, strict=True))
    written: dict[tuple[str, str], fx.Node] = {}
    for node in nodes:
        if node.target is not aten.copy_.default:
            continue
        slot = slot_of.get(node.args[0])
        if slot is not None and slot.kind not in SAMPLE and not slot.name.endswith("num_batches_tracked"):
            if slot.kind not in LASTING:
                raise Unsupported(
                    f"the loss changes its tensor '{slot.name}' in place",
                    source=source_of(node.args[1]),
                    remedy=kept_loss(user.module),
                )
            if slot.name not in replaced:
                written[slot.kind, slot.name] = node.args[1]
        node.replace_all_uses_with(node.args[1])
        graph.graph.erase_node(node)
    output = next(n for n in nodes if n.op == "output")
    output.args = ([*output.args[0], *written.values()],)
    return tuple(Out(*key) for key in written)


def origin_of(node: Any) -> Origin | None:
    return (node.meta.get("custom") or {}).get(TAG) if isinstance(node, fx.Node) else None


def source_of(node: Any) -> Source | None:
    origin = origin_of(node)
    return origin.source if origin is not None else None


ASSERTIONS = (aten._assert_async.default, aten._assert_async.msg)
TRANSPARENT = {aten.detach.default, aten.alias.default, aten.lift_fresh_copy.default}
# Of which a gradient compares the operand with limits: the result is beyond them where the operand is
LIMITED = {
    aten.hardtanh_backward.default: aten.hardtanh.default,
    aten.leaky_relu_backward.default: aten.leaky_relu.default,
}


def tidy(graph: fx.GraphModule) -> None:
    """Remove what has no effect: detach, transposed transposes, dead nodes; compute what depends on nothing."""
    for node in list(graph.graph.nodes):
        if node.target in ASSERTIONS:
            graph.graph.erase_node(node)
        elif node.target in TRANSPARENT:
            node.replace_all_uses_with(node.args[0])
        elif node.target is aten.t.default and node.args[0].target is aten.t.default:
            node.replace_all_uses_with(node.args[0].args[0])
        elif node.target is aten.clone.default and same_layout(node, node.args[0]):
            node.replace_all_uses_with(node.args[0])  # it kept a value from what was written in place
        elif node.target in VIEWS:
            node.target = aten.reshape.default  # strides are an accident of tracing: real tensors may have others
        elif node.target is aten.copy.default and same_kind(node, node.args[1]):
            node.replace_all_uses_with(node.args[1])
        elif node.target in LIMITED:
            read_result(node)
    fold_constants(graph)
    graph.recompile()


def read_result(gradient: fx.Node) -> None:
    """It reads the result, which the next layer mostly keeps, in place of the operand, which then nobody may need."""
    _, operand, *settings = gradient.args
    for user in operand.users:
        if user.target is LIMITED[gradient.target]:
            given = [*user.args[1:], *(a.default_value for a in user.target._schema.arguments[len(user.args) :])]
            # A leaky ReLU of another slope turns the sign; what stays at a limit may be kept as a half
            told = is_half(*given) if len(given) == 2 else given[0] > 0
            if told and settings[: len(given)] == given:
                gradient.args = (gradient.args[0], user, *settings)
                return


def is_half(*numbers: float) -> bool:
    """Whether rounding them to halves of either kind changes nothing."""
    with np.errstate(over="ignore"):
        return all(float(np.float16(n)) == n and float(torch.tensor(n).bfloat16()) == n for n in numbers)


def same_kind(a: fx.Node, b: Any) -> bool:
    x, y = a.meta["val"], b.meta["val"]
    return bool(x.shape == y.shape and x.dtype == y.dtype)


def same_layout(a: fx.Node, b: fx.Node) -> bool:
    return bool(b.op != "placeholder" and same_kind(a, b) and a.meta["val"].stride() == b.meta["val"].stride())


def name_untagged(graph: fx.GraphModule) -> None:
    """Sums of gradients run outside of any hook: they belong to the layer that reads them."""
    for node in reversed(graph.graph.nodes):
        if node.op != "call_function":
            continue
        origin = (node.meta.get("custom") or {}).get(TAG)
        if origin is None:
            readers = [u.meta.get("origin") for u in node.users if u.op != "output"]
            known = next((r for r in readers if r is not None), None)
            origin = replace(known, function="sum") if known else Origin("backward", "", "sum", 0, None)
        node.meta["origin"] = origin
