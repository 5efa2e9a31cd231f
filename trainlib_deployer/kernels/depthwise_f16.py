"""Depthwise convolutions of halves: 3 x 3 two taps at a time, on copies with zeros around them; others as floats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.conv import depthwise, fields
from trainlib_deployer.kernels.depthwise import (
    LONG,
    TAPS,
    any_cycles,
    any_kernel,
    copied,
    plane_cycles,
    planes,
    planes_of,
    quartered,
    shared,
    split_strips,
    sums_of_strips,
    whole_strips,
)
from trainlib_deployer.kernels.panels import BLOCK, FLOAT
from trainlib_deployer.kernels.row import BLOCKS, ROW_BLOCKS, Grain, Row, no_scratch
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.cuts import working

if TYPE_CHECKING:
    from trainlib_deployer.ops.conv import Conv

STRIDES = ((1, 1), (2, 2))
COPIED = 1024  # halves of a core's copy
WIDENED_MAC = 1.1  # times one of floats, by any kernel
TWOS = "one chain of sums of two products, neighbours in a row or what two rows leave over"  # tl_depthwise_pairs.h

Taking = Callable[["Conv", int], bool]


def pays(kind: Conv) -> bool:
    """One term a tap, few channels of outputs for an image of a weight gradient, and rows that fit."""
    s = kind.shape
    terms = s.co if kind.direction == "bw_x" else s.ci
    windows = (s.kh, s.kw, s.dilation) == (3, 3, (1, 1)) and s.stride in STRIDES and kind.winograd is None
    return windows and terms == 1 and (kind.direction != "bw_w" or s.co < 4) and at_a_time(kind) > 0


def widens(kind: Conv) -> bool:
    """All others."""
    return depthwise(kind) and not pays(kind)


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
    """What floats take, and conversions: of what is copied, for a weight gradient dL/dy, too, of results, of taps."""
    s, c = kind.shape, costs.twos
    if kind.direction == "bw_w":
        images = s.n * shared(-(-s.groups * s.co * s.kh // cores), s.kh)
        outputs = s.ho * s.wo
        copied = costs.conv.depthwise_plane + costs.conv.depthwise_element * outputs
        converted = c.widened_plane + c.widened * (s.h * s.w + outputs)
        return plane_cycles(kind, cores, costs) + images * (copied + converted)
    planes, height, _ = planes_of(kind)
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


def widened_planes(kind: Conv, cores: int) -> int:
    """Of a weight gradient, dL/dy as well."""
    s = kind.shape
    outputs = s.ho * s.wo if kind.direction == "bw_w" else 0
    return planes(kind, cores) + FLOAT * working(kind.team, cores) * outputs


def on_floats(name: str, takes: Taking) -> Row[Conv]:
    """The arithmetic is that of floats."""
    direction = "fw" if name.startswith("fw") else name[:4]
    gradient = direction == "bw_w"
    return Row(
        f"conv2d_{direction}",
        f"tl_conv2d_{name}_f16",
        f"depthwise/conv2d_{name}_f16.c",
        struct="tl_conv2d",
        header="tl_conv.h",
        fields=fields,
        takes=lambda kind, cores: kind.widens and takes(kind, cores),
        scratch=widened_planes,
        cycles=widened_cycles,
        split="kernel rows of channels" if gradient else "rows of channels",
        grain=Grain(1, 7, BLOCK) if gradient else Grain(1, 4, BLOCK),
        storage=DType.F16,
        arithmetic=ROW_BLOCKS if gradient else BLOCKS,
    )


def all_taps(kind: Conv, _cores: int) -> int:
    s = kind.shape
    return FLOAT * s.groups * s.co * s.ci * s.kh * s.kw


def widened_any_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    """Each element is widened for each tap that it meets."""
    return WIDENED_MAC * any_cycles(kind, cores, costs)


def of_any(name: str, takes: Taking, scratch: Callable[[Conv, int], int]) -> Row[Conv]:
    row = on_floats(name, takes)
    grain = Grain(1, TAPS, BLOCK) if name.startswith("bw_w") else row.grain
    return replace(row, scratch=scratch, cycles=widened_any_cycles, grain=grain)


WIDENED = (
    *(on_floats(f"fw_depthwise_{n}", partial(copied, taps=n, stride=1)) for n in LONG),
    *(on_floats(f"fw_depthwise_{n}_s2", partial(copied, taps=n, stride=2)) for n in LONG),
    of_any("fw_depthwise", any_kernel, all_taps),
    *(on_floats(f"bw_x_depthwise_{n}", partial(copied, taps=n, stride=1)) for n in LONG),
    on_floats("bw_x_depthwise_s2", quartered),
    of_any("bw_x_depthwise", any_kernel, all_taps),
    *(on_floats(f"bw_w_depthwise_{n}", partial(copied, taps=n, stride=1)) for n in LONG),
    *(on_floats(f"bw_w_depthwise_{n}_s2", partial(copied, taps=n, stride=2)) for n in LONG),
    of_any("bw_w_depthwise", whole_strips, no_scratch),
    replace(of_any("bw_w_depthwise_split", split_strips, sums_of_strips), split="blocks of taps of channels"),
)
TWO_BY_TWO = tuple(twos(direction, stride) for stride in (1, 2) for direction in ("fw", "bw_x", "bw_w"))
DEPTHWISE_F16 = (*TWO_BY_TWO, *WIDENED)
