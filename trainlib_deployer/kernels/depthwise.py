"""Convolutions whose groups have one channel on either side, or nearly: nothing is packed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from trainlib_deployer.kernels.conv import depthwise, directly, row
from trainlib_deployer.kernels.panels import BLOCK, FLOAT
from trainlib_deployer.kernels.row import ROW_BLOCKS, Grain
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.cuts import working

if TYPE_CHECKING:
    from trainlib_deployer.ops.conv import Conv

LONG = (5, 7)  # taps of a kernel row, for which there are kernels of their own
TAPS = 3  # neighbours of a kernel row that a weight gradient adds up together
MOST_TAPS = 64  # of an input gradient of stride 2
MOST_PLANE = 1024  # elements of a plane with its padding, of which every core has a copy
MOST_PARTS = 512  # blocks whose sums are kept


def any_kernel(kind: Conv, _cores: int) -> bool:
    return depthwise(kind)


def alone(kind: Conv) -> bool:
    """One channel of a group is summed up, or has a weight gradient, for any number of others."""
    channels = kind.shape.co if kind.direction == "bw_x" else kind.shape.ci
    return depthwise(kind) or (channels == 1 and directly(kind, 0))


def windows(kind: Conv, stride: int) -> bool:
    s = kind.shape
    alike = (s.kh, s.kw, s.dilation, s.stride) == (3, 3, (1, 1), (stride, stride))
    return alone(kind) and alike and s.pad[1] <= 2


def enclosed(kind: Conv) -> bool:
    """A plane as large as that of its outputs, with one zero on every side: its columns go together."""
    s = kind.shape
    return (s.stride, s.pad, (s.ho, s.wo)) == ((1, 1), (1, 1), (s.h, s.w)) and min(s.h, s.w) > 1


def three_by_three(kind: Conv, _cores: int, stride: int) -> bool:
    """One term a tap, and of a window at the image's edge at least one row inside."""
    s = kind.shape
    terms = s.ci if kind.direction == "fw" else s.co
    if terms != 1 or not windows(kind, stride) or kind.adds:
        return False
    if kind.direction == "fw":
        before, rows = max(0, s.pad[0]), s.h - max(0, -s.pad[0])
    else:
        rows = min(s.ho, s.pad[0] + s.h)
        before = s.pad[0] + s.h - rows
    return before <= 2 and rows + before >= 2


