"""Convolutions with one tap over dense planes, and their input gradients: products that read both operands where they
lie."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from trainlib_deployer.kernels.conv import any_groups, channel_step, dense_rows, pixel_by_pixel, tiled
from trainlib_deployer.kernels.panels import BLOCK, FLOAT, panel_cycles
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.cuts import working
from trainlib_deployer.program.ir import View

if TYPE_CHECKING:
    from trainlib_deployer.ops.conv import Conv


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


def ragged_planes(kind: Conv, _cores: int) -> bool:
    return panels_of_planes(kind) and made(kind) % 4 > 0 and kind.shape.groups == 1


def dense_planes(kind: Conv, reads: Sequence[View], writes: Sequence[View]) -> bool:
    """And weights whose input channels lie side by side."""
    return channel_step(reads[1]) == 1 and dense_rows(kind.shape, reads[0], writes[0])


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


plane = partial(tiled, takes=whole_planes, fits=dense_planes, cycles=plane_cycles, split="tiles of channels x pixels")
ragged_plane = partial(plane, takes=ragged_planes, scratch=last_weights)

PLANES = (
    plane("fw_plane"),
    ragged_plane("fw_plane_ragged"),
    plane("bw_x_plane"),
    ragged_plane("bw_x_plane_ragged"),
)
