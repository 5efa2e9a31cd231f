"""Depthwise 3 x 3 convolutions of halves, two taps at a time, on copies with zeros around them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.conv import fields
from trainlib_deployer.kernels.depthwise import planes_of, shared
from trainlib_deployer.kernels.row import Grain, Row
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.cuts import working

if TYPE_CHECKING:
    from trainlib_deployer.ops.conv import Conv

COPIED = 1024  # halves of a core's copy
TWOS = "one chain of sums of two products, neighbours in a row or what two rows leave over"  # tl_depthwise_pairs.h


def pays(kind: Conv) -> bool:
    """One term a tap, few channels of outputs for an image of a weight gradient, and rows that fit."""
    s = kind.shape
    terms = s.co if kind.direction == "bw_x" else s.ci
    windows = (s.kh, s.kw, s.dilation, s.stride) == (3, 3, (1, 1), (1, 1)) and kind.winograd is None
    return windows and terms == 1 and (kind.direction != "bw_w" or s.co < 4) and at_a_time(kind) > 0


def takes(kind: Conv, _cores: int) -> bool:
    return kind.twos


def pitch(kind: Conv) -> int:
    """Halves of a copied row."""
    width = kind.shape.w if kind.direction == "bw_x" else kind.shape.wo
    return -(-width // 2) * 2 + 2


def at_a_time(kind: Conv) -> int:
    """Rows of outputs."""
    return min(COPIED // pitch(kind) - 2, kind.shape.h if kind.direction == "bw_x" else kind.shape.ho)


def copies(kind: Conv, cores: int) -> int:
    return DType.F16.size * working(kind.team, cores) * (at_a_time(kind) + 2) * pitch(kind)


def output_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    (planes, height, width), c = planes_of(kind), costs.twos
    share = -(-planes * height // working(kind.team, cores))
    parts = shared(share, height) * -(-height // at_a_time(kind))
    return c.start + parts * c.plane + (share + 2 * parts) * (c.row + c.copied * width) + share * c.output * width


def gradient_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    s, c = kind.shape, costs.twos
    channels, rows = -(-s.groups * s.co // working(kind.team, cores)), s.n * s.ho
    parts = s.n * -(-s.ho // at_a_time(kind))
    copied = (rows + 2 * parts) * (c.row + c.copied * s.wo)
    return c.start + channels * (parts * c.channel + copied + rows * c.met * (pitch(kind) / 2 - 1))


twos = partial(
    Row,
    struct="tl_conv2d",
    header="tl_conv.h",
    fields=fields,
    takes=takes,
    scratch=copies,
    cycles=output_cycles,
    split="rows of channels",
    grain=Grain(1, 2, 2),
    storage=DType.F16,
    arithmetic=TWOS,
)

DEPTHWISE_F16 = (
    twos("conv2d_fw", "tl_conv2d_fw_depthwise_3x3_f16", "depthwise/conv2d_fw_depthwise_3x3_f16.c"),
    twos("conv2d_bw_x", "tl_conv2d_bw_x_depthwise_3x3_f16", "depthwise/conv2d_bw_x_depthwise_3x3_f16.c"),
    twos(
        "conv2d_bw_w",
        "tl_conv2d_bw_w_depthwise_3x3_f16",
        "depthwise/conv2d_bw_w_depthwise_3x3_f16.c",
        cycles=gradient_cycles,
        split="channels",
        grain=Grain(3, 3, 2),
    ),
)
