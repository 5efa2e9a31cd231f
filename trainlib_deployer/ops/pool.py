"""Pooling over windows: maxima and averages, regular and adaptive, and their gradients.

y[p, oy, ox] = max or mean over taps (ky, kx) of x[p, oy*stride - pad + ky*dilation, ...], a plane p being one channel
of one sample. The index that comes with a maximum is the number of the tap that won, ky*kw + kx: one byte for most
windows, where PyTorch's is a position in the plane. Only the backward rules may read it.
Adaptive windows run from floor(o*h/ho) to ceil((o+1)*h/ho); where ho divides h, they are regular. A window as large as
the plane makes an average a plain reduction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

import torch

from trainlib_deployer.errors import Unsupported
from trainlib_deployer.kernels import table
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.order import as_floats, returned
from trainlib_deployer.ops.registry import covers
from trainlib_deployer.ops.sliding import Sliding
from trainlib_deployer.program.cuts import MOST_TILES, Cuttable, Range, ranges, sizes, span
from trainlib_deployer.program.ir import DType, Part, Priced, Shape, View

aten = torch.ops.aten
Pair = tuple[int, int]
INDEX_LIMIT = 2**31


@dataclass(frozen=True)
class PoolShape:
    """Planes x [planes, h, w] -> y [planes, ho, wo]. Adaptive: `kernel` is the largest window."""

    planes: int
    h: int
    w: int
    ho: int
    wo: int
    kernel: Pair
    stride: Pair = (1, 1)
    pad: Pair = (0, 0)
    dilation: Pair = (1, 1)
    adaptive: bool = False

    @property
    def whole_plane(self) -> bool:
        return (self.ho, self.wo) == (1, 1) and self.kernel == (self.h, self.w) and self.pad == (0, 0)

    @property
    def rows(self) -> Sliding:
        return Sliding(self.h, self.ho, self.kernel[0], self.stride[0], self.pad[0], self.dilation[0])

    def taps(self) -> int:
        return prod(self.kernel)

    def windows(self) -> int:
        """Inputs of all windows of a plane together."""
        return self.ho * self.wo * self.taps()


class Cut(NamedTuple):
    """One tile."""

    planes: Range
    rows: Range  # of what is written


@dataclass(frozen=True)
class Pool(Cuttable[Cut], Priced):
    """direction fw: reads x, writes y and what lies like it; bw: reads these (y = dL/dy), writes x (= dL/dx)."""

    direction: str
    shape: PoolShape

    def touched(self, operand: int, view: View) -> int:
        """An element under several windows is asked for by each."""
        forward = self.direction == "fw" and operand == 0
        return view.numel // (self.shape.h * self.shape.w) * self.shape.windows() if forward else view.numel

    def cycles(self, cores: int, costs: Costs) -> float:
        return table.cycles(self, cores, costs)

    def scratch(self, cores: int) -> int:
        return table.scratch(self, cores)

    def cuts(self) -> Iterator[list[Cut]]:
        """Planes, and rows where windows lie evenly."""
        s = self.shape
        rows = s.ho if self.direction == "fw" else s.h
        for p in sizes(s.planes):
            for r in sizes(rows) if p in (1, s.planes) and not s.adaptive else [rows]:
                if -(-s.planes // p) * -(-rows // r) <= MOST_TILES:
                    yield [Cut(planes, of_rows) for planes in ranges(s.planes, p) for of_rows in ranges(rows, r)]

    def part(self, cut: Cut, reads: tuple[View, ...], writes: tuple[View, ...]) -> Part:
        s, forward = self.shape, self.direction == "fw"
        if s.adaptive:
            seen, reached, pad = (0, s.h), (0, s.ho), 0
        elif forward:
            reached, (seen, pad) = cut.rows, s.rows.read(cut.rows)
        else:
            seen, (reached, pad) = cut.rows, s.rows.reached(cut.rows)
        shape = replace(s, planes=span(cut.planes), h=span(seen), ho=span(reached), pad=(pad, s.pad[1]))
        before, behind = (seen, reached) if forward else (reached, seen)
        return Part(
            self.tile(shape, seen[0]),
            tuple(v.sliced(0, *cut.planes).sliced(1, *before) for v in reads),
            tuple(v.sliced(0, *cut.planes).sliced(1, *behind) for v in writes),
        )

    def tile(self, shape: PoolShape, first: int) -> Pool:
        """The same of a part, whose x begins with row `first`."""
        return replace(self, shape=shape)


@dataclass(frozen=True)
class MaxPool(Pool):
    """What lies like y is the tap that won."""

    tap: DType
    storage: DType = DType.F32  # of x and y

    @property
    def name(self) -> str:
        return f"{prefix(self.shape)}maxpool2d_{self.direction}"


@dataclass(frozen=True)
class AvgPool(Pool):
    """divisor 0: the window's own count."""

    count_pad: bool = False
    divisor: int = 0
    counts: Pair | None = None  # of a tile: its first row that divisors count, and the first behind them

    @property
    def name(self) -> str:
        return f"{prefix(self.shape)}avgpool2d_{self.direction}"

    def tile(self, shape: PoolShape, first: int) -> AvgPool:
        start, end = self.counted(0)
        return replace(self, shape=shape, counts=(start - first, end - first))

    def counted(self, dim: int) -> Pair:
        """From the first row (column) that a window's divisor counts to behind the last."""
        if dim == 0 and self.counts is not None:
            return self.counts
        pad, extent = self.shape.pad[dim] if self.count_pad else 0, (self.shape.h, self.shape.w)[dim]
        return -pad, extent + pad


