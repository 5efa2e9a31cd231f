"""A weight gradient that plain SGD uses up at once: the product stores weight - rate * sum over the weight itself.

Made on its own such a gradient is written to memory and read back, which for few samples takes half as long as the
product. A build that records keeps it as well, outside of the plan. Sums have one block of terms, as no part of one can
be used; the order of arithmetic is that of the separate operations. Of one image the weight gradient of a convolution
by one tap is such a product, of channels by channels over its pixels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from trainlib_deployer.kernels.matmul_update import can_update
from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.passes.fuse_updates import with_joined
from trainlib_deployer.passes.long_sums import as_product
from trainlib_deployer.passes.reorder import fullest
from trainlib_deployer.program.ir import DType, Op, Program, Tensor, View
from trainlib_deployer.program.loop import Loop


def store_updates(program: Program) -> Program:
    """Unless the step gets fuller: what the product reads is there until nobody else needs the old weight."""
    found = with_joined(program, partial(joined, tensors=program.tensors))
    return found if fullest(found) <= fullest(program) else program


def joined(product: Op, update: Op, made: Tensor, tensors: Mapping[str, Tensor]) -> Op | None:
    """The product where the update stood."""
    product = as_product(product)
    kind, sums = product.kind, product.writes[0]
    moving = moved_by(update, sums.tensor)
    if moving is None or not isinstance(kind, MatMul) or not can_update(kind):
        return None
    weight, gradient, rate = moving
    whole = weight.covers(tensors[weight.tensor]) and gradient.covers(made)
    if not whole or sums.numel != gradient.numel or {sums.tensor, weight.tensor} & {v.tensor for v in product.reads}:
        return None
    place = sums._replace(tensor=weight.tensor)
    return replace(
        update,
        kind=replace(kind, init=True, update=True),
        reads=(*product.reads, place, rate),
        writes=(place, sums),
        fused=tuple(dict.fromkeys((*(product.fused or (product.name,)), *(update.fused or (update.name,))))),
    )


def moved_by(update: Op, gradient: str) -> tuple[View, View, View] | None:
    """The weight, the gradient and the rate of weight = -rate * gradient + weight, if that is all of the update."""
    kind = update.kind
    if not isinstance(kind, Loop) or update.phase != "update" or len(update.reads) != 3 or len(update.writes) != 1:
        return None
    if kind.reductions or kind.post or set(kind.inputs) != {DType.F32} or len(kind.body) != 2 or kind.results != (4,):
        return None
    negative, last = kind.body
    if negative.op != "neg" or last.op != "fma" or last.args[0] != 3:
        return None
    order = [arg for arg in (last.args[2], last.args[1], negative.args[0]) if isinstance(arg, int)]
    if sorted(order) != [0, 1, 2]:
        return None
    weight, given, rate = (update.reads[at] for at in order)
    right = weight == update.writes[0] and given.tensor == gradient and not any(rate.strides)
    return (weight, given, rate) if right else None
