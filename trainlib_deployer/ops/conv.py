"""Convolution, its gradients, and transposed convolution.

y[n, o, p] = bias[o] + sum_{c, k} w[o, c, k] * x[n, c, p*stride - pad + k*dilation], in one or two dimensions.
dL/dx is a transposed convolution of dL/dy with w; dL/dw correlates x with dL/dy; dL/dbias sums dL/dy.
A transposed convolution is the same trio with the roles of x and y exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

import torch

from trainlib_deployer.formats import DType
from trainlib_deployer.kernels import table, winograd, winograd_f16
from trainlib_deployer.kernels.conv import PACKED_ROWS, packed_at_once, packed_rows
from trainlib_deployer.kernels.conv_f16 import with_fewer_sums
from trainlib_deployer.kernels.panels import BLOCK
from trainlib_deployer.kernels.winograd import GRADIENT_BLOCK, PAIRS_BLOCK, SHARE, TILE, Winograd
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.ops import conv_tiles
from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.conv_shape import ConvShape
from trainlib_deployer.ops.conv_tiles import GRAIN, Cut
from trainlib_deployer.ops.patches import (
    filters,
    in_patches,
    in_taps,
    patches_forward,
    patches_input_gradient,
    patches_weight_gradient,
    taps,
)
from trainlib_deployer.ops.registry import covers
from trainlib_deployer.ops.stamps import by_planes, dealt_out, planes_shape, taken_apart
from trainlib_deployer.program.cuts import Cuttable
from trainlib_deployer.program.ir import Frugal, Kind, Leading, Part, Priced, Shape, View

aten = torch.ops.aten


@dataclass(frozen=True)
class Conv(Cuttable[Cut], Leading, Frugal, Priced):
    """direction fw: reads x, w (, bias), writes y; bw_x: reads y, w (, bias), writes x; bw_w: reads x, y (, w where it
    goes on with sums that lie there), writes w."""

    direction: str
    shape: ConvShape
    bias: bool = False
    accumulate: bool = False  # add to what is there already
    team: int = 0  # cores that work, with scratch for each; 0: all
    most_rows: int = 0  # channels whose weights are packed at a time, of bw_x and of results in halves; 0: as suits
    most_tiles: int = 0  # of four pixels, whose sums are put aside at a time where results are halves; 0: all
    winograd: Winograd | None = None  # by this algorithm, or directly
    twos: bool = False  # of halves: chains of neighbouring taps or outputs of a row (kernels/depthwise_f16.py)
    widens: bool = False  # of halves: chains of floats, as which they are copied (kernels/depthwise_f16.py)
    storage: DType = DType.F32  # of what is read, but for the bias
    result: DType = DType.F32  # of what is written
    rounds: bool = False  # w lies as floats, which are rounded as they are packed
    dense: bool = field(default=False, repr=False)  # by one tap, over planes that every tile reads where they lie
    onto: bool = field(default=False, repr=False)  # of bw_w: adds to what another operation has left in w

    @property
    def name(self) -> str:
        return f"conv2d_{self.direction}"

    @property
    def row_grain(self) -> int:
        """Tiles begin at a multiple of so many rows."""
        return TILE if self.winograd else 1

    @property
    def block(self) -> int:
        """Terms of a weight gradient that are added up on their own, from image to image; 0: rows of an image."""
        if self.winograd:
            return PAIRS_BLOCK if self.storage.is_half else GRADIENT_BLOCK
        return BLOCK if self.storage.is_half and not (self.twos or self.widens) else 0

    @property
    def adds(self) -> bool:
        """To what is there, of a tile before it or of another operation."""
        return self.accumulate or self.onto

    @property
    def in_place(self) -> bool:
        return self.onto

    @property
    def over_itself(self) -> bool:
        return self.onto

    def macs(self) -> int:
        return self.shape.macs()

    def multiplied(self) -> float:
        return self.macs() * SHARE if self.winograd else self.macs()

    @cached_property
    def chunk(self) -> Winograd:
        """What Winograd's algorithm transforms at a time."""
        return winograd.at_a_time(self)

    def scratch(self, cores: int) -> int:
        return table.scratch(self, cores)

    def leaner(self, cores: int) -> Iterator[Conv]:
        if self.winograd:
            yield from winograd_f16.leaner(self, cores) if self.storage.is_half else winograd.leaner(self, cores)
            return
        slim: Conv = self
        if self.direction == "bw_x" or self.result.is_half:
            most = packed_at_once(self) if self.direction == "bw_x" else packed_rows(self.shape.co, PACKED_ROWS)
            for rows in range(most - GRAIN, 0, -GRAIN):
                if rows <= PACKED_ROWS or rows % PACKED_ROWS == 0:
                    yield (slim := replace(self, most_rows=rows))
        if self.result.is_half:
            for fewer in with_fewer_sums(slim):
                yield (slim := fewer)
        yield from (replace(slim, team=t) for t in range(cores - 1, 0, -1))

    def cycles(self, cores: int, costs: Costs) -> float:
        return table.cycles(self, cores, costs)

    def tile(self, shape: ConvShape, accumulate: bool = False) -> Conv:
        """The same of a part."""
        return replace(self, shape=shape, accumulate=accumulate or self.accumulate)

    @cached_property
    def known(self) -> dict[tuple[object, ...], Kind]:
        """Tiles of it."""
        return {}

    def cuts(self) -> Iterator[Sequence[Cut]]:
        return conv_tiles.cuts(self)

    def part(self, cut: Cut, reads: tuple[View, ...], writes: tuple[View, ...]) -> Part:
        return conv_tiles.part(self, cut, reads, writes)


