"""Convolutions of halves by one tap as matrix products, where their sums are long.

Tiles of a convolution have all of its terms: of many channels they have few results, which are a bad share for eight
cores where the image has few pixels. Terms of a product are cut, and its sums go on as floats (`goes_on` in
products_of_halves.py). A weight gradient is a product where that moves the weight (store_updates.py).
"""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.passes.products_of_halves import goes_on
from trainlib_deployer.program.ir import Op, Program, View


def long_sums(program: Program) -> Program:
    return program.with_ops([as_product(op) if is_long(op) else op for op in program.ops])


def is_long(op: Op) -> bool:
    kind = op.kind
    return isinstance(kind, Conv) and kind.storage.is_half and kind.direction != "bw_w" and goes_on(kind)


def as_product(op: Op) -> Op:
    """A convolution, or a gradient of one, as a matrix product, if it is one: of one image, by one tap."""
    kind = op.kind
    if not isinstance(kind, Conv) or kind.adds:
        return op
    s, pixels = kind.shape, kind.shape.ho * kind.shape.wo
    if not s.pointwise or (s.n, s.groups, s.stride, s.pad) != (1, 1, (1, 1), (0, 0)) or s.h * s.w != pixels:
        return op
    first, second, *bias = op.reads
    if kind.direction == "bw_w":
        image, other = first.reshaped((1, s.ci, pixels)), second.reshaped((1, s.co, pixels))
        right = image and image.permuted((0, 2, 1))
        m, n, k = s.co, s.ci, pixels
    else:
        right, other = first.reshaped((1, first.shape[1], pixels)), second.reshaped((1, s.co, s.ci))
        m, n, k = (s.co, pixels, s.ci) if kind.direction == "fw" else (s.ci, pixels, s.co)
        other = other.permuted((0, 2, 1)) if other and kind.direction == "bw_x" else other
    sums = op.writes[0].reshaped((1, m, n))
    if other is None or right is None or sums is None:
        return op
    init = [View(b.tensor, (1, m, n), (0, b.strides[0], 0), b.offset) for b in bias]
    rounds = (kind.rounds, False)
    product = MatMul(1, m, n, k, bool(init), storage=kind.storage, result=kind.result, rounds=rounds)
    return replace(op, kind=product, reads=(other, right, *init), writes=(sums,))
