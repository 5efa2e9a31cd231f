"""Convolutions of operands in half precision, packed by pairs of terms: weights by the team; pixels by each core or,
for 3 x 3 kernels, by the team as well."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.conv import (
    TILE,
    directly,
    fields,
    forward_cycles,
    input_cycles,
    packed_rows,
    weight_cycles,
)
from trainlib_deployer.kernels.panels import BLOCK, FLOAT, PAIRS_PANEL
from trainlib_deployer.kernels.row import CHANNELS, PAIRS, Grain, Row
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.cuts import working

if TYPE_CHECKING:
    from trainlib_deployer.ops.conv import Conv

TAPS = 3 * 3
PLANES = 2720  # words of all planes at a time
MOST_PAIRS = 8  # planes at a time
MOST_TILES = 8  # of channels whose gradients the team packs at a time
INPUTS, GRADIENTS = 3072, 1600  # words that a weight gradient by kernel rows packs at a time


def gathered(kind: Conv, cores: int) -> int:
    """Two panels and a table of taps a core, and the weights that the team packs, of twice as many channels."""
    s = kind.shape
    own = 2 * PAIRS_PANEL + FLOAT * min(s.kh * s.kw, BLOCK)
    return working(kind.team, cores) * own + packed_tiles(kind) * PAIRS_PANEL


def packed_tiles(kind: Conv) -> int:
    """Of four channels."""
    channels = kind.shape.co if kind.direction == "fw" else kind.shape.ci
    return packed_rows(channels, 2 * kind.most_rows) // 4


# ---- weight gradients by kernel rows: conv2d_bw_w_3_f16.c


def strip(kind: Conv) -> tuple[int, int, int, int]:
    """What is packed at a time: rows of outputs, rows of an input channel, input channels, tiles of output channels."""
    s = kind.shape
    beyond = (s.kh - 1) * s.dilation[0] // s.stride[0]
    tiles = min(-(-s.co // 4), MOST_TILES, GRADIENTS // (2 * s.wo))
    most = min(GRADIENTS // (2 * s.wo * tiles), 2 * INPUTS // (3 * s.wo * s.stride[0]) - beyond) if tiles else 0
    if most < 1:
        return 0, 0, 0, 0
    rows = -(-s.ho // -(-s.ho // most))
    packed = s.stride[0] * (rows + beyond)
    fit = 2 * INPUTS // (3 * s.wo * packed)
    return rows, packed, -(-s.ci // -(-s.ci // fit)), tiles


def by_kernel_rows(kind: Conv, _cores: int) -> bool:
    s = kind.shape
    return kind.winograd is None and s.kw == 3 and s.wo % 2 == 0 < s.wo and s.co * s.ci > 0 and strip(kind)[2] > 0


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


# ---- 3 x 3 kernels over planes of pairs of channels: conv_planes.c


def planes(kind: Conv) -> tuple[int, int, int]:
    """Words of a row; pairs of channels at a time; rows of the planes."""
    s = kind.shape
    channels, high, wide = (s.ci, max(s.ho, 1), s.wo) if kind.direction == "fw" else (s.co, max(s.h, 1), s.w)
    (down, step) = s.stride if kind.direction == "fw" else (1, 1)
    pitch = (-(-wide // 4) * 4 - 1) * step + 3
    pairs = min(PLANES // (3 * pitch), -(-channels // 2), MOST_PAIRS)
    if pairs == 0:
        return pitch, 0, 0
    strips = -(-high // ((PLANES // (pairs * pitch) - 3) // down + 1))
    return pitch, pairs, (-(-high // strips) - 1) * down + 3


def three_by_three(kind: Conv, _cores: int) -> bool:
    """Rows of outputs fill their fours to more than a half, and three of them fit."""
    s = kind.shape
    near = (
        kind.winograd is None
        and (s.kh, s.kw, s.dilation) == (3, 3, (1, 1))
        and s.stride[1] <= (2 if kind.direction == "fw" else 1)
    )
    wide = s.wo if kind.direction == "fw" else s.w
    full = 2 * wide > -(-wide // 4) * 4
    return near and full and (kind.direction == "fw" or s.stride[0] == 1) and planes(kind)[1] > 0


def plane_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    s, (pitch, pairs, rows), c = kind.shape, planes(kind), costs.planes
    forward = kind.direction == "fw"
    channels, made, high, wide = (s.ci, s.co, s.ho, s.wo) if forward else (s.co, s.ci, s.h, s.w)
    steps = -(-high // ((rows - 3) // (s.stride[0] if forward else 1) + 1)) * s.n * s.groups
    blocks, passes, words = -(-channels // (2 * pairs)), -(-made // (4 * packed_tiles(kind))), -(-channels // 2)
    tiles = -(-high * s.n * s.groups * -(-wide // 4) * -(-made // 4) // working(kind.team, cores))
    packing = c.weights * -(-made // 4) * words * TAPS * 4 + c.pixels * words * rows * pitch
    work = tiles * (c.tile * blocks + c.pair * words)
    return work + steps * (c.step * blocks * passes + packing / cores)


def planes_and_weights(kind: Conv, _cores: int) -> int:
    pitch, pairs, rows = planes(kind)
    return FLOAT * (pitch * pairs * rows + packed_tiles(kind) * MOST_PAIRS * TAPS * 4)


def columns(kind: Conv, cores: int) -> int:
    """A panel a core, and the gradients that the team packs."""
    return (working(kind.team, cores) + min(-(-kind.shape.co // 4), MOST_TILES)) * PAIRS_PANEL


row = partial(Row, struct="tl_conv2d", header="tl_conv.h", fields=fields, takes=directly, grain=TILE, storage=DType.F16)
gathering = partial(row, scratch=gathered, split="tiles of channels x pixels", arithmetic=CHANNELS)
near = partial(gathering, takes=three_by_three, scratch=planes_and_weights, cycles=plane_cycles)

weight_gradient = partial(row, "conv2d_bw_w", arithmetic=PAIRS)

CONV_F16 = (
    near("conv2d_fw", "tl_conv2d_fw_3x3_f16", "conv/conv2d_fw_3x3_f16.c"),
    gathering("conv2d_fw", "tl_conv2d_fw_f16", "conv/conv2d_fw_f16.c", cycles=forward_cycles),
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
    near("conv2d_bw_x", "tl_conv2d_bw_x_3x3_f16", "conv/conv2d_bw_x_3x3_f16.c"),
    gathering("conv2d_bw_x", "tl_conv2d_bw_x_f16", "conv/conv2d_bw_x_f16.c", cycles=input_cycles),
)
