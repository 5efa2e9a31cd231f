"""Convolutions of operands in half precision, packed by pairs of terms: weights by the team; pixels by each core or,
where a row of the kernel has few taps, by the team as well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.conv import PACKED_ROWS, TILE, directly, fields, packed_rows
from trainlib_deployer.kernels.one_tap_f16 import (
    apart_cycles,
    dense_gradients,
    left_out,
    met_and_panels,
    one_row,
    one_tap,
    product_cycles,
    product_panels,
    whole,
    whole_cycles,
    whole_panels,
)
from trainlib_deployer.kernels.panels import BLOCK, FLOAT, PAIRS_PANEL, pair_cycles
from trainlib_deployer.kernels.row import CHANNELS, PAIRS, Grain, Row
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.cuts import working

if TYPE_CHECKING:
    from trainlib_deployer.ops.conv import Conv

MADE = {(3, 1), (2, 2), (1, 2)}  # taps of a row, and how far apart outputs are
PLANES, WEIGHTS = 3264, 2304  # words of all planes and of all weights at a time
MOST_TAPS = 72  # of the kernel, times planes at a time
BLOCK_PAIRS = BLOCK // 2  # of terms, in a block
MOST_TILES, STRIP_TILES = 16, 8  # of channels whose gradients the team packs at a time, of a block and of a strip
INPUTS, GRADIENTS = 3072, 1600  # words that a weight gradient by kernel rows packs at a time


def gathered(kind: Conv, cores: int) -> int:
    """Two panels and a table of taps a core, and the weights that the team packs, of twice as many channels."""
    s = kind.shape
    own = 2 * PAIRS_PANEL + FLOAT * min(s.kh * s.kw, BLOCK)
    return working(kind.team, cores) * own + packed_tiles(kind) * PAIRS_PANEL + sums(kind)


def sums(kind: Conv) -> int:
    """Bytes of those that are to be halves and take several blocks."""
    return 4 * 4 * FLOAT * packed_tiles(kind) * min(put_aside(kind), kind.most_tiles or put_aside(kind))


def put_aside(kind: Conv) -> int:
    """Tiles of four pixels, of the class with the most."""
    s, most = kind.shape, 0
    channels = s.ci if kind.direction == "fw" else s.co
    for y, x in [] if kind.result is DType.F32 else classes(kind):
        taps, terms = (1, y.taps * x.taps) if by_taps(kind) else (y.taps * x.taps, channels)
        if taps > BLOCK_PAIRS or -(-terms // 2) > BLOCK_PAIRS // taps:
            most = max(most, -(-s.n * y.count * x.count // 4))
    return most


def by_taps(kind: Conv) -> bool:
    """One channel has no neighbour: its pairs are those of taps, unless planes are faster even so."""
    return kind.direction == "fw" and kind.shape.ci == 1 and kind.shape.kw != 3


def with_fewer_sums(kind: Conv) -> Iterator[Conv]:
    """Weights are then packed more often."""
    for tiles in (64, 8):
        if tiles < put_aside(kind) and not few_taps(kind, 0):
            yield replace(kind, most_tiles=tiles)


def parted(kind: Conv, pixels: int) -> tuple[int, int]:
    """How many parts of so many pixels are done one after the other, and the pixels of each."""
    parts = max(-(-pixels // (4 * kind.most_tiles)), 1) if kind.most_tiles else 1
    return parts, -(-pixels // parts)


def forward_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    s, team, most = kind.shape, working(kind.team, cores), at_once(kind)
    parts, pixels = parted(kind, s.n * s.ho * s.wo)
    return parts * pair_cycles(s.groups, s.co, pixels, s.ci * s.kh * s.kw, team, most, costs.pixels)


def input_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    """Classes of the outputs modulo the stride, alike."""
    s, team, most = kind.shape, working(kind.team, cores), 2 * (kind.most_rows or PACKED_ROWS)
    classes_of = s.stride[0] * s.stride[1]
    pixels, terms = -(-s.n * s.h * s.w // classes_of), -(-s.co * s.kh * s.kw // classes_of)
    parts, pixels = parted(kind, pixels)
    return classes_of * parts * pair_cycles(s.groups, s.ci, pixels, terms, team, most, costs.pixels)


def weight_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    s, team, most = kind.shape, working(kind.team, cores), 4 * MOST_TILES
    return pair_cycles(s.groups, s.co, s.ci * s.kh * s.kw, s.n * s.ho * s.wo, team, most, costs.columns)


def packed_tiles(kind: Conv) -> int:
    """Of four channels."""
    channels = kind.shape.co if kind.direction == "fw" else kind.shape.ci
    return packed_rows(channels, at_once(kind)) // 4


def at_once(kind: Conv) -> int:
    """Channels whose weights the team packs; twice as many where pairs are those of taps, which take long to gather."""
    return 2 * (kind.most_rows or PACKED_ROWS * (2 if by_taps(kind) else 1))


# ---- weight gradients by kernel rows: conv2d_bw_w_3_f16.c


def strip(kind: Conv) -> tuple[int, int, int, int]:
    """What is packed at a time: rows of outputs, rows of an input channel, input channels, tiles of output channels."""
    s = kind.shape
    beyond = (s.kh - 1) * s.dilation[0] // s.stride[0]
    tiles = min(-(-s.co // 4), STRIP_TILES, GRADIENTS // (2 * s.wo))
    most = min(GRADIENTS // (2 * s.wo * tiles), 2 * INPUTS // (3 * s.wo * s.stride[0]) - beyond) if tiles else 0
    if most < 1:
        return 0, 0, 0, 0
    rows = -(-s.ho // -(-s.ho // most))
    packed = s.stride[0] * (rows + beyond)
    fit = 2 * INPUTS // (3 * s.wo * packed)
    return rows, packed, -(-s.ci // -(-s.ci // fit)), tiles


def by_kernel_rows(kind: Conv, _cores: int) -> bool:
    s = kind.shape
    return directly(kind, 0) and s.kw == 3 and s.wo % 2 == 0 < s.wo and s.co * s.ci > 0 and strip(kind)[2] > 0


def strip_words(kind: Conv, _cores: int) -> int:
    rows, packed, inputs, tiles = strip(kind)
    return FLOAT * kind.shape.wo * (inputs * packed * 3 + tiles * rows * 4) // 2


def strip_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    s, (rows, packed, inputs, tiles), c = kind.shape, strip(kind), costs.strips
    strips, passes, all_tiles = s.n * s.groups * -(-s.ho // rows), -(-s.ci // inputs), -(-s.co // 4)
    units = -(-all_tiles * s.ci * s.kh // working(kind.team, cores))
    packing = c.inputs * s.ci * packed * -(-all_tiles // tiles) + c.gradients * all_tiles * rows
    work = units * (c.tile + c.pair * rows * s.wo / 2) + packing * s.wo / 2 / cores
    return strips * (work + c.step * passes * -(-all_tiles // tiles))


# ---- few taps, over planes of pairs of channels: conv_planes.c


@dataclass(frozen=True)
class Axis:
    """One dimension of a class of outputs: how many, of how many taps, elements between what neighbours meet, and the
    first of what they meet."""

    count: int
    taps: int
    step: int
    first: int = 0


@dataclass(frozen=True)
class Planes:
    """Of one class: words of a row, pairs of channels at a time, rows of the planes, strips of rows."""

    pitch: int
    pairs: int
    rows: int
    strips: int

    @property
    def words(self) -> int:
        return self.pitch * self.pairs * self.rows


def axes(kind: Conv, at: int) -> list[Axis]:
    """Of an input gradient, those of each residue of the output position modulo the stride."""
    s = kind.shape
    kernel, stride = (s.kh, s.kw)[at], s.stride[at]
    if kind.direction == "fw":
        return [Axis((s.ho, s.wo)[at], kernel, stride)]
    pad, extent = s.pad[at], (s.h, s.w)[at]
    taps = [tap * s.dilation[at] for tap in range(kernel)]
    met = [[tap for tap in taps if (r + pad - tap) % stride == 0] for r in range(stride)]
    return [
        Axis(-(-(extent - r) // stride), len(found), 1, (r + pad - max(found, default=0)) // stride)
        for r, found in enumerate(met)
    ]


def classes(kind: Conv) -> list[tuple[Axis, Axis]]:
    """Those that have outputs and taps."""
    return [(y, x) for y in axes(kind, 0) for x in axes(kind, 1) if y.count > 0 < x.count and y.taps > 0 < x.taps]


def planes(kind: Conv, y: Axis, x: Axis) -> Planes:
    channels = kind.shape.ci if kind.direction == "fw" else kind.shape.co
    pitch = (-(-x.count // 4) * 4 - 1) * x.step + x.taps
    every = -(-channels // 2)
    pairs = min(PLANES // (y.taps * pitch), every)
    if kind.result is DType.F32:
        pairs = min(pairs, MOST_TAPS // (y.taps * x.taps))
    if pairs < (1 if kind.result is DType.F32 else every):
        return Planes(pitch, 0, 0, 0)
    strips = -(-y.count // ((PLANES // (pairs * pitch) - y.taps) // y.step + 1))
    return Planes(pitch, pairs, (-(-y.count // strips) - 1) * y.step + y.taps, strips)


def shared(kind: Conv) -> int:
    """Words of planes that all classes of an input gradient read; 0: each has its own."""
    s = kind.shape
    if kind.direction == "fw" or kind.result is DType.F32 or s.n * s.groups != 1 or s.stride != (2, 2):
        return 0
    words = -(-s.co // 2)
    for at, fours in ((0, 1), (1, 4)):
        found = [x for x in axes(kind, at) if x.taps and x.count > 0]
        ends = [x.first + -(-x.count // fours) * fours - 1 + x.taps for x in found]
        words *= max(ends, default=0) - min((x.first for x in found), default=0)
    return words if words <= PLANES else 0


def few_taps(kind: Conv, _cores: int) -> bool:
    """Rows of outputs fill their fours to more than a half. A pointwise convolution's pixels are better packed where
    they are."""
    s, apart = kind.shape, 1 if kind.direction == "fw" else kind.shape.stride[1]
    if not directly(kind, 0) or s.dilation != (1, 1) or s.kh * s.kw == 1:
        return False
    known = all((x.taps, apart) in MADE and x.step <= 2 for _, x in classes(kind))
    full = all(2 * x.count > -(-x.count // 4) * 4 for _, x in classes(kind))
    return known and full and bool(classes(kind)) and all(planes(kind, *c).pairs for c in classes(kind))


def weight_tiles(kind: Conv, taps: int) -> int:
    """Of four channels at a time, of so many words each."""
    return min(packed_tiles(kind), max(WEIGHTS // (4 * taps), 1))


def plane_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    s, c, total = kind.shape, costs.planes, 0.0
    channels, made = (s.ci, s.co) if kind.direction == "fw" else (s.co, s.ci)
    pairs, tiles, common = -(-channels // 2), -(-made // 4), shared(kind)
    for y, x in classes(kind):
        p, taps = planes(kind, y, x), x.taps * y.taps
        of_tile = pairs * s.kh * s.kw if common else p.pairs * taps
        blocks, passes = -(-pairs // p.pairs), -(-tiles // weight_tiles(kind, of_tile))
        share = -(-y.count * s.n * s.groups * -(-x.count // 4) * tiles // working(kind.team, cores))
        words = common / len(classes(kind)) if common else pairs * p.rows * p.pitch
        packing = (pairs * c.weights * tiles * taps * 4 + c.pixels * words) / cores
        total += share * (c.tile * blocks + c.tap * taps * pairs)
        total += p.strips * s.n * s.groups * (c.step * blocks * passes + packing)
    return total


def planes_and_weights(kind: Conv, _cores: int) -> int:
    """The first words of the kernel row that would follow are read, too."""
    if common := shared(kind):
        of_tile = -(-kind.shape.co // 2) * kind.shape.kh * kind.shape.kw
        return FLOAT * (common + max(weight_tiles(kind, of_tile) * of_tile * 4 + 2, common // -(-kind.shape.co // 2)))
    words = 0
    for y, x in classes(kind):
        p = planes(kind, y, x)
        of_tile, beyond = p.pairs * x.taps * y.taps, p.pitch * (p.rows if y.taps == 1 else 1)
        words = max(words, p.words + max(weight_tiles(kind, of_tile) * of_tile * 4 + 2, beyond))
    return FLOAT * words


def columns(kind: Conv, cores: int) -> int:
    """A panel a core, and the gradients that the team packs."""
    return (working(kind.team, cores) + min(-(-kind.shape.co // 4), MOST_TILES)) * PAIRS_PANEL


row = partial(Row, struct="tl_conv2d", header="tl_conv.h", fields=fields, takes=directly, grain=TILE, storage=DType.F16)
gathering = partial(row, scratch=gathered, split="tiles of channels x pixels", arithmetic=CHANNELS)
over_planes = partial(gathering, takes=few_taps, scratch=planes_and_weights, cycles=plane_cycles)

weight_gradient = partial(row, "conv2d_bw_w", arithmetic=PAIRS)
product = partial(row, takes=one_tap, scratch=product_panels, cycles=product_cycles, split="tiles")
in_one_go = partial(row, takes=whole, scratch=whole_panels, cycles=whole_cycles, split="tiles")

CONV_F16 = (
    in_one_go(
        "conv2d_fw",
        "tl_conv2d_fw_pointwise_whole_f16",
        "conv/conv2d_fw_pointwise_whole_f16.c",
        arithmetic=CHANNELS,
    ),
    product("conv2d_fw", "tl_conv2d_fw_pointwise_f16", "conv/conv2d_fw_pointwise_f16.c", arithmetic=CHANNELS),
    over_planes("conv2d_fw", "tl_conv2d_fw_planes_f16", "conv/conv2d_fw_planes_f16.c"),
    gathering("conv2d_fw", "tl_conv2d_fw_f16", "conv/conv2d_fw_f16.c", cycles=forward_cycles),
    in_one_go(
        "conv2d_bw_w",
        "tl_conv2d_bw_w_pointwise_whole_f16",
        "conv/conv2d_bw_w_pointwise_whole_f16.c",
        arithmetic=PAIRS,
        fits=one_row,
    ),
    product(
        "conv2d_bw_w",
        "tl_conv2d_bw_w_pointwise_f16",
        "conv/conv2d_bw_w_pointwise_f16.c",
        arithmetic=PAIRS,
        fits=one_row,
    ),
    weight_gradient(
        "tl_conv2d_bw_w_3_f16",
        "conv/conv2d_bw_w_3_f16.c",
        takes=by_kernel_rows,
        scratch=strip_words,
        cycles=strip_cycles,
        split="tiles of channels x kernel rows",
        grain=Grain(4, 3, 2),
    ),
    weight_gradient(
        "tl_conv2d_bw_w_f16",
        "conv/conv2d_bw_w_f16.c",
        scratch=columns,
        cycles=weight_cycles,
        split="tiles of channels x taps",
    ),
    in_one_go(
        "conv2d_bw_x",
        "tl_conv2d_bw_x_pointwise_whole_f16",
        "conv/conv2d_bw_x_pointwise_whole_f16.c",
        arithmetic=CHANNELS,
        fits=one_row,
    ),
    product(
        "conv2d_bw_x",
        "tl_conv2d_bw_x_pointwise_f16",
        "conv/conv2d_bw_x_pointwise_f16.c",
        arithmetic=CHANNELS,
        fits=one_row,
    ),
    row(
        "conv2d_bw_x",
        "tl_conv2d_bw_x_apart_f16",
        "conv/conv2d_bw_x_apart_f16.c",
        takes=left_out,
        fits=dense_gradients,
        scratch=met_and_panels,
        cycles=apart_cycles,
        split="tiles, then rows",
        arithmetic=CHANNELS,
    ),
    over_planes("conv2d_bw_x", "tl_conv2d_bw_x_planes_f16", "conv/conv2d_bw_x_planes_f16.c"),
    gathering("conv2d_bw_x", "tl_conv2d_bw_x_f16", "conv/conv2d_bw_x_f16.c", cycles=input_cycles),
)
