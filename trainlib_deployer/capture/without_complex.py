"""The captured graph without complex tensors: traced again on pairs of real ones (pair.py)."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from trainlib_deployer.capture import complex_functions, remedies
from trainlib_deployer.capture.complex_rules import REAL, NoRule, is_pair, leaves, of_one_part, rule, rule_for
from trainlib_deployer.capture.decompositions import DECOMPOSED
from trainlib_deployer.capture.fourier_rules import real_c2c, real_r2c
from trainlib_deployer.capture.namer import TAG
from trainlib_deployer.capture.pair import Pair
from trainlib_deployer.capture.trace import VIEWS, trace
from trainlib_deployer.errors import Unsupported

assert complex_functions, "they register themselves"
aten = torch.ops.aten
for function in (of_one_part, real_c2c, real_r2c):
    rule(function)(function)
MAKES_COMPLEX = (
    *(aten.view_as_complex.default, aten.complex.default, aten.polar.default, aten._fft_r2c.default),
    *(of_one_part, real_r2c),
)


def without_complex(graph: fx.GraphModule, values: list[torch.Tensor]) -> fx.GraphModule:
    if not any(makes_complex(n) for n in graph.graph.nodes):
        return graph
    simplify(graph)
    return trace(lambda *args: InPairs(graph).run(*args), values, DECOMPOSED)


def makes_complex(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_complex()


class InPairs(fx.Interpreter):  # type: ignore[misc]
    """Runs a graph without mutation; where it has a complex tensor, there is a pair."""

    def __init__(self, graph: fx.GraphModule) -> None:
        super().__init__(graph)
        self.extra_traceback = False  # an error's words are ours

    def run_node(self, n: fx.Node) -> Any:
        try:
            return super().run_node(n)
        except NoRule:
            origin = (n.meta.get("custom") or {}).get(TAG)
            function = origin.function if origin is not None else str(n.target)
            raise Unsupported(
                f"'{function}' of complex numbers cannot be deployed",
                source=origin.source if origin is not None else None,
                remedy=remedies.COMPLEX,
            ) from None

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().get_attr(target, args, kwargs)
        return Pair(value.real, value.imag) if value.is_complex() else value

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        target = aten.reshape.default if target in VIEWS else target  # a part may have other strides than the pair
        given = leaves((args, kwargs))
        concerned = any(is_pair(v) or isinstance(v, complex) or v in REAL for v in given if not is_tensor(v))
        if not concerned and target is aten._neg_view.default:
            return -args[0]
        if not concerned and target not in MAKES_COMPLEX:
            return super().call_function(target, args, kwargs)
        rule = rule_for(target)
        if rule is None:
            raise NoRule
        return rule(*args, **kwargs)


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def simplify(graph: fx.GraphModule) -> None:
    """Say where a part is zero or nobody reads it. PyTorch writes the gradient of a transform of real numbers as one of
    the full length, of which half of the operand is zero and half of the result is not read."""
    for node in list(graph.graph.nodes):
        made = simplified(node)
        if made is None:
            continue
        function, args = made
        with graph.graph.inserting_before(node):
            other = graph.graph.call_function(function, args)
        other.meta = dict(node.meta)
        node.replace_all_uses_with(other)
    graph.graph.eliminate_dead_code()
    graph.recompile()


def simplified(node: fx.Node) -> tuple[Any, tuple[Any, ...]] | None:
    """A function of pairs that does the same, and its arguments."""
    source: Any = node.args[0] if node.args else None
    if node.target is aten.view_as_complex.default and is_part(source, aten.select_backward.default, source):
        return of_one_part, (source.args[0], source.args[3] % 2)
    if not is_part(node, aten.select.int, source) or node.args[2] or source.target is not aten.view_as_real.default:
        return None
    transform = source.args[0]
    if transform.target is aten._fft_c2c.default:
        x, dims, *how = transform.args
        return real_c2c, (without_zeros(x, dims[-1]), dims, *how, transform.meta["val"].shape[dims[-1]])
    if transform.target is aten._fft_r2c.default and not transform.args[3]:
        return real_r2c, transform.args[:3]
    return None


def is_part(node: Any, target: Any, whole: Any) -> bool:
    """Does this choose along the last dimension, or is it the gradient of such a choice?"""
    if not isinstance(node, fx.Node) or node.target is not target:
        return False
    dim, rank = node.args[-2], whole.meta["val"].dim()
    return bool(dim % rank == rank - 1)


def without_zeros(x: fx.Node, dim: int) -> fx.Node:
    """What was written to the beginning of zeros."""
    if x.target is not aten.slice_scatter.default or x.args[0].target is not aten.new_zeros.default:
        return x
    _, source, along, start = (*x.args, 0, 0)[:4]
    rank = x.meta["val"].dim()
    assert isinstance(source, fx.Node) and isinstance(along, int)
    return source if start == 0 and along % rank == dim % rank else x
