"""Convolutions and their gradients: which kernel, by kernel extents, strides and how the operands lie.

Groups of one channel on either side, or nearly, have kernels of their own (kernels/depthwise.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar, Unpack

from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.panels import BLOCK, FLOAT, PANEL, panel_cycles
from trainlib_deployer.kernels.row import ROW_BLOCKS, Fields, Grain, More, Row, pointer
from trainlib_deployer.machine.costs import Costs, PanelCosts
from trainlib_deployer.program.call import Operand, strides
from trainlib_deployer.program.cuts import working
from trainlib_deployer.program.ir import View

if TYPE_CHECKING:
    from trainlib_deployer.ops.conv import Conv
    from trainlib_deployer.ops.conv_shape import ConvShape

T = TypeVar("T")
Gather = Callable[[Costs], float]  # times the usual cycles to pack a term
SLACK = 2 * 8 * 4 * FLOAT  # bytes around a panel, for 3 x 3 kernels that a block cuts
SQUARES = 4  # of 2 x 2 outputs, side by side
MOST_COPIED = 6144  # elements of dL/dy
MOST_MET = 400  # inputs of a channel that a block of a weight gradient meets
COPIED_AT_ONCE = 208  # ... that a core copies for several blocks
PACKED_ROWS = 16  # channels whose weights are packed at a time, of halves
MOST_PACKED = 48  # ... that an input gradient of floats packs: those before find a panel of inputs anew
MOST_PARTS = 128  # blocks of a weight gradient's tiles whose sums are kept
TILE = Grain(4, 4, BLOCK)
NAMES = {"fw": ("x", "w", "y"), "bw_x": ("y", "w", "x"), "bw_w": ("x", "y", "w")}


def operands(kind: Conv, reads: Sequence[T], writes: Sequence[T]) -> dict[str, T]:
    return dict(zip(NAMES[kind.direction], (*reads[:2], writes[0]), strict=True))


def as_one_row(s: ConvShape, x: View, y: View) -> ConvShape:
    """The pixels of a dense plane are neighbours, whatever row they are in, where a kernel has one tap."""
    if s.h > 1 and pixel_by_pixel(s) and dense_rows(s, x, y):
        return replace(s, h=1, w=s.h * s.w, ho=1, wo=s.h * s.w)
    return s


def fields(kind: Conv, reads: list[Operand], writes: list[Operand], scratch: str) -> Fields:
    named = operands(kind, reads, writes)
    s = as_one_row(kind.shape, named["x"].view, named["y"].view)
    written = NAMES[kind.direction][-1]
    types = {n: DType.F32 if n == "w" and kind.rounds else kind.storage for n in named} | {written: kind.result}
    out: list[tuple[str, str | int]] = [(pointer(n, types[n]), named[n].pointer) for n in ("x", "w", "y")]
    if kind.bias:
        out.append(("bias", reads[2].pointer))
    out += [("n", s.n), ("groups", s.groups), ("ci", s.ci), ("co", s.co)]
    out += [("h", s.h), ("wd", s.w), ("ho", s.ho), ("wo", s.wo), ("kh", s.kh), ("kw", s.kw)]
    out += [("stride_h", s.stride[0]), ("stride_w", s.stride[1]), ("pad_h", s.pad[0]), ("pad_w", s.pad[1])]
    out += [("dil_h", s.dilation[0]), ("dil_w", s.dilation[1])]
    out += [*pitch("xp", named["x"].view), *pitch("yp", named["y"].view)]
    out += [*strides("w", ("co",), named["w"].view, 1), ("w_ci", channel_step(named["w"].view))]
    out += [("floats", 1)] if kind.rounds else []
    out += [("halves", 1)] if kind.result.is_half else []
    out += [("accumulate", int(kind.adds)), ("team", kind.team)]
    many = kind.direction == "bw_x" and packed_at_once(kind) > PACKED_ROWS
    out.append(("packed_rows", packed_at_once(kind) if many else kind.most_rows))
    out += [("tiles", kind.most_tiles)] if kind.most_tiles else []
    return [*out, ("scratch", scratch)]


def pitch(name: str, view: View) -> list[tuple[str, str | int]]:
    return [(f"{name}.{axis}", s) for axis, s in zip("nch", view.strides, strict=False)]


def channel_step(w: View) -> int:
    """Elements between input channels of a weight; where there is one alone, as if the next one followed."""
    return w.strides[1] if w.shape[1] > 1 else w.shape[2] * w.shape[3]


# ---- shapes


def depthwise(kind: Conv, _cores: int = 0) -> bool:
    s = kind.shape
    few = s.ci == 1 and s.co < 4 if kind.direction == "bw_w" else s.ci * s.co < 4
    return few and kind.winograd is None


def directly(kind: Conv, _cores: int) -> bool:
    return kind.winograd is None and not kind.twos and not kind.widens


def any_groups(kind: Conv, cores: int) -> bool:
    return directly(kind, cores) and not depthwise(kind)


def pointwise(kind: Conv, _cores: int) -> bool:
    return any_groups(kind, 0) and kind.shape.kh * kind.shape.kw == 1


def whole_tiles(kind: Conv, _cores: int) -> bool:
    return pointwise(kind, 0) and kind.shape.ci % 4 == 0


def pixel_by_pixel(s: ConvShape) -> bool:
    return (s.kh, s.kw, s.stride, s.pad, s.h, s.w) == (1, 1, (1, 1), (0, 0), s.ho, s.wo)


def plane_by_plane(kind: Conv, _cores: int) -> bool:
    """Every pixel of x meets the one of dL/dy at its place, in whole tiles."""
    return whole_tiles(kind, 0) and pixel_by_pixel(kind.shape) and kind.shape.co % 4 == 0


def three_by_three(kind: Conv, _cores: int, stride: int = 1) -> bool:
    """Whose neighbouring pixels read neighbours, or every other column."""
    s = kind.shape
    near = (s.kh, s.kw, s.stride[1], s.dilation[1]) == (3, 3, stride, 1)
    return any_groups(kind, 0) and near and (kind.direction == "fw" or s.stride[0] == 1)


def three_in_a_row(kind: Conv, _cores: int, by: int, stride: int) -> bool:
    """Neighbouring taps, and fours or twos of neighbouring outputs."""
    s = kind.shape
    near = (s.kw, s.stride[1], s.dilation[1]) == (3, stride, 1) and s.wo % by == 0
    return any_groups(kind, 0) and near and met(s) <= MOST_MET


def square_grid(s: ConvShape) -> tuple[int, int]:
    """Of an input gradient of stride 2: rows and columns of 2 x 2 outputs."""
    rows, columns = ((p + n - 2) // 2 - (p - 1) // 2 + 1 for p, n in zip(s.pad, (s.h, s.w), strict=True))
    return rows, columns


def squares(s: ConvShape) -> tuple[int, int, int]:
    """Rows and panels of them, and elements of dL/dy that they meet."""
    rows, columns = square_grid(s)
    panels = -(-columns // SQUARES)
    return rows, panels, s.n * s.groups * s.co * rows * panels * 2 * (SQUARES + 1)


def every_other(kind: Conv, _cores: int) -> bool:
    """At least half of the squares are there, and the copy is small."""
    s = kind.shape
    alike = (s.kh, s.kw, s.stride, s.dilation) == (3, 3, (2, 2), (1, 1))
    return any_groups(kind, 0) and alike and s.w >= 2 * SQUARES - 3 and squares(s)[2] <= MOST_COPIED


def weight_tiles(s: ConvShape) -> int:
    return s.groups * -(-s.co // 4) * -(-s.ci * s.kh * s.kw // 4)


def few_tiles(kind: Conv, cores: int) -> bool:
    """Not one for each core: one that takes blocks of them has at least two less to do."""
    tiles, blocks, team = weight_tiles(kind.shape), kind.shape.blocks, working(kind.team, cores)
    lost = -(-tiles // team) * blocks - -(-tiles * blocks // team)
    return any_groups(kind, cores) and tiles < team and lost >= 2 and tiles * blocks <= MOST_PARTS


# ---- layouts


def dense_weights(kind: Conv, reads: Sequence[View], _writes: Sequence[View]) -> bool:
    return channel_step(reads[1]) == kind.shape.kh * kind.shape.kw


def weights_side_by_side(_kind: Conv, reads: Sequence[View], _writes: Sequence[View]) -> bool:
    return channel_step(reads[1]) == 1


def dense_rows(s: ConvShape, x: View, y: View) -> bool:
    """One behind the other, in both images."""
    return s.h == 1 or x.strides[2] == y.strides[2] == s.w


def planes_alike(kind: Conv, reads: Sequence[View], writes: Sequence[View]) -> bool:
    """Those of x and dL/dy are contiguous and equally far apart, and so are a channel's weights."""
    x, y = reads[:2]
    near = x.strides[1] == y.strides[1] and (kind.shape.ho == 1 or x.strides[2] == kind.shape.wo)
    return near and dense_gradients(kind, reads, writes) and writes[0].strides[1] == 1


