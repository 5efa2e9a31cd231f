"""Convolutions of halves by one tap, which are products (conv/conv2d_*_pointwise*_f16.c)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainlib_deployer.kernels.conv import as_one_row, operands
from trainlib_deployer.kernels.matmul_f16 import ALL_WORDS, TEAM_WORDS, of_terms, packed_cycles, packed_panels
from trainlib_deployer.kernels.panels import FLOAT, pair_cycles
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.cuts import working
from trainlib_deployer.program.ir import View

if TYPE_CHECKING:
    from trainlib_deployer.ops.conv import Conv
    from trainlib_deployer.ops.conv_shape import ConvShape


def inside(s: ConvShape) -> bool:
    """By one tap, all outputs, of which there are some, inside of the image."""
    last = (s.ho - 1) * s.stride[0] < s.h and (s.wo - 1) * s.stride[1] < s.w
    return (s.kh, s.kw, s.pad) == (1, 1, (0, 0)) and last and s.ho * s.wo > 0


def one_tap(kind: Conv, _cores: int) -> bool:
    """All outputs are inside of the image, a gradient's are all of its pixels, and no pair of terms of a
    weight gradient is in two images."""
    s = kind.shape
    if not inside(s):
        return False
    if kind.direction == "fw":
        return True
    alike = (s.stride, s.h, s.w) == ((1, 1), s.ho, s.wo)
    return alike and (kind.direction == "bw_x" or s.n == 1 or s.h * s.w % 2 == 0)


def one_row(kind: Conv, reads: Sequence[View], writes: Sequence[View]) -> bool:
    named = operands(kind, reads, writes)
    return as_one_row(kind.shape, named["x"], named["y"]).h == 1


def extents(kind: Conv) -> tuple[int, int, int, int]:
    """Of products: how many follow each other, then rows, columns and terms."""
    s = kind.shape
    if kind.direction == "bw_w":
        return 1, s.co, s.ci, s.ho * s.wo
    batch, pixels = (s.n, s.ho * s.wo) if s.stride == (1, 1) else (s.ho, s.wo)
    return (batch, s.co, pixels, s.ci) if kind.direction == "fw" else (batch, s.ci, pixels, s.co)


def products(kind: Conv) -> int:
    """One after the other."""
    s = kind.shape
    return s.groups * (s.n if kind.direction == "bw_w" or s.stride != (1, 1) else 1)


def whole(kind: Conv, cores: int) -> bool:
    """A product whose terms are one block, and all of its rows at once, unless few of them are to be."""
    lean = kind.direction != "bw_w" and kind.most_rows > 0
    if lean or not one_tap(kind, cores):
        return False
    batch, rows, columns, terms = extents(kind)
    blocks, panel = of_terms(terms, kind.result)
    return min(batch, rows, columns) > 0 and blocks == 1 and -(-rows // 4) * panel <= ALL_WORDS


def whole_panels(kind: Conv, cores: int) -> int:
    """One a core, and those of all rows."""
    _, rows, _, terms = extents(kind)
    return FLOAT * (working(kind.team, cores) - (-rows // 4)) * of_terms(terms, kind.result)[1]


def whole_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    batch, rows, columns, terms = extents(kind)
    across, team = batch * -(-columns // 4) * 4, working(kind.team, cores)
    return products(kind) * pair_cycles(1, rows, across, terms, team, rows, costs.one_tap, 1)


def product_panels(kind: Conv, cores: int) -> int:
    """Whichever way the pixels lie. A weight gradient always packs as many rows as fit."""
    s, (_, rows, columns, terms) = kind.shape, extents(kind)
    weight = kind.direction == "bw_w"
    panels = -(-columns // 4) * s.n if weight else s.n * s.ho * -(-s.wo // 4)
    most = TEAM_WORDS if weight else kind.most_rows or TEAM_WORDS
    return packed_panels(kind, -(-rows // 4), panels, terms, working(kind.team, cores), most)


def product_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    return products(kind) * packed_cycles(kind.result, *extents(kind), working(kind.team, cores), costs)


def left_out(kind: Conv, _cores: int) -> bool:
    """An input gradient of one tap, whose stride leaves pixels out: zeros there."""
    s = kind.shape
    return inside(s) and s.stride != (1, 1) and kind.result.is_half and not kind.bias


def dense_gradients(kind: Conv, reads: Sequence[View], writes: Sequence[View]) -> bool:
    y = operands(kind, reads, writes)["y"]
    return kind.shape.ho == 1 or y.strides[2:] == (kind.shape.wo, 1)


def met_and_panels(kind: Conv, cores: int) -> int:
    """What the product makes of an image, before it is put between zeros."""
    s = kind.shape
    return 2 * s.ci * (-(-s.ho * s.wo // 2) * 2) + product_panels(kind, cores)


def apart_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    s, team, c = kind.shape, working(kind.team, cores), costs.pairs
    product = packed_cycles(kind.result, 1, s.ci, s.ho * s.wo, s.co, team, costs)
    return s.n * s.groups * (product + c.packed * s.ci * s.h * s.w / team)
