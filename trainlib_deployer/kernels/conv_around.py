"""Convolutions of stride 2 and their input gradients, from a copy of planes with the zeros that are around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainlib_deployer.kernels.conv import any_groups, square_grid, tiled
from trainlib_deployer.kernels.panels import BLOCK, FLOAT
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.cuts import working
from trainlib_deployer.program.ir import View

if TYPE_CHECKING:
    from trainlib_deployer.ops.conv import Conv
    from trainlib_deployer.ops.conv_shape import ConvShape

MOST = 6144  # words of a copy
TERM = 5  # words: where the next term's inputs are, and four weights
SQUARES = 3


# ---- forward, outputs of a row in pairs


def copied(s: ConvShape) -> tuple[int, int]:
    """Words of planes and of weights."""
    high, wide = (
        (out - 1) * stride + (taps - 1) * dilation + 1
        for out, stride, taps, dilation in zip((s.ho, s.wo), s.stride, (s.kh, s.kw), s.dilation, strict=True)
    )
    return s.n * s.groups * s.ci * high * wide, s.groups * -(-s.co // 4) * s.ci * s.kh * s.kw * TERM


def pairs_of_outputs(kind: Conv, _cores: int) -> bool:
    """In rows of more than one panel: of fewer pixels, packing takes as long."""
    s = kind.shape
    pairs = s.stride[1] == 2 and s.wo % 2 == 0 and s.wo > 4
    return any_groups(kind, 0) and pairs and s.kh * s.kw > 1 and sum(copied(s)) <= MOST


def dense_results(kind: Conv, _reads: Sequence[View], writes: Sequence[View]) -> bool:
    return kind.shape.ho == 1 or writes[0].strides[2] == kind.shape.wo


def copy_and_weights(kind: Conv, _cores: int) -> int:
    return FLOAT * sum(copied(kind.shape))


def pair_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    s, c, team = kind.shape, costs.around, working(kind.team, cores)
    (planes, weights), terms, tiles = copied(s), s.ci * s.kh * s.kw, -(-s.co // 4)
    share = -(-s.n * s.groups * -(-s.ho * s.wo // 4) * tiles // team)
    visits = -(-share // tiles) + 1
    work = share * (c.tile_block * -(-terms // BLOCK) + c.tile_term * terms) + visits * c.visit
    return c.start + work + (c.copied * planes + c.weight * weights) / team


# ---- gradients of inputs, squares of 2 x 2 outputs in threes


def threes(s: ConvShape) -> tuple[int, int, int]:
    """Rows and panels of squares, and words of dL/dy with what is around it."""
    rows, columns = square_grid(s)
    panels = -(-columns // SQUARES)
    return rows, panels, s.n * s.groups * s.co * (rows + 1) * (SQUARES * panels + 1)


def squares_in_threes(kind: Conv, _cores: int) -> bool:
    """No more than there are in fours."""
    s = kind.shape
    alike = (s.kh, s.kw, s.stride, s.dilation) == (3, 3, (2, 2), (1, 1))
    columns = square_grid(s)[1]
    few = columns > 1 and SQUARES * -(-columns // SQUARES) <= 4 * -(-columns // 4)
    return any_groups(kind, 0) and alike and few and threes(s)[2] <= MOST


def gradient_copy(kind: Conv, _cores: int) -> int:
    return FLOAT * threes(kind.shape)[2]


def square_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    s, c = kind.shape, costs.around
    rows, panels, words = threes(s)
    share = -(-s.n * s.groups * rows * panels * s.ci // cores)
    first = s.pad[1] % 2 == 0  # whose column is outside
    whole = max(0, (s.w + first) // (2 * SQUARES) - first)
    partly = share * (panels - whole) / panels
    return c.start + share * (c.three + s.co * c.three_term) + partly * c.partly + c.copied * words / cores


AROUND = (
    tiled(
        "fw_twos_s2",
        takes=pairs_of_outputs,
        fits=dense_results,
        scratch=copy_and_weights,
        cycles=pair_cycles,
        split="tiles of channels x pixels",
    ),
    tiled(
        "bw_x_3x3_s2_threes",
        takes=squares_in_threes,
        scratch=gradient_copy,
        cycles=square_cycles,
        split="squares",
    ),
)