def dense_gradients(kind: Conv, reads: Sequence[View], _writes: Sequence[View]) -> bool:
    """The planes of dL/dy are contiguous."""
    return kind.shape.ho == 1 or reads[1].strides[2] == kind.shape.wo


# ---- scratch


def packed_rows(channels: int, most: int) -> int:
    return min((channels + 3) // 4 * 4, most)


def packed_at_once(kind: Conv) -> int:
    """Channels whose weights the team packs for an input gradient."""
    return packed_rows(kind.shape.ci, kind.most_rows or (PACKED_ROWS if kind.storage.is_half else MOST_PACKED))


def gathered(kind: Conv, cores: int) -> int:
    """A panel and a table of taps a core."""
    return working(kind.team, cores) * (PANEL + SLACK + FLOAT * min(kind.shape.kh * kind.shape.kw, BLOCK))


def gathered_and_packed(kind: Conv, cores: int) -> int:
    """And weights that the team packs."""
    return gathered(kind, cores) + packed_at_once(kind) * BLOCK * FLOAT


def copied_gradient(kind: Conv, _cores: int) -> int:
    return FLOAT * squares(kind.shape)[2]


def one_panel(kind: Conv, cores: int) -> int:
    return working(kind.team, cores) * PANEL


def sums_of_tiles(kind: Conv, cores: int) -> int:
    return one_panel(kind, cores) + 16 * FLOAT * weight_tiles(kind.shape) * kind.shape.blocks


def met(s: ConvShape) -> int:
    """Inputs of a channel that a block of outputs meets, of a kernel of three columns."""
    return met_by(s, rows_of_block(s))


def rows_of_block(s: ConvShape) -> int:
    return BLOCK // s.wo if s.ho > 1 and s.wo <= BLOCK else 1


def met_by(s: ConvShape, rows: int) -> int:
    return ((rows - 1) * s.stride[0] + (s.kh - 1) * s.dilation[0] + 1) * pitch_of_met(s)


def pitch_of_met(s: ConvShape) -> int:
    return (min(s.wo, BLOCK) - 1) * s.stride[1] + 3


def met_at_once(s: ConvShape) -> int:
    """By as many whole blocks of an image as do not meet too many, but one at least."""
    if s.wo > BLOCK:
        return met(s)
    around = (s.kh - 1) * s.dilation[0] + 1 - s.stride[0]
    blocks = (COPIED_AT_ONCE // pitch_of_met(s) - around) // (s.stride[0] * rows_of_block(s))
    return met_by(s, min(s.ho, max(blocks, 1) * rows_of_block(s)))


def copied_inputs(kind: Conv, cores: int) -> int:
    """Those that lie around no zeros are read where they are."""
    return 0 if kind.shape.inside else FLOAT * working(kind.team, cores) * met_at_once(kind.shape)


# ---- cycles of the slowest core


def near(_costs: Costs) -> float:
    return 1.0


def by_table(costs: Costs) -> float:
    return costs.conv.by_table


def in_place(costs: Costs) -> float:
    return costs.conv.in_place


def forward_cycles(kind: Conv, cores: int, costs: Costs, gather: Gather = near) -> float:
    s = kind.shape
    team = working(kind.team, cores)
    return panel_cycles(
        s.groups, s.co, s.n * s.ho * s.wo, s.ci * s.kh * s.kw, team, costs.forward, packing=gather(costs)
    )


def input_cycles(kind: Conv, cores: int, costs: Costs, gather: Gather = near) -> float:
    """All cores pack the weights, block by block."""
    s, team = kind.shape, working(kind.team, cores)
    terms = s.co * s.kh * s.kw // (s.stride[0] * s.stride[1]) + 1
    step = max(packed_at_once(kind), 1)
    passes = [min(step, s.ci - row) for row in range(0, s.ci, step)]
    shape = s.n * s.h * s.w, terms, team, costs.input_gradient
    work = sum(panel_cycles(s.groups, rows, *shape, packing=gather(costs)) for rows in passes)
    work *= costs.conv.scattered if max(s.stride) > 1 else 1.0
    packing = costs.conv.packed_weight * s.groups * s.co * s.ci * s.kh * s.kw / cores
    return work + packing + len(passes) * s.groups * (costs.conv.packed_block * -(-terms // BLOCK))


def square_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    s, (rows, panels, copied) = kind.shape, squares(kind.shape)
    share = -(-s.n * s.groups * rows * panels * s.ci // cores)
    return share * (costs.conv.square + s.co * costs.conv.square_term) + costs.conv.square_copy * copied / cores


def usual(costs: Costs) -> PanelCosts:
    return costs.weight_gradient


def of_planes(costs: Costs) -> PanelCosts:
    return costs.plane_weight


def weight_cycles(kind: Conv, cores: int, costs: Costs, panel: Callable[[Costs], PanelCosts] = usual) -> float:
    s = kind.shape
    shape = s.groups, s.co, s.ci * s.kh * s.kw, s.n * s.ho * s.wo, working(kind.team, cores)
    return panel_cycles(*shape, panel(costs), s.blocks)


def split_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    """Each block of a tile as a tile of its own, whose columns are packed for each visit; then their sums."""
    s, c = kind.shape, costs.weight_gradient
    team, blocks = working(kind.team, cores), s.blocks
    share = -(-weight_tiles(s) * blocks // team)
    visits = min(share, -(-share // -(-s.co // 4)) + 1)
    terms = s.n * s.ho * s.wo / blocks
    work = share * (c.tile_term * terms + c.tile_block + c.tile) + visits * (
        c.visit_term * terms + c.visit_block + c.visit
    )
    return work + 16 * weight_tiles(s) / cores * (costs.conv.sum + costs.conv.sum_block * blocks)


def kernel_row_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    """Three taps take a panel of their own."""
    s = kind.shape
    team = working(kind.team, cores)
    work = panel_cycles(s.groups, s.co, 4 * s.ci * s.kh, s.n * s.ho * s.wo, team, costs.kernel_rows, s.blocks)
    return work * (costs.conv.by_two if s.wo % 4 else 1.0)


def row(folder: str, name: str, **more: Unpack[More[Conv]]) -> Row[Conv]:
    """Rows of a direction are named after it, and then what they are for."""
    direction = "fw" if name.startswith("fw") else name[:4]
    source = f"{folder}/conv2d_{name}.c"
    return Row(f"conv2d_{direction}", f"tl_conv2d_{name}_f32", source, "tl_conv2d", "tl_conv.h", fields, **more)


tiled = partial(row, "conv", takes=any_groups, grain=TILE)
forward = partial(tiled, scratch=gathered, cycles=forward_cycles, split="tiles of channels x pixels")
input_gradient = partial(tiled, scratch=gathered_and_packed, cycles=input_cycles, split="tiles of channels x pixels")
weight_gradient = partial(
    tiled, scratch=one_panel, cycles=weight_cycles, split="tiles of channels x taps", arithmetic=ROW_BLOCKS
)
kernel_rows = partial(
    weight_gradient,
    fits=dense_gradients,
    scratch=copied_inputs,
    cycles=kernel_row_cycles,
    split="tiles of channels x kernel rows",
    grain=Grain(4, 3, BLOCK),
)

CONV = (
    forward("fw_3x3", takes=three_by_three, fits=dense_weights),
    forward("fw_3x3_s2", takes=partial(three_by_three, stride=2), fits=dense_weights),
    forward("fw_pointwise", takes=pointwise, fits=dense_weights, cycles=partial(forward_cycles, gather=in_place)),
    forward("fw", fits=dense_weights, cycles=partial(forward_cycles, gather=by_table)),
    forward("fw_apart", cycles=partial(forward_cycles, gather=by_table)),
    input_gradient("bw_x_3x3", takes=three_by_three),
    input_gradient(
        "bw_x_pointwise",
        takes=whole_tiles,
        fits=weights_side_by_side,
        scratch=gathered,
        cycles=partial(input_cycles, gather=in_place),
    ),
    input_gradient("bw_x_3x3_s2", takes=every_other, scratch=copied_gradient, cycles=square_cycles, split="squares"),
    input_gradient("bw_x", cycles=partial(input_cycles, gather=by_table)),
    kernel_rows("bw_w_3", takes=partial(three_in_a_row, by=4, stride=1)),
    kernel_rows("bw_w_3_s2", takes=partial(three_in_a_row, by=4, stride=2)),
    kernel_rows("bw_w_3_twos", takes=partial(three_in_a_row, by=2, stride=1)),
    kernel_rows("bw_w_3_s2_twos", takes=partial(three_in_a_row, by=2, stride=2)),
    weight_gradient(
        "bw_w_split",
        takes=few_tiles,
        fits=dense_gradients,
        scratch=sums_of_tiles,
        cycles=split_cycles,
        split="blocks of tiles of channels x taps",
    ),
    weight_gradient(
        "bw_w_pointwise", takes=plane_by_plane, fits=planes_alike, cycles=partial(weight_cycles, panel=of_planes)
    ),
    weight_gradient("bw_w", fits=dense_gradients),
    weight_gradient("bw_w_apart"),
)
