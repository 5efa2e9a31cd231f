"""Convolution, its gradients, and transposed convolution.

y[n, o, p] = bias[o] + sum_{c, k} w[o, c, k] * x[n, c, p*stride - pad + k*dilation], in one or two dimensions.
dL/dx is a transposed convolution of dL/dy with w; dL/dw correlates x with dL/dy; dL/dbias sums dL/dy.
A transposed convolution is the same trio with the roles of x and y exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.ops import conv_tiles
from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.conv_tiles import GRAIN
from trainlib_deployer.ops.kernel_scratch import PACKED_ROWS, conv_scratch, packed_rows
from trainlib_deployer.ops.registry import covers
from trainlib_deployer.program.call import Call, Operand, strides
from trainlib_deployer.program.cuts import panel_cycles, working
from trainlib_deployer.program.ir import Part, Shape, View

aten = torch.ops.aten


@dataclass(frozen=True)
class ConvShape:
    """Extents of a two-dimensional convolution x [n, groups*ci, h, w] -> y [n, groups*co, ho, wo]."""

    n: int
    groups: int
    ci: int
    co: int
    h: int
    w: int
    ho: int
    wo: int
    kh: int
    kw: int
    stride: tuple[int, int]
    pad: tuple[int, int]
    dilation: tuple[int, int]

    def macs(self) -> int:
        return self.n * self.groups * self.ci * self.co * self.ho * self.wo * self.kh * self.kw


@dataclass(frozen=True)
class Conv:
    """direction fw: reads x, w (, bias), writes y; bw_x: reads y, w (, bias), writes x; bw_w: reads x, y, writes w."""

    direction: str
    shape: ConvShape
    bias: bool = False
    accumulate: bool = False  # add to what is there already
    team: int = 0  # cores that work, with scratch for each; 0: all
    most_rows: int = PACKED_ROWS  # bw_x: channels whose weights are packed at a time

    headers = ("tl_conv.h",)

    @property
    def name(self) -> str:
        return f"conv2d_{self.direction}"

    @property
    def kernel(self) -> str:
        return f"tl_conv2d_{self.direction}_f32"

    def macs(self) -> int:
        return self.shape.macs()

    def scratch(self, cores: int) -> int:
        s = self.shape
        extents = (s.n, s.groups, s.ci, s.co, s.h, s.w, s.ho, s.wo, s.kh, s.kw)
        cores = working(self.team, cores)
        return conv_scratch(self.direction, *extents, s.stride, s.pad, s.dilation, cores, self.most_rows)

    def leaner(self, cores: int) -> Iterator[Conv]:
        slim: Conv = self
        if self.direction == "bw_x":
            for rows in range(packed_rows(self.shape.ci, PACKED_ROWS) - GRAIN, 0, -GRAIN):
                yield (slim := replace(self, most_rows=rows))
        yield from (replace(slim, team=t) for t in range(cores - 1, 0, -1))

    def call(self, reads: list[Operand], writes: list[Operand], scratch: str) -> Call:
        names = {"fw": ("x", "w", "y"), "bw_x": ("y", "w", "x"), "bw_w": ("x", "y", "w")}[self.direction]
        operands = dict(zip(names, (*reads[:2], writes[0]), strict=True))
        s = self.shape
        fields: list[tuple[str, str | int]] = [(n, operands[n].pointer) for n in ("x", "w", "y")]
        if self.bias:
            fields.append(("bias", reads[2].pointer))
        fields += [("n", s.n), ("groups", s.groups), ("ci", s.ci), ("co", s.co)]
        fields += [("h", s.h), ("wd", s.w), ("ho", s.ho), ("wo", s.wo), ("kh", s.kh), ("kw", s.kw)]
        fields += [("stride_h", s.stride[0]), ("stride_w", s.stride[1]), ("pad_h", s.pad[0]), ("pad_w", s.pad[1])]
        fields += [("dil_h", s.dilation[0]), ("dil_w", s.dilation[1])]
        fields += [*pitch("xp", operands["x"].view), *pitch("yp", operands["y"].view)]
        fields += [*strides("w", ("co", "ci"), operands["w"].view, 2), ("accumulate", int(self.accumulate))]
        fields += [("team", self.team), ("packed_rows", self.most_rows if self.most_rows < PACKED_ROWS else 0)]
        fields.append(("scratch", scratch))
        return Call(self.kernel, "tl_conv2d", tuple(fields))

    def cycles(self, cores: int, costs: Costs) -> float:
        """Of the slowest core: tiles of 4 x 4 results over K terms, and the packing of each panel of 4 columns."""
        s = self.shape
        rows, columns, terms = {
            "fw": (s.co, s.n * s.ho * s.wo, s.ci * s.kh * s.kw),
            "bw_x": (s.ci, s.n * s.h * s.w, s.co * s.kh * s.kw // (s.stride[0] * s.stride[1]) + 1),
            "bw_w": (s.co, s.ci * s.kh * s.kw, s.n * s.ho * s.wo),
        }[self.direction]
        if s.ci == 1 and s.co < 4:  # depthwise: by rows of single planes
            shares = s.groups * (1 if self.direction == "bw_w" else s.ho)
            return costs.conv.depthwise_mac * s.macs() / min(cores, shares) + costs.conv.depthwise
        step = self.most_rows if self.most_rows < PACKED_ROWS else max(rows, 1)
        passes = [min(step, rows - row) for row in range(0, rows, step)]
        team = working(self.team, cores)
        work = sum(panel_cycles(s.groups, r, columns, terms, team, costs.panel) for r in passes)
        if self.direction == "bw_x":  # all cores pack the weights, block by block
            work *= costs.conv.scattered if max(s.stride) > 1 else 1.0
            packing = costs.conv.packed_weight * s.groups * s.co * s.ci * s.kh * s.kw / cores
            work += packing + len(passes) * s.groups * (costs.conv.packed_block * -(-terms // 64))
        return work

    def cuts(self) -> Iterator[list[conv_tiles.Cut]]:
        return conv_tiles.cuts(self)

    def adds(self, cut: conv_tiles.Cut) -> bool:
        return not cut.first

    def part(self, cut: conv_tiles.Cut, reads: tuple[View, ...], writes: tuple[View, ...]) -> Part:
        return conv_tiles.part(self, cut, reads, writes)


def pitch(name: str, view: View) -> list[tuple[str, str | int]]:
    return [(f"{name}.{axis}", s) for axis, s in zip("nch", view.strides, strict=False)]


@dataclass(frozen=True)
class Geometry:
    """Stride, padding, dilation as two-dimensional pairs; a one-dimensional convolution is one row high."""

    stride: tuple[int, int]
    pad: tuple[int, int]
    dilation: tuple[int, int]

    @staticmethod
    def of(stride: Sequence[int], pad: Sequence[int], dilation: Sequence[int], rank: int) -> Geometry:
        return Geometry(pair(stride, rank, 1), pair(pad, rank, 0), pair(dilation, rank, 1))


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
    out = b.tensor(w, suffix="weight")
    b.op(Conv("bw_w", conv_shape(x.shape, y.shape, w, groups, g)), [x, y], [out], "weight")
    return out


def as_4d(shape: Shape) -> Shape:
    return shape if len(shape) == 4 else (*shape[:2], 1, *shape[2:])


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
    step = input_gradient if transposed else forward
    out = step(b, image(b, x), image(b, w), dense_bias, as_4d(shape), groups, g)
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
    gy4 = image(b, gy)
    if wanted[0]:
        step = forward if transposed else input_gradient
        gx = b.reshape(step(b, gy4, image(b, w), None, as_4d(x.shape), groups, g), x.shape)
    if wanted[1]:
        x4 = image(b, x)
        pair_of = (gy4, x4) if transposed else (x4, gy4)
        gw = b.reshape(weight_gradient(b, *pair_of, as_4d(w.shape), groups, g), w.shape)
    if wanted[2]:
        gb = b.reduce("sum", [d for d in range(len(gy.shape)) if d != 1], gy, suffix="bias")
    return gx, gw, gb
