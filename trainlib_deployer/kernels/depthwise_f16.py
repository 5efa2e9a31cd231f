"""Depthwise convolutions of halves, on copies with zeros around them: 3 x 3 two taps at a time, others as floats."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.conv import fields
from trainlib_deployer.kernels.depthwise import (
    LONG,
    copied,
    plane_cycles,
    planes,
    planes_of,
    quartered,
    shared,
)
from trainlib_deployer.kernels.panels import BLOCK, FLOAT
from trainlib_deployer.kernels.row import Grain, Row
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.cuts import working

if TYPE_CHECKING:
    from trainlib_deployer.ops.conv import Conv

STRIDES = ((1, 1), (2, 2))
COPIED = 1024  # halves of a core's copy
TWOS = "one chain of sums of two products, neighbours in a row or what two rows leave over"  # tl_depthwise_pairs.h


def pays(kind: Conv) -> bool:
    """One term a tap, few channels of outputs for an image of a weight gradient, and rows that fit."""
    s = kind.shape
    terms = s.co if kind.direction == "bw_x" else s.ci
    windows = (s.kh, s.kw, s.dilation) == (3, 3, (1, 1)) and s.stride in STRIDES and kind.winograd is None
    return windows and terms == 1 and (kind.direction != "bw_w" or s.co < 4) and at_a_time(kind) > 0


def widens(kind: Conv) -> bool:
    """Rows of five or seven taps, and other input gradients of stride 2."""
    if pays(kind) or kind.direction == "bw_w":
        return False
    strides = (1, 2) if kind.direction == "fw" else (1,)
    rows = any(copied(kind, 0, taps, stride) for taps in LONG for stride in strides)
    return rows or (kind.direction == "bw_x" and quartered(kind, 0))


def takes(kind: Conv, _cores: int, stride: int) -> bool:
    return kind.twos and kind.shape.stride == (stride, stride)


def in_squares(kind: Conv) -> bool:
    """An input gradient of stride 2: of 2 x 2 outputs."""
    return kind.direction == "bw_x" and kind.shape.stride == (2, 2)


def step(kind: Conv) -> int:
    """Rows of a copy from a row of outputs, or of squares, to the next."""
    return 1 if in_squares(kind) else kind.shape.stride[0]


def items(kind: Conv) -> tuple[int, int]:
    """Rows and columns of outputs, or of squares with what is beside a half one at the left."""
    s = kind.shape
    if in_squares(kind):
        rows = (s.pad[0] + s.h - 2) // 2 - (s.pad[0] - 1) // 2 + 1
        return rows, 2 + s.w // 2 if s.pad[1] % 2 == 0 else -(-s.w // 2)
    return (s.h, s.w) if kind.direction == "bw_x" else (s.ho, s.wo)


def pitch(kind: Conv) -> int:
    """Halves of a copied row."""
    return -(-items(kind)[1] // 2) * 2 * step(kind) + 2


def copied_rows(kind: Conv, rows: int) -> int:
    return rows + 1 if in_squares(kind) else (rows - 1) * step(kind) + 3


def at_a_time(kind: Conv) -> int:
    """Rows of outputs, or of squares."""
    rows = COPIED // pitch(kind)
    return min(items(kind)[0], rows - 1 if in_squares(kind) else (rows - 3) // step(kind) + 1)


def copies(kind: Conv, cores: int) -> int:
    own = DType.F16.size * copied_rows(kind, at_a_time(kind)) * pitch(kind)
    return working(kind.team, cores) * (own + in_squares(kind) * FLOAT * kind.shape.w)


def output_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    s, c, (height, width) = kind.shape, costs.twos, items(kind)
    planes = s.n * s.groups * (s.co if kind.direction == "fw" else s.ci)
    share = -(-planes * height // working(kind.team, cores))
    parts = shared(share, height) * -(-height // at_a_time(kind))
    copied = step(kind) * share + copied_rows(kind, 1) * parts - step(kind) * parts
    rows = copied * (c.row + c.copied * (s.wo if kind.direction == "bw_x" else s.w))
    if in_squares(kind):
        return c.start + parts * c.plane_s2 + rows + share * (c.squares + c.square * width)
    plane, output = (c.plane, c.output) if step(kind) == 1 else (c.plane_s2, c.output_s2)
    return c.start + parts * plane + rows + share * output * width


def widened_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    """What floats take, and conversions: of what is copied, of results and of taps."""
    s, c, (planes, height, _) = kind.shape, costs.twos, planes_of(kind)
    share = -(-planes * height // cores)
    read = s.h * s.w if kind.direction == "fw" else s.ho * s.wo
    converted = shared(share, height) * (c.widened_plane + c.widened_tap * s.kh * s.kw)
    return plane_cycles(kind, cores, costs) + converted + c.widened * read * share / height


def gradient_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    s, c = kind.shape, costs.twos
    channels, rows = -(-s.groups * s.co // working(kind.team, cores)), s.n * s.ho
    parts = s.n * -(-s.ho // at_a_time(kind))
    copied = (step(kind) * rows + (3 - step(kind)) * parts) * (c.row + c.copied * s.w)
    met = c.met if step(kind) == 1 else c.met_s2
    return c.start + channels * (parts * c.channel + copied + rows * met * -(-s.wo // 2))


def twos(direction: str, stride: int) -> Row[Conv]:
    gradient, suffix = direction == "bw_w", "" if stride == 1 else f"_s{stride}"
    name = f"conv2d_{direction}_depthwise_3x3{suffix}_f16"
    return Row(
        f"conv2d_{direction}",
        f"tl_{name}",
        f"depthwise/{name}.c",
        struct="tl_conv2d",
        header="tl_conv.h",
        fields=fields,
        takes=partial(takes, stride=stride),
        scratch=copies,
        cycles=gradient_cycles if gradient else output_cycles,
        split="channels" if gradient else "rows of channels",
        grain=Grain(3, 3, 2) if gradient else Grain(1, 2, 2),
        storage=DType.F16,
        arithmetic=TWOS,
    )


def on_floats(name: str, takes: Callable[[Conv, int], bool]) -> Row[Conv]:
    """The arithmetic is that of floats."""
    direction = "fw" if name.startswith("fw") else "bw_x"
    return Row(
        f"conv2d_{direction}",
        f"tl_conv2d_{name}_f16",
        f"depthwise/conv2d_{name}_f16.c",
        struct="tl_conv2d",
        header="tl_conv.h",
        fields=fields,
        takes=lambda kind, cores: kind.widens and takes(kind, cores),
        scratch=planes,
        cycles=widened_cycles,
        split="rows of channels",
        grain=Grain(1, 4, BLOCK),
        storage=DType.F16,
    )


WIDENED = (
    *(on_floats(f"fw_depthwise_{n}", partial(copied, taps=n, stride=1)) for n in LONG),
    *(on_floats(f"fw_depthwise_{n}_s2", partial(copied, taps=n, stride=2)) for n in LONG),
    *(on_floats(f"bw_x_depthwise_{n}", partial(copied, taps=n, stride=1)) for n in LONG),
    on_floats("bw_x_depthwise_s2", quartered),
)
TWO_BY_TWO = tuple(twos(direction, stride) for stride in (1, 2) for direction in ("fw", "bw_x", "bw_w"))
DEPTHWISE_F16 = (*TWO_BY_TWO, *WIDENED)
