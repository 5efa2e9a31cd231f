"""What cannot be deployed, found in the captured graph before any of it is lowered, in the user's terms."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import fx
from torch.utils import _pytree as pytree

from trainlib_deployer import ops
from trainlib_deployer.capture import remedies
from trainlib_deployer.capture.construction import call_line, construction_line
from trainlib_deployer.capture.namer import Origin
from trainlib_deployer.capture.slots import Captured
from trainlib_deployer.errors import Unsupported
from trainlib_deployer.ops.optim import OPTIMIZERS
from trainlib_deployer.ops.registry import RULES
from trainlib_deployer.program.ir import Source
from trainlib_deployer.torch_types import LEAST, MOST, NARROW, fits, type_fault, type_name
from trainlib_deployer.user.model import UserModel

assert ops, "the families fill the registry when they are imported"

aten = torch.ops.aten
MOST_NAMED = 5
WITH_INDICES = {
    aten.max_pool2d_with_indices.default: aten.max_pool2d_with_indices_backward.default,
    aten.adaptive_max_pool2d.default: aten.adaptive_max_pool2d_backward.default,
}
IMPOSSIBLE = {
    "LBFGS": "a step runs the network several times, as often as the values ask for",
    "SparseAdam": "it takes sparse gradients only",
    "Adafactor": "norms of weights and of updates decide in Python how far it steps",
    "Muon": "it calculates in bfloat16",
}
INDICES = "the positions that max pooling returns stay inside it: only its gradient may use them"

OF_FLOATS = (aten.convolution.default, aten.avg_pool2d.default)  # kernels, where PyTorch has integers, too


@dataclass(frozen=True)
class Fault:
    """One thing that is in the way."""

    what: str
    remedy: str
    source: Source | None


def check_deployable(user: UserModel, captured: Captured) -> None:
    """Refuse with the first thing in the order of execution that is in the way, and name the others."""
    faults: dict[tuple[str, Source | None], Fault] = {}
    for node in captured.graph.graph.nodes:
        fault = fault_of(node, user) if node.op == "call_function" else None
        if fault is not None:
            faults.setdefault((fault.what, fault.source), fault)
    if faults:
        raise combined(list(faults.values()))


def combined(faults: list[Fault]) -> Unsupported:
    """The first fault that has a line; the others in a few words, unless they may be its consequences."""
    first = next((f for f in faults if f.source is not None), faults[0])
    others = [f for f in faults if f.source != first.source and remedies.ON_SHAPES not in first.what]
    more = "".join(f"\n  also: {f.what}{f' at {f.source}' if f.source else ''}" for f in others[:MOST_NAMED])
    return Unsupported(first.what, source=first.source, remedy=first.remedy + more)


def check_optimizer(user: UserModel) -> None:
    """What does more than one update from one dense gradient, if it is PyTorch's own of that name."""
    kind = user.optimizer.kind
    if kind in IMPOSSIBLE and user.optimizer.own is getattr(torch.optim, kind, None):
        raise Unsupported(
            f"the optimizer {kind} cannot be deployed: {IMPOSSIBLE[kind]}",
            source=call_line(user.source, kind),
            remedy=f"use one of {', '.join(sorted(OPTIMIZERS))}",
        )


def fault_of(node: fx.Node, user: UserModel) -> Fault | None:
    origin: Origin | None = node.meta.get("origin")
    words = problem(node, origin)
    if words is None:
        return None
    source = origin.source if origin is not None else None
    if source is None and origin is not None:
        source = line_of_layer(user, origin.layer)
    return Fault(*words, source)


def line_of_layer(user: UserModel, layer: str) -> Source | None:
    if layer == "loss" or layer.startswith("loss."):
        return call_line(user.source, type(user.loss).__name__)
    return construction_line(user.source, user.module, layer)


def problem(node: fx.Node, origin: Origin | None) -> tuple[str, str] | None:
    """What is wrong with a node, and what to do; None for nothing."""
    if node.target is aten._local_scalar_dense.default:
        line = origin.source.text if origin is not None and origin.source is not None else ""
        return f"{called(node, origin)}: {remedies.ON_VALUES}", remedies.remedy_for_value(line)
    values = [v for v in pytree.tree_leaves(node.meta.get("val")) if isinstance(v, torch.Tensor)]
    if any(not isinstance(extent, int) for v in values for extent in v.shape):
        remedy = remedies.REMEDIES.get(operation_name(node), remedies.SHAPES)
        return f"{called(node, origin)}: {remedies.ON_SHAPES}", remedy
    if node.target not in RULES:
        return missing(node, origin)
    odd = next((v.dtype for v in values if type_fault(v.dtype) is not None), None)
    if odd is not None:
        return f"{called(node, origin)} makes a tensor of the type {type_name(odd)}; floats are 32 bits wide", (
            remedies.COMPLEX if odd.is_complex else remedies.FLOAT32
        )
    if values and values[0].dtype in NARROW and may_wrap(node, values[0].dtype):
        return f"{called(node, origin)} calculates in {type_name(values[0].dtype)}, which wraps around", remedies.NARROW
    large = next((v for v in large_numbers(node)), None)
    if large is not None:
        return f"{called(node, origin)} uses {large}: integers are kept in 32 bits, {LEAST} to {MOST}", remedies.LARGE
    if node.target in OF_FLOATS and values and not values[0].dtype.is_floating_point:
        return f"{called(node, origin)} of integers cannot be deployed", remedies.INTEGERS
    if node.target is aten.convolution.default and len(values[0].shape) > 4:
        return f"{called(node, origin)} cannot be deployed: convolution has at most two dimensions", remedies.CONV3D
    if node.target is aten.max_pool2d_with_indices_backward.default and not of_pooling(node.args[-1]):
        return f"{called(node, origin)} is given positions that are no pooling's own", remedies.INDICES
    if uses_indices(node):
        return f"{called(node, origin)}: {INDICES}", remedies.INDICES
    return None


