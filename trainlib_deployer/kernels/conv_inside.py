"""3 x 3 convolutions whose windows are inside of the image, and input gradients without padding along rows: in threes
of outputs, on operands that are read where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainlib_deployer.kernels.conv import channel_step, three_by_three, tiled
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.ir import View

if TYPE_CHECKING:
    from trainlib_deployer.ops.conv import Conv

THREE = 3  # outputs
TAPS = 9
MOST_SUMMED = 32  # channels, whose blocks of terms a core plans


def in_threes(kind: Conv) -> bool:
    s = kind.shape
    made, summed = (s.co, s.ci) if kind.direction == "fw" else (s.ci, s.co)
    alike = three_by_three(kind, 0) and s.stride[0] == 1
    return alike and s.wo % THREE == 0 and made % 4 == 0 and summed <= MOST_SUMMED


def windows_inside(kind: Conv, _cores: int) -> bool:
    return in_threes(kind) and kind.shape.inside


def whole_rows(kind: Conv, _cores: int) -> bool:
    """Each input meets some row of dL/dy, and the first and the last four of a row are not the same."""
    s = kind.shape
    met = s.dilation[0] == 1 and s.pad[0] >= 0 and s.h + s.pad[0] <= s.ho + 2
    return in_threes(kind) and met and s.pad[1] == 0 and s.w == s.wo + 2 and s.wo > THREE


def taps_side_by_side(_kind: Conv, reads: Sequence[View], _writes: Sequence[View]) -> bool:
    """Of all input channels."""
    return channel_step(reads[1]) == TAPS


def share(kind: Conv, rows: int, channels: int, cores: int) -> int:
    """Tiles of a core."""
    s = kind.shape
    return -(-s.n * s.groups * rows * (s.wo // THREE) * (channels // 4) // cores)


def window_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    s, c = kind.shape, costs.inside
    return c.start + share(kind, s.ho, s.co, cores) * (c.tile + c.tile_term * s.ci)


def row_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    """Kernel rows outside of dL/dy are left out."""
    s, c = kind.shape, costs.inside
    met = sum(0 <= y + s.pad[0] - k < s.ho for y in range(s.h) for k in range(THREE)) / (THREE * s.h)
    return c.start + share(kind, s.h, s.ci, cores) * (c.row_tile + c.row_term * s.co * met)


INSIDE = (
    tiled("fw_3x3_inside", takes=windows_inside, cycles=window_cycles, split="tiles of channels x rows"),
    tiled(
        "bw_x_3x3_inside",
        takes=whole_rows,
        fits=taps_side_by_side,
        cycles=row_cycles,
        split="tiles of channels x rows",
    ),
)