def fours(count: int) -> int:
    return -(-count // 4) * 4


def plane(kind: Conv) -> int:
    """Elements of a copied plane: what the outputs read, four at a time but for a weight gradient."""
    rows, columns = plane_extents(kind)
    return rows * columns


def plane_extents(kind: Conv) -> tuple[int, int]:
    s = kind.shape
    if by_classes(kind):
        rows, columns = (
            (n - 1 + p) // 2 + (k - 1 - p) // 2 + 1 for n, p, k in zip((s.h, s.w), s.pad, (s.kh, s.kw), strict=True)
        )
        return rows, columns + 3
    if kind.direction == "bw_x":
        return s.h - 1 + s.kh, fours(s.w) - 1 + s.kw
    width = s.wo if kind.direction == "bw_w" else fours(s.wo)
    return (s.ho - 1) * s.stride[0] + s.kh, (width - 1) * s.stride[1] + s.kw


def by_classes(kind: Conv) -> bool:
    """Of even and odd rows and columns."""
    return kind.direction == "bw_x" and kind.shape.stride == (2, 2)


def met(kind: Conv) -> float:
    """The part of the kernel rows of all outputs' windows that are in the image: the others are left out."""
    s, inside = kind.shape, 0
    for k in range(s.kh):
        first, last = -((k - s.pad[0]) // s.stride[0]), (s.h - 1 + s.pad[0] - k) // s.stride[0]
        inside += max(0, min(s.ho - 1, last) - max(0, first) + 1)
    return inside / max(1, s.ho * s.kh)


def copied(kind: Conv, _cores: int, taps: int, stride: int) -> bool:
    """Kernels of so many taps a row, with one term a tap."""
    s = kind.shape
    alike = (s.kw, s.dilation, s.stride) == (taps, (1, 1), (stride, stride))
    if not depthwise(kind) or not alike or plane(kind) > MOST_PLANE:
        return False
    if kind.direction == "bw_w":
        return True
    terms = s.ci if kind.direction == "fw" else s.co
    return terms == 1 and s.kh * s.kw <= BLOCK and not kind.adds


def quartered(kind: Conv, cores: int) -> bool:
    s = kind.shape
    return s.kw <= 8 and s.kh * s.kw <= MOST_TAPS and copied(kind, cores, s.kw, 2)


def by_squares(kind: Conv, cores: int) -> bool:
    return windows(kind, 2) and quartered(kind, cores)


def from_the_edge(kind: Conv, cores: int) -> bool:
    """Squares that begin with the plane, and meet zeros only behind its last column and below its last row."""
    s = kind.shape
    return by_squares(kind, cores) and (*s.pad, s.ho, s.wo) == (1, 1, (s.h + 1) // 2, (s.w + 1) // 2)


def planes(kind: Conv, cores: int) -> int:
    return FLOAT * working(kind.team, cores) * plane(kind)


def squared(kind: Conv, cores: int) -> int:
    """The elements of dL/dy that rows of 2 x 2 outputs meet, and a row of outputs, for each core."""
    s = kind.shape
    rows, columns = ((p + n - 2) // 2 - (p - 1) // 2 + 2 for n, p in zip((s.h, s.w), s.pad, strict=True))
    return FLOAT * working(kind.team, cores) * (rows * columns + s.w)


def strips(kind: Conv) -> int:
    """Of up to three neighbouring taps of a kernel row."""
    s = kind.shape
    return s.groups * s.co * s.kh * -(-s.kw // TAPS)


def channels(kind: Conv) -> int:
    return kind.shape.groups * kind.shape.co


def blocks(kind: Conv, items: int) -> int:
    return items * kind.shape.blocks


def scarce(kind: Conv, items: int, cores: int) -> bool:
    """Few items for the team: the sums are split into their blocks."""
    team = working(kind.team, cores)
    return team > 1 and items < 4 * team and items < blocks(kind, items) <= MOST_PARTS


def whole_strips(kind: Conv, cores: int) -> bool:
    return depthwise(kind) and not scarce(kind, strips(kind), cores)


def split_strips(kind: Conv, cores: int) -> bool:
    return depthwise(kind) and scarce(kind, strips(kind), cores)


def whole_channels(kind: Conv, cores: int, stride: int) -> bool:
    return windows(kind, stride) and not uneven(kind, cores)


def split_channels(kind: Conv, cores: int, stride: int) -> bool:
    return windows(kind, stride) and uneven(kind, cores)


def uneven(kind: Conv, cores: int) -> bool:
    """Some cores have a channel more than others, which makes a difference."""
    return channels(kind) % working(kind.team, cores) != 0 and scarce(kind, channels(kind), cores)


def sums_of_strips(kind: Conv, _cores: int) -> int:
    return FLOAT * TAPS * blocks(kind, strips(kind))


def sums_of_channels(kind: Conv, _cores: int) -> int:
    return FLOAT * 3 * TAPS * blocks(kind, channels(kind))


# ---- cycles of the slowest core


def column_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    s, c = kind.shape, costs.conv
    forward = kind.direction == "fw"
    planes, width, height = (s.co, s.wo, s.ho) if forward else (s.ci, s.w, s.h)
    share = -(-s.n * s.groups * planes * width // cores)
    of_column = c.depthwise_whole if enclosed(kind) else c.depthwise_column
    return c.depthwise + share * (of_column + height * c.depthwise_output)


def channel_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    s, c = kind.shape, costs.conv
    outputs = s.n * s.ho * s.wo
    if not uneven(kind, cores):
        plane = s.n * c.depthwise_image + outputs * c.depthwise_term
        return c.depthwise + -(-channels(kind) // cores) * plane
    block = c.depthwise_image + outputs / s.blocks * c.depthwise_term
    sums = -(-3 * TAPS * channels(kind) // cores) * (c.sum + s.blocks * c.sum_block)
    return c.depthwise + -(-blocks(kind, channels(kind)) // cores) * block + sums


def plane_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    """Copies of planes, of rows of outputs (of a weight gradient, for each kernel row), and multiply-adds."""
    s, c = kind.shape, costs.conv
    if kind.direction == "bw_w":
        share = -(-channels(kind) * s.kh // cores)
        copies = s.n * shared(share, s.kh) * (c.depthwise_plane + c.depthwise_element * plane(kind))
        of_row = (not in_sixes(kind)) * c.depthwise_kernel_line + s.wo * s.kw * c.depthwise_plane_mac
        return c.depthwise + copies + share * s.n * (c.depthwise_kernel_row + s.ho * met(kind) * of_row)
    planes, height, width = planes_of(kind)
    share = -(-planes * height // cores)
    work = s.macs() / planes / height * whole_lanes(width) / width * met(kind) * c.depthwise_plane_mac
    work += (1 + by_classes(kind)) * c.depthwise_line
    classes = by_classes(kind) * shared(share, height) * c.depthwise_classes
    return c.depthwise + classes + copy_cycles(kind, share, height, costs) + share * work


def in_sixes(kind: Conv) -> bool:
    """Weight gradients of whole images with six outputs a row."""
    return kind.shape.wo == 6 and kind.shape.ho * kind.shape.wo <= BLOCK


def planes_of(kind: Conv) -> tuple[int, int, int]:
    """What is written: planes, rows and columns of each."""
    s = kind.shape
    return (s.n * s.groups * s.co, s.ho, s.wo) if kind.direction == "fw" else (s.n * s.groups * s.ci, s.h, s.w)


def shared(share: int, of_one: int) -> int:
    """Planes that a core has a part of, if it has so many rows from anywhere on."""
    return share // of_one if share % of_one == 0 else -(-(share - 1) // of_one) + 1


def copy_cycles(kind: Conv, share: int, height: int, costs: Costs) -> float:
    """Rows that windows of neighbouring outputs share are copied once a plane."""
    (rows, columns), touched = plane_extents(kind), shared(share, height)
    step = 0.5 if by_classes(kind) else float(kind.shape.stride[0]) if kind.direction == "fw" else 1.0
    copied_rows = share * step + touched * (rows - height * step)
    return touched * costs.conv.depthwise_plane + copied_rows * columns * costs.conv.depthwise_element


def whole_lanes(count: int) -> int:
    """Outputs of a row that are worked on: six at a time where these are no more than fours."""
    return min(fours(count), -(-count // 6) * 6)


def rows_of_squares(kind: Conv) -> int:
    height, pad = kind.shape.h, kind.shape.pad[0]
    return (pad + height - 2) // 2 - (pad - 1) // 2 + 1


def square_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    c, (planes, _, width), rows = costs.conv, planes_of(kind), rows_of_squares(kind)
    share = -(-planes * rows // cores)
    of_plane = c.depthwise_squares_plane + -(-width // 2) * c.depthwise_squares_column
    return c.depthwise_squares + shared(share, rows) * of_plane + share * width / 2 * c.depthwise_square


def copied_square_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    """With copies, and rows and columns at the edges on their own."""
    c, (planes, height, _), rows = costs.conv, planes_of(kind), rows_of_squares(kind)
    share = -(-planes * rows // cores)
    touched, (below, columns) = shared(share, rows), plane_extents(kind)
    outside = kind.shape.pad[1] % 2 == 0  # half of a row's first square
    edges = 2 * outside + (height + outside) % 2
    copied = touched * c.depthwise_plane + (share + touched * (below - rows)) * columns * c.depthwise_element
    return square_cycles(kind, cores, costs) + copied + touched * edges * c.depthwise_squares_edge


def any_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    """By rows of single planes; weight gradients by planes."""
    s = kind.shape
    shares = s.groups * (1 if kind.direction == "bw_w" else s.ho)
    return costs.conv.depthwise + costs.conv.depthwise_mac * s.macs() / min(cores, shares)


single = partial(row, "depthwise")
columns = partial(single, cycles=column_cycles, split="columns of channels", grain=Grain(1, 1, BLOCK))
lines = partial(single, cycles=any_cycles, split="rows of channels", grain=Grain(1, 4, BLOCK))
gradient = partial(single, arithmetic=ROW_BLOCKS)
strip = partial(gradient, cycles=any_cycles, split="taps of channels", grain=Grain(1, TAPS, BLOCK))
split_strip = partial(strip, split="blocks of taps of channels", scratch=sums_of_strips)
on_copy = partial(single, cycles=plane_cycles, scratch=planes)
plane_rows = partial(on_copy, split="rows of channels", grain=Grain(1, 4, BLOCK))
plane_strip = partial(on_copy, arithmetic=ROW_BLOCKS, split="kernel rows of channels", grain=Grain(1, 7, BLOCK))
channel = partial(gradient, cycles=channel_cycles, split="channels", grain=Grain(3, TAPS, BLOCK))
split_channel = partial(channel, split="blocks of channels", scratch=sums_of_channels)


DEPTHWISE = (
    columns("fw_depthwise_3x3", takes=partial(three_by_three, stride=1)),
    columns("fw_depthwise_3x3_s2", takes=partial(three_by_three, stride=2)),
    *(plane_rows(f"fw_depthwise_{n}", takes=partial(copied, taps=n, stride=1)) for n in LONG),
    *(plane_rows(f"fw_depthwise_{n}_s2", takes=partial(copied, taps=n, stride=2)) for n in LONG),
    lines("fw_depthwise", takes=any_kernel),
    columns("bw_x_depthwise_3x3", takes=partial(three_by_three, stride=1)),
    *(plane_rows(f"bw_x_depthwise_{n}", takes=partial(copied, taps=n, stride=1)) for n in LONG),
    lines("bw_x_depthwise_3x3_s2_pad1", takes=from_the_edge, cycles=square_cycles),
    plane_rows("bw_x_depthwise_3x3_s2", takes=by_squares, scratch=squared, cycles=copied_square_cycles),
    plane_rows("bw_x_depthwise_s2", takes=quartered),
    lines("bw_x_depthwise", takes=any_kernel),
    channel("bw_w_depthwise_3x3", takes=partial(whole_channels, stride=1)),
    channel("bw_w_depthwise_3x3_s2", takes=partial(whole_channels, stride=2)),
    split_channel("bw_w_depthwise_3x3_split", takes=partial(split_channels, stride=1)),
    split_channel("bw_w_depthwise_3x3_s2_split", takes=partial(split_channels, stride=2)),
    *(plane_strip(f"bw_w_depthwise_{n}", takes=partial(copied, taps=n, stride=1)) for n in LONG),
    *(plane_strip(f"bw_w_depthwise_{n}_s2", takes=partial(copied, taps=n, stride=2)) for n in LONG),
    strip("bw_w_depthwise", takes=whole_strips),
    split_strip("bw_w_depthwise_split", takes=split_strips),
)