def prefix(shape: PoolShape) -> str:
    return "adaptive_" if shape.adaptive else ""


def tap_dtype(taps: int) -> DType:
    """The smallest type that numbers the taps of a window."""
    if taps <= 255:
        return DType.U8
    return DType.U16 if taps <= 65535 else DType.I32


def pair(values: Sequence[int]) -> Pair:
    return values[0], values[-1]


def plane_shape(shape: Shape) -> tuple[int, int, int]:
    """[..., h, w] as [planes, h, w]."""
    return prod(shape[:-2]), shape[-2], shape[-1]


def as_planes(b: Builder, view: View) -> View:
    """[planes, h, w] with dense columns; planes and rows may lie apart."""
    shown = view.reshaped(plane_shape(view.shape))
    if shown is not None and (shown.strides[2] == 1 or shown.shape[2] == 1):
        return shown
    return b.reshape(b.contiguous(view), plane_shape(view.shape))


def regular(
    x: Shape, y: Shape, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], dilation: Sequence[int] = (1,)
) -> PoolShape:
    steps = pair(stride or kernel)
    return PoolShape(*plane_shape(x), y[-2], y[-1], pair(kernel), steps, pair(pad), pair(dilation))


def adaptive(b: Builder, x: Shape, y: Shape) -> PoolShape:
    """Windows that cut a plane into ho x wo pieces; regular where they all have one size."""
    (h, w), (ho, wo) = x[-2:], y[-2:]
    if h % ho == 0 and w % wo == 0:
        return regular(x, y, (h // ho, w // wo), (), (0,))
    if max((h + 1) * (ho + 1), (w + 1) * (wo + 1)) >= INDEX_LIMIT:
        raise Unsupported(
            f"adaptive pooling from {h}x{w} to {ho}x{wo} is too large",
            source=b.where.source,
            remedy=f"pool windows of one size instead, such as kernel_size={max(h // ho, 1), max(w // wo, 1)}, or to "
            "sizes that divide the image",
        )
    return PoolShape(*plane_shape(x), ho, wo, (widest(h, ho), widest(w, wo)), adaptive=True)


def widest(extent: int, parts: int) -> int:
    return max(-(-(o + 1) * extent // parts) - o * extent // parts for o in range(parts))


# ---- maxima


def max_forward(b: Builder, x: View, shape: PoolShape) -> tuple[View, View]:
    y = b.tensor((shape.planes, shape.ho, shape.wo))
    tap = b.tensor(y.shape, tap_dtype(shape.taps()), "tap")
    b.op(MaxPool("fw", shape, b.dtype(tap)), [as_planes(b, as_floats(b, x))], [y, tap])
    out = (*x.shape[:-2], shape.ho, shape.wo)
    return b.reshape(returned(b, x, y), out), b.reshape(tap, out)


def max_backward(b: Builder, gy: View, x: Shape, tap: View, shape: PoolShape) -> View:
    gx = b.tensor((shape.planes, shape.h, shape.w))
    b.op(MaxPool("bw", shape, b.dtype(tap)), [as_planes(b, gy), as_planes(b, tap)], [gx])
    return b.reshape(gx, x)


@covers(aten.max_pool2d_with_indices.default)
def max_pool2d(
    b: Builder,
    x: View,
    kernel: list[int],
    stride: Sequence[int] = (),
    pad: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    _ceil_mode: bool = False,
) -> tuple[View, View]:
    return max_forward(b, x, regular(x.shape, tuple(b.meta[0].shape), kernel, stride, pad, dilation))


@covers(aten.max_pool2d_with_indices_backward.default)
def max_pool2d_backward(
    b: Builder,
    gy: View,
    x: View,
    kernel: list[int],
    stride: list[int],
    pad: list[int],
    dilation: list[int],
    _ceil_mode: bool,
    indices: View,
) -> View:
    return max_backward(b, gy, x.shape, indices, regular(x.shape, gy.shape, kernel, stride, pad, dilation))


@covers(aten.adaptive_max_pool2d.default)
def adaptive_max_pool2d(b: Builder, x: View, _size: list[int]) -> tuple[View, View]:
    return max_forward(b, x, adaptive(b, x.shape, tuple(b.meta[0].shape)))


@covers(aten.adaptive_max_pool2d_backward.default)
def adaptive_max_pool2d_backward(b: Builder, gy: View, x: View, indices: View) -> View:
    return max_backward(b, gy, x.shape, indices, adaptive(b, x.shape, gy.shape))


# ---- averages


def average_forward(b: Builder, x: View, shape: PoolShape, count_pad: bool = False, divisor: int | None = None) -> View:
    if shape.whole_plane:
        n = float(divisor or shape.taps())
        return b.reduce("sum", (-2, -1), x, post=lambda s: s / n, keepdim=True)
    y = b.tensor((shape.planes, shape.ho, shape.wo))
    b.op(AvgPool("fw", shape, count_pad, divisor or 0), [as_planes(b, x)], [y])
    return b.reshape(y, (*x.shape[:-2], shape.ho, shape.wo))


def average_backward(
    b: Builder, gy: View, x: Shape, shape: PoolShape, count_pad: bool = False, divisor: int | None = None
) -> View:
    if shape.whole_plane:
        inverse = 1.0 / (divisor or shape.taps())
        return b.map(lambda g: g * inverse, gy, shape=x)
    gx = b.tensor((shape.planes, shape.h, shape.w))
    b.op(AvgPool("bw", shape, count_pad, divisor or 0), [as_planes(b, gy)], [gx])
    return b.reshape(gx, x)


@covers(aten.avg_pool2d.default)
def avg_pool2d(
    b: Builder,
    x: View,
    kernel: list[int],
    stride: Sequence[int] = (),
    pad: Sequence[int] = (0,),
    _ceil_mode: bool = False,
    count_pad: bool = True,
    divisor: int | None = None,
) -> View:
    return average_forward(b, x, regular(x.shape, tuple(b.meta.shape), kernel, stride, pad), count_pad, divisor)


@covers(aten.avg_pool2d_backward.default)
def avg_pool2d_backward(
    b: Builder,
    gy: View,
    x: View,
    kernel: list[int],
    stride: list[int],
    pad: list[int],
    _ceil_mode: bool,
    count_pad: bool,
    divisor: int | None,
) -> View:
    return average_backward(b, gy, x.shape, regular(x.shape, gy.shape, kernel, stride, pad), count_pad, divisor)


@covers(aten._adaptive_avg_pool2d.default)
def adaptive_avg_pool2d(b: Builder, x: View, _size: list[int]) -> View:
    return average_forward(b, x, adaptive(b, x.shape, tuple(b.meta.shape)))


@covers(aten._adaptive_avg_pool2d_backward.default)
def adaptive_avg_pool2d_backward(b: Builder, gy: View, x: View) -> View:
    return average_backward(b, gy, x.shape, adaptive(b, x.shape, gy.shape))


# ---- signals: one row high


def as_rows(b: Builder, x: View) -> View:
    return b.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))


@covers(aten.avg_pool1d.default)
def avg_pool1d(
    b: Builder,
    x: View,
    kernel: list[int],
    stride: Sequence[int] = (),
    pad: Sequence[int] = (0,),
    _ceil_mode: bool = False,
    count_pad: bool = True,
) -> View:
    shape, image = tuple(b.meta.shape), as_rows(b, x)
    step = (1, *(stride or kernel))
    pooled = regular(image.shape, (*shape[:-1], 1, shape[-1]), (1, *kernel), step, (0, *pad))
    return b.reshape(average_forward(b, image, pooled, count_pad), shape)


@covers(aten.adaptive_avg_pool1d.default)
def adaptive_avg_pool1d(b: Builder, x: View, _size: list[int]) -> View:
    shape, image = tuple(b.meta.shape), as_rows(b, x)
    return b.reshape(average_forward(b, image, adaptive(b, image.shape, (*shape[:-1], 1, shape[-1]))), shape)
