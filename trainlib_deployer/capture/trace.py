"""make_fx on fake tensors, and the second trace that removes mutation and rare operations."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
import torch.fx.traceback as annotations_of_nodes
from torch import fx, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

from trainlib_deployer.capture.decompositions import DECOMPOSED
from trainlib_deployer.capture.observers import ranges_unread

aten = torch.ops.aten


def trace(function: Callable[..., Any], values: list[torch.Tensor], table: Any = None) -> fx.GraphModule:
    with annotations_of_nodes.preserve_node_meta(), mkldnn_off(), values_unread(), sdpa_kernel([SDPBackend.MATH]):
        return make_fx(function, table, tracing_mode="fake", _allow_non_fake_inputs=True)(*values)


@contextlib.contextmanager
def mkldnn_off() -> Iterator[None]:
    """Plain ATen kernels; the switch itself warns about hardware that is not there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.backends.mkldnn.flags(enabled=False):
            yield


@contextlib.contextmanager
def log_off() -> Iterator[None]:
    """PyTorch prints a traceback where an operation does not take a fake tensor: a refusal says it in its own words."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


@contextlib.contextmanager
def values_unread() -> Iterator[None]:
    """nn.Transformer reads its masks to find out whether they are causal: a hint, without which they are just added.
    A distribution reads its parameters to find out whether they make sense."""
    with (
        mock.patch.object(nn.modules.transformer, "_detect_is_causal_mask", lambda mask, is_causal, size: False),
        mock.patch.object(torch.distributions.Distribution, "_validate_args", False),
        mock.patch.object(torch, "cond", chosen),
        ranges_unread(),
    ):
        yield


def chosen(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    """torch.cond: one branch where the condition is known now, else of each result of both."""
    try:
        taken = true_fn if pred else false_fn
    except RuntimeError:  # it depends on values that are not known
        both = true_fn(*operands), false_fn(*operands)
        return pytree.tree_map(lambda yes, no: torch.where(pred, yes, no), *both)
    return taken(*operands)


VIEWS = (aten.view.default, aten._unsafe_view.default)


class Lifting(fx.Interpreter):  # type: ignore[misc]
    """What is calculated from constants may be written to, as from anything else."""

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return aten.lift_fresh_copy.default(super().get_attr(target, args, kwargs))


def functional(graph: fx.GraphModule, values: list[torch.Tensor]) -> fx.GraphModule:
    """The same graph without mutation inside and without rare operations; writes to placeholders remain as copy_ at
    the end."""
    if not any(needs_rewriting(n.target) for n in graph.graph.nodes if n.op == "call_function"):
        return graph
    for node in graph.graph.nodes:
        if node.target in VIEWS:
            node.target = aten.reshape.default  # the first trace may have had other strides than the second
    graph.recompile()

    def again(*args: torch.Tensor) -> Any:
        return Lifting(graph).run(*args)

    return trace(torch.func.functionalize(again, remove="mutations"), values, DECOMPOSED)


def needs_rewriting(target: Any) -> bool:
    return target in DECOMPOSED or (isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable)