def missing(node: fx.Node, origin: Origin | None) -> tuple[str, str]:
    """No rule lowers it."""
    operation = operation_name(node)
    if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        return f"{called(node, origin)} draws random numbers in forward, which cannot be deployed", remedies.RANDOM
    function = origin.function if origin is not None else operation
    text = f"{called(node, origin)} cannot be deployed"
    if operation != function:
        text += f": there is no rule for PyTorch's operation '{operation}'"
    return text, remedies.remedy_for(function, operation)


def unsupported(node: fx.Node) -> Unsupported:
    """For a single node that has no rule."""
    origin: Origin | None = node.meta.get("origin")
    what, remedy = missing(node, origin)
    return Unsupported(what, source=origin.source if origin is not None else None, remedy=remedy)


def called(node: fx.Node, origin: Origin | None) -> str:
    return origin.words if origin is not None else f"'{operation_name(node)}'"


def operation_name(node: fx.Node) -> str:
    name = str(node.target).removeprefix("aten.")
    return name.rpartition(".")[0] or name


# Pointwise, but their results lie between their operands.
SAFE = (
    *(aten.clone.default, aten.contiguous.default, aten.copy.default, aten.maximum.default, aten.minimum.default),
    *(aten.where.self, aten.masked_fill.Scalar, aten.masked_fill.Tensor),
    *(o for p in (aten.bitwise_and, aten.bitwise_or, aten.bitwise_xor) for o in (p.Tensor, p.Scalar)),
)


def may_wrap(node: fx.Node, dtype: torch.dtype) -> bool:
    """Does it make numbers that this type may not hold, instead of moving those that are there?"""
    if node.target is aten._to_copy.default:
        source = node.all_input_nodes[0]
        room = torch.iinfo(dtype)
        held = span(source)
        if held is not None and room.min <= held[0] and held[1] <= room.max:
            return False
        return torch.promote_types(source.meta["val"].dtype, dtype) is not dtype
    return torch.Tag.pointwise in getattr(node.target, "tags", ()) and node.target not in SAFE


def span(value: object, depth: int = 6) -> tuple[float, float] | None:
    """Between which bounds all elements lie, as far as one sees at once: of signs, and what is made of masks."""
    if isinstance(value, int | float):
        return value, value
    if not isinstance(value, fx.Node) or not depth:
        return None
    if getattr(value.meta.get("val"), "dtype", None) is torch.bool:
        return 0, 1
    if value.target is aten.sign.default:
        return -1, 1
    operands = [span(v, depth - 1) for v in value.args]
    combine = SPANS.get(value.target)
    if combine is None or value.kwargs.get("alpha", 1) != 1 or any(o is None for o in operands):
        return None
    ends = [combine(*chosen) for chosen in itertools.product(*(o for o in operands if o is not None))]
    return min(ends), max(ends)


SPANS: dict[object, Callable[..., float]] = {
    aten._to_copy.default: lambda x: x,
    aten.add.Tensor: operator.add,
    aten.sub.Tensor: operator.sub,
    aten.mul.Tensor: operator.mul,
}


def large_numbers(node: fx.Node) -> Iterator[int]:
    """Literals beyond 32 bits in integer arithmetic; as the end of a slice they are none."""
    if torch.Tag.pointwise not in getattr(node.target, "tags", ()) and node.target not in FILLS:
        return
    operands = [n.meta.get("val") for n in node.all_input_nodes] or [node.meta.get("val")]
    if any(isinstance(v, torch.Tensor) and v.is_floating_point() for v in operands):
        return
    yield from (a for a in pytree.tree_leaves((node.args, node.kwargs)) if type(a) is int and not fits(a))


FILLS = (aten.full.default, aten.full_like.default, aten.scalar_tensor.default)


def of_pooling(indices: object) -> bool:
    """Are these the second result of a pooling in the same graph?"""
    if not isinstance(indices, fx.Node) or indices.args[1:] != (1,):
        return False
    return getattr(indices.args[0], "target", None) in WITH_INDICES


def uses_indices(node: fx.Node) -> bool:
    """Are the positions of a max pooling read by anything except its gradient? What has no rule speaks for itself."""
    gradient = WITH_INDICES.get(node.target)
    readers = list(readers_of_indices(node)) if gradient is not None else []
    known = all(r.op == "output" or r.target in RULES for r in readers)
    return known and any(r.target is not gradient for r in readers)


def readers_of_indices(node: fx.Node) -> Iterator[fx.Node]:
    for pick in node.users:
        if pick.args[1:] == (1,):
            yield from pick.users
