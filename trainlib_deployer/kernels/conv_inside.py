"""3 x 3 convolutions whose windows are inside of the image, and input gradients without padding along rows: in threes
of outputs, on operands that are read where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from trainlib_deployer.kernels.conv import channel_step, three_by_three, tiled
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.ir import View

if TYPE_CHECKING:
    from trainlib_deployer.ops.conv import Conv
    from trainlib_deployer.ops.conv_shape import ConvShape

THREE = 3  # outputs
EIGHT = 8  # inputs
TAPS = 9
MOST_SUMMED = 32  # channels, whose blocks of terms a core plans


def in_threes(kind: Conv, channels: int) -> bool:
    """Whole tiles of so many channels."""
    s = kind.shape
    made, summed = (s.co, s.ci) if kind.direction == "fw" else (s.ci, s.co)
    alike = three_by_three(kind, 0) and s.stride[0] == 1
    return alike and s.wo % THREE == 0 and made % channels == 0 and summed <= MOST_SUMMED


def windows_inside(kind: Conv, _cores: int) -> bool:
    return in_threes(kind, 4) and kind.shape.inside


def whole_rows(kind: Conv, _cores: int, channels: int = 4) -> bool:
    """Each input meets some row of dL/dy, and the first and the last four of a row are not the same."""
    s = kind.shape
    met = s.dilation[0] == 1 and s.pad[0] >= 0 and s.h + s.pad[0] <= s.ho + 2
    return in_threes(kind, channels) and met and s.pad[1] == 0 and s.w == s.wo + 2 and s.wo > THREE


def rows_of_eight(kind: Conv, cores: int) -> bool:
    return whole_rows(kind, cores, 2) and kind.shape.w == EIGHT


def taps_side_by_side(_kind: Conv, reads: Sequence[View], _writes: Sequence[View]) -> bool:
    """Of all input channels."""
    return channel_step(reads[1]) == TAPS


def window_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    s, c = kind.shape, costs.inside
    share = -(-s.n * s.groups * s.ho * (s.wo // THREE) * (s.co // 4) // cores)
    return c.start + share * (c.tile + c.tile_term * s.ci)


@lru_cache(maxsize=1 << 12)
def most_met(s: ConvShape, tiles: int, cores: int) -> tuple[int, int]:
    """Kernel rows that a core's tiles meet, at most, of so many tiles beside each other; and the tiles. Of the second
    half of places the rows are turned: tl_inside_back.h."""
    met = [sum(0 <= y + s.pad[0] - k < s.ho for k in range(THREE)) for y in range(s.h)]
    places, middle = s.n * s.groups * tiles, s.h // 2
    turned = met[middle:] + met[:middle]
    until = [0, *accumulate(m for place in range(places) for m in (met if place < places // 2 else turned))]
    least, more = divmod(places * s.h, cores)
    begins = [core * least + min(core, more) for core in range(cores + 1)]
    return max((until[end] - until[begin], end - begin) for begin, end in pairwise(begins))


def row_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    s, c = kind.shape, costs.inside
    rows, tiles = most_met(s, s.wo // THREE * (s.ci // 4), cores)
    return c.start + tiles * c.row_tile + rows * c.row_term * s.co


def eight_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    s, c = kind.shape, costs.inside
    rows, tiles = most_met(s, s.ci // 2, cores)
    return c.start + tiles * c.eight_tile + rows * c.eight_term * s.co


INSIDE = (
    tiled("fw_3x3_inside", takes=windows_inside, cycles=window_cycles, split="tiles of channels x rows"),
    tiled(
        "bw_x_3x3_eight",
        takes=rows_of_eight,
        fits=taps_side_by_side,
        cycles=eight_cycles,
        split="tiles of channels x rows",
    ),
    tiled(
        "bw_x_3x3_inside",
        takes=whole_rows,
        fits=taps_side_by_side,
        cycles=row_cycles,
        split="tiles of channels x rows",
    ),
)