@dataclass(frozen=True)
class Geometry:
    """Stride, padding, dilation as two-dimensional pairs; a one-dimensional convolution is one row high."""

    stride: tuple[int, int]
    pad: tuple[int, int]
    dilation: tuple[int, int]

    @staticmethod
    def of(stride: Sequence[int], pad: Sequence[int], dilation: Sequence[int], rank: int) -> Geometry:
        return Geometry(pair(stride, rank, 1), pair(pad, rank, 0), pair(dilation, rank, 1))


ONE_TAP = Geometry((1, 1), (0, 0), (1, 1))


def pair(values: Sequence[int], rank: int, row: int) -> tuple[int, int]:
    full = list(values) * (rank // len(values))
    return (full[0], full[1]) if rank == 2 else (row, full[0])


def image(b: Builder, x: View) -> View:
    """[n, c, h, w], adding a height of one to signals; columns and rows must lie densely."""
    x = b.contiguous(x)
    return x if len(x.shape) == 4 else b.reshape(x, (x.shape[0], x.shape[1], 1, x.shape[2]))


def conv_shape(x: Shape, y: Shape, w: Shape, groups: int, g: Geometry) -> ConvShape:
    n, channels, height, width = x
    _, outputs, ho, wo = y
    kh, kw = w[2:]
    return ConvShape(
        n, groups, channels // groups, outputs // groups, height, width, ho, wo, kh, kw, g.stride, g.pad, g.dilation
    )


def forward(b: Builder, x: View, w: View, bias: View | None, y: Shape, groups: int, g: Geometry) -> View:
    out = b.tensor(y)
    kind = Conv("fw", conv_shape(x.shape, y, w.shape, groups, g), bias is not None)
    b.op(kind, [x, w, *([bias] if bias is not None else [])], [out])
    return out


def input_gradient(b: Builder, y: View, w: View, bias: View | None, x: Shape, groups: int, g: Geometry) -> View:
    out = b.tensor(x, suffix="input")
    kind = Conv("bw_x", conv_shape(x, y.shape, w.shape, groups, g), bias is not None)
    b.op(kind, [y, w, *([bias] if bias is not None else [])], [out], "input")
    return out


def weight_gradient(b: Builder, x: View, y: View, w: Shape, groups: int, g: Geometry) -> View:
    if not (x.numel and y.numel):
        return b.fill(w, 0, b.dtype(x))
    out = b.tensor(w, suffix="weight")
    b.op(Conv("bw_w", conv_shape(x.shape, y.shape, w, groups, g)), [x, y], [out], "weight")
    return out


def as_4d(shape: Shape) -> Shape:
    return shape if len(shape) == 4 else (*shape[:2], 1, *shape[2:])


def as_taps(b: Builder, w: View) -> View:
    """[channels, terms, 1, 1]."""
    terms = filters(b, w)
    return b.reshape(terms, (*terms.shape, 1, 1))


@covers(aten.convolution.default)
def convolution(
    b: Builder,
    x: View,
    w: View,
    bias: View | None,
    stride: list[int],
    pad: list[int],
    dilation: list[int],
    transposed: bool,
    _output_pad: list[int],
    groups: int,
) -> View:
    g = Geometry.of(stride, pad, dilation, len(x.shape) - 2)
    shape = tuple(b.meta.shape)
    dense_bias = None if bias is None else b.contiguous(bias)
    large, small = (shape, x.shape) if transposed else (x.shape, shape)
    extents = conv_shape(as_4d(large), as_4d(small), as_4d(w.shape), groups, g)
    if not transposed and in_taps(extents):
        planes = taps(b, image(b, x), extents)
        out = forward(b, planes, as_taps(b, w), dense_bias, as_4d(shape), 1, ONE_TAP)
    elif not in_patches(extents):
        step = input_gradient if transposed else forward
        out = step(b, image(b, x), image(b, w), dense_bias, as_4d(shape), groups, g)
    elif transposed:
        planes = input_gradient(b, image(b, x), by_planes(b, w), None, planes_shape(extents), 1, ONE_TAP)
        out = dealt_out(b, planes, dense_bias, extents)
    else:
        out = patches_forward(b, image(b, x), w, dense_bias, extents)
    return b.reshape(out, shape)


@covers(aten.convolution_backward.default)
def convolution_backward(
    b: Builder,
    gy: View,
    x: View,
    w: View,
    _bias_sizes: list[int] | None,
    stride: list[int],
    pad: list[int],
    dilation: list[int],
    transposed: bool,
    _output_pad: list[int],
    groups: int,
    wanted: list[bool],
) -> tuple[View | None, View | None, View | None]:
    g = Geometry.of(stride, pad, dilation, len(x.shape) - 2)
    gx = gw = gb = None
    large, small = (gy, x) if transposed else (x, gy)
    extents = conv_shape(as_4d(large.shape), as_4d(small.shape), as_4d(w.shape), groups, g)
    patches = not transposed and in_patches(extents)
    gy4 = b.reshape(gy, as_4d(gy.shape)) if patches else image(b, gy)
    w_shape = w.shape
    if transposed and in_patches(extents):
        gy4, w, g = taken_apart(b, gy4, extents), by_planes(b, w), ONE_TAP
    if wanted[0]:
        if patches:
            out = patches_input_gradient(b, gy4, w, extents)
        else:
            step = forward if transposed else input_gradient
            out = step(b, gy4, image(b, w), None, as_4d(x.shape), groups, g)
        gx = b.reshape(out, x.shape)
    if wanted[1]:
        x4 = image(b, x)
        if patches:
            out = patches_weight_gradient(b, x4, gy4, w.shape, extents)
        elif not transposed and in_taps(extents):
            out = weight_gradient(b, taps(b, x4, extents), gy4, (extents.co, prod(w.shape[1:]), 1, 1), 1, ONE_TAP)
        else:
            pair_of = (gy4, x4) if transposed else (x4, gy4)
            out = weight_gradient(b, *pair_of, as_4d(w.shape), groups, g)
        gw = b.reshape(out, w_shape)
    if wanted[2]:
        gb = b.reduce("sum", [d for d in range(len(gy.shape)) if d != 1], gy, suffix="bias")
    return gx, gw, gb
