"""Convolutions of operands in half precision: weights packed by the team and pixels by each core, by pairs of terms."""

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
from trainlib_deployer.kernels.row import PAIRS, Row
from trainlib_deployer.program.cuts import working

if TYPE_CHECKING:
    from trainlib_deployer.ops.conv import Conv

SLACK = 2 * 18 * 4 * DType.F16.size  # bytes around a panel, for two channels of 3 x 3 taps that a block cuts
MOST_TILES = 8  # of channels whose gradients the team packs at a time


def gathered(kind: Conv, cores: int) -> int:
    """A panel and a table of taps a core, and the weights that the team packs, of twice as many channels."""
    s = kind.shape
    own = PAIRS_PANEL + SLACK + FLOAT * min(s.kh * s.kw, BLOCK)
    rows = packed_rows(s.co if kind.direction == "fw" else s.ci, 2 * kind.most_rows)
    return working(kind.team, cores) * own + rows // 4 * PAIRS_PANEL


def columns(kind: Conv, cores: int) -> int:
    """A panel a core, and the gradients that the team packs."""
    return (working(kind.team, cores) + min(-(-kind.shape.co // 4), MOST_TILES)) * PAIRS_PANEL


row = partial(
    Row,
    struct="tl_conv2d",
    header="tl_conv.h",
    fields=fields,
    takes=directly,
    scratch=gathered,
    split="tiles of channels x pixels",
    grain=TILE,
    storage=DType.F16,
    arithmetic=PAIRS,
)

CONV_F16 = (
    row("conv2d_fw", "tl_conv2d_fw_f16", "conv/conv2d_fw_f16.c", cycles=forward_cycles),
    row(
        "conv2d_bw_w",
        "tl_conv2d_bw_w_f16",
        "conv/conv2d_bw_w_f16.c",
        scratch=columns,
        cycles=weight_cycles,
        split="tiles of channels x taps",
    ),
    row("conv2d_bw_x", "tl_conv2d_bw_x_f16", "conv/conv2d_bw_x_f16.c", cycles=input_cycles),
)
