"""Convolutions with one tap over dense planes, and their input gradients: products that read both operands where they
lie."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from trainlib_deployer.kernels.conv import TILE, any_groups, channel_step, dense_rows, pixel_by_pixel, tiled
from trainlib_deployer.kernels.panels import BLOCK, FLOAT, panel_cycles
from trainlib_deployer.kernels.row import Grain
from trainlib_deployer.machine.costs import Costs, SideCosts
from trainlib_deployer.program.cuts import working
from trainlib_deployer.program.ir import View

if TYPE_CHECKING:
    from trainlib_deployer.ops.conv import Conv


MANY = 48  # pixels


def made(kind: Conv) -> int:
    """Channels of a group's results."""
    return kind.shape.co if kind.direction == "fw" else kind.shape.ci


def summed(kind: Conv) -> int:
    return kind.shape.ci if kind.direction == "fw" else kind.shape.co


def panels_of_planes(kind: Conv) -> bool:
    """Each plane is panels of its own."""
    s = kind.shape
    return any_groups(kind, 0) and pixel_by_pixel(s) and s.h * s.w >= 4 and (s.n == 1 or s.h * s.w % 4 == 0)


def whole_planes(kind: Conv, _cores: int) -> bool:
    """In whole tiles of channels."""
    return panels_of_planes(kind) and made(kind) % 4 == 0


def in_threes(kind: Conv, _cores: int) -> bool:
    """Small planes of one image that panels of three fill and panels of four do not."""
    s = kind.shape
    threes = s.n == 1 and s.h * s.w in (3, 6, 9)
    return threes and any_groups(kind, 0) and pixel_by_pixel(s) and made(kind) % 4 == 0


def in_fours(kind: Conv, _cores: int) -> bool:
    """As many tiles of pixels as of channels, or more. Those that are not whole are to be few."""
    pixels = kind.shape.h * kind.shape.w
    return whole_planes(kind, 0) and pixels > made(kind) - 4 and (pixels % 4 == 0 or pixels >= MANY)


def ragged_planes(kind: Conv, _cores: int) -> bool:
    return panels_of_planes(kind) and made(kind) % 4 > 0 and kind.shape.groups == 1


def dense_planes(kind: Conv, reads: Sequence[View], writes: Sequence[View]) -> bool:
    """And weights whose input channels lie side by side."""
    return channel_step(reads[1]) == 1 and dense_rows(kind.shape, reads[0], writes[0])


def is_dense(kind: Conv) -> bool:
    return kind.dense


def known_dense(kind: Conv, reads: Sequence[View], writes: Sequence[View]) -> bool:
    """Of whole threes of pixels. Tiles are whole rows, so theirs lie like that, too."""
    return kind.direction != "bw_w" and in_threes(kind, 0) and dense_planes(kind, reads, writes)


def last_weights(kind: Conv, _cores: int) -> int:
    """Those of fewer than four channels."""
    return 4 * FLOAT * summed(kind)


def plane_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    """Products of channels with pixels, in either direction."""
    s, team = kind.shape, working(kind.team, cores)
    rows, terms = made(kind), summed(kind)
    work = panel_cycles(s.groups * s.n, rows, s.h * s.w, terms, team, costs.plane)
    panels = -(-s.n * -(-s.h * s.w // 4) // team) if rows % 4 else 0
    return work + panels * costs.conv.ragged * -(-terms // BLOCK)


def threes_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    return side_cycles(kind, cores, 3, costs.threes)


def fours_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    return side_cycles(kind, cores, 4, costs.fours)


def side_cycles(kind: Conv, cores: int, wide: int, c: SideCosts) -> float:
    """Tiles of so many pixels, side by side."""
    s, team, pixels = kind.shape, working(kind.team, cores), kind.shape.h * kind.shape.w
    terms, panels = summed(kind), -(-pixels // wide)
    share = -(-s.groups * s.n * made(kind) // 4 * panels // team)
    visits, blocks = -(-share // panels), -(-terms // BLOCK)
    visit = c.visit + (c.visit_block + c.edge_block * (pixels % wide > 0)) * blocks
    return c.start + share * (c.tile_block * blocks + c.tile_term * terms) + visits * visit


threes = partial(
    tiled,
    takes=in_threes,
    fits=dense_planes,
    surely=is_dense,
    cycles=threes_cycles,
    split="tiles of channels x pixels",
    grain=Grain(4, 3, BLOCK),
)
fours = partial(threes, takes=in_fours, cycles=fours_cycles, grain=TILE)
plane = partial(threes, takes=whole_planes, cycles=plane_cycles, grain=TILE)
ragged_plane = partial(plane, takes=ragged_planes, scratch=last_weights)

PLANES = (
    threes("fw_threes"),
    threes("bw_x_threes"),
    fours("fw_fours"),
    fours("bw_x_fours"),
    plane("fw_plane"),
    ragged_plane("fw_plane_ragged"),
    plane("bw_x_plane"),
    ragged_plane("bw_x_plane_ragged"),
)
