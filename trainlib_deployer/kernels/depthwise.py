"""Convolutions whose groups have one channel on either side, or nearly: nothing is packed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from trainlib_deployer.kernels.conv import depthwise, row
from trainlib_deployer.kernels.panels import BLOCK
from trainlib_deployer.kernels.row import Grain
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.cuts import working

if TYPE_CHECKING:
    from trainlib_deployer.ops.conv import Conv

TAPS = 3  # neighbours of a kernel row that a weight gradient adds up together
MOST_PARTS = 512  # blocks whose sums are kept


def any_kernel(kind: Conv, _cores: int) -> bool:
    return depthwise(kind)


def forward_3x3(kind: Conv, step: int) -> bool:
    s = kind.shape
    return depthwise(kind) and (s.ci, s.kh, s.kw, s.dilation[1], s.stride[1]) == (1, 3, 3, 1, step)


def dense_3x3(kind: Conv, _cores: int) -> bool:
    return forward_3x3(kind, 1)


def sparse_3x3(kind: Conv, _cores: int) -> bool:
    return forward_3x3(kind, 2)


def turned_3x3(kind: Conv, _cores: int) -> bool:
    s = kind.shape
    return depthwise(kind) and (s.co, s.kh, s.kw, s.dilation[1], *s.stride) == (1, 3, 3, 1, 1, 1)


def near(kind: Conv, step: int) -> bool:
    """Three taps a row, which reach out of the image by at most one column."""
    s = kind.shape
    last = (s.wo - 1) * step - s.pad[1] + 2
    three = (s.kw, s.dilation[1], s.stride[1]) == (3, 1, step)
    return depthwise(kind) and three and s.pad[1] <= 1 and last <= s.w and s.w >= 2


def items(kind: Conv) -> int:
    s = kind.shape
    return s.groups * s.co * s.kh * -(-s.kw // TAPS)


def blocks(kind: Conv) -> int:
    s = kind.shape
    return items(kind) * -(-s.n * s.ho * s.wo // BLOCK)


def scarce(kind: Conv, cores: int) -> bool:
    """Few channels for the team: the sums are split into their blocks."""
    team = working(kind.team, cores)
    return depthwise(kind) and team > 1 and items(kind) < 4 * team and items(kind) < blocks(kind) <= MOST_PARTS


def plenty(kind: Conv, cores: int) -> bool:
    return depthwise(kind) and not scarce(kind, cores)


def parts(kind: Conv, _cores: int) -> int:
    return 4 * TAPS * blocks(kind)


def cycles(kind: Conv, cores: int, costs: Costs) -> float:
    """By rows of single planes; weight gradients by planes."""
    s = kind.shape
    shares = s.groups * (1 if kind.direction == "bw_w" else s.ho)
    return costs.conv.depthwise_mac * s.macs() / min(cores, shares) + costs.conv.depthwise


lines = partial(row, "depthwise", cycles=cycles, split="rows of channels", grain=Grain(1, 4, BLOCK))
strips = partial(row, "depthwise", cycles=cycles, grain=Grain(1, TAPS, BLOCK))
whole = partial(strips, split="taps of channels")
split = partial(strips, split="blocks of taps of channels", scratch=parts)


DEPTHWISE = (
    lines("fw_depthwise_3x3", takes=dense_3x3),
    lines("fw_depthwise_3x3_s2", takes=sparse_3x3),
    lines("fw_depthwise", takes=any_kernel),
    lines("bw_x_depthwise_3x3", takes=turned_3x3),
    lines("bw_x_depthwise", takes=any_kernel),
    whole("bw_w_depthwise_3", takes=lambda kind, cores: near(kind, 1) and plenty(kind, cores)),
    whole("bw_w_depthwise_3_s2", takes=lambda kind, cores: near(kind, 2) and plenty(kind, cores)),
    whole("bw_w_depthwise", takes=plenty),
    split("bw_w_depthwise_3_split", takes=lambda kind, cores: near(kind, 1) and scarce(kind, cores)),
    split("bw_w_depthwise_3_s2_split", takes=lambda kind, cores: near(kind, 2) and scarce(kind, cores)),
    split("bw_w_depthwise_split", takes=scarce),
)
