"""Pooling: which kernel, by how the windows lie."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar, Unpack

from trainlib_deployer.kernels.row import Fields, Making, More, Row, pointer
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.call import Operand
from trainlib_deployer.program.ir import DType, View

if TYPE_CHECKING:
    from trainlib_deployer.ops.pool import AvgPool, MaxPool, PoolShape

P = TypeVar("P", bound="MaxPool | AvgPool")


def max_fields(kind: MaxPool, reads: list[Operand], writes: list[Operand], _scratch: str) -> Fields:
    x, y, tap = (reads[0], *writes) if kind.direction == "fw" else (writes[0], *reads)
    out: list[tuple[str, str | int]] = [(pointer(n, kind.storage), v.pointer) for n, v in (("x", x), ("y", y))]
    out.append(("tap", tap.pointer))
    out += [("tap_bytes", kind.tap.size), *shape_fields(kind.shape)]
    return [*out, *pitch("xp", x.view), *pitch("yp", y.view), *pitch("tp", tap.view)]


def summed_fields(kind: MaxPool, reads: list[Operand], writes: list[Operand], scratch: str) -> Fields:
    return [*max_fields(kind, reads, writes, scratch), ("scratch", scratch)]


def average_fields(kind: AvgPool, reads: list[Operand], writes: list[Operand], _scratch: str) -> Fields:
    x, y = (reads[0], writes[0]) if kind.direction == "fw" else (writes[0], reads[0])
    out: list[tuple[str, str | int]] = [("x", x.pointer), ("y", y.pointer), *shape_fields(kind.shape)]
    if kind.divisor:
        out.append(("divisor", kind.divisor))
    elif not kind.shape.adaptive:
        (h0, h1), (w0, w1) = kind.counted(0), kind.counted(1)
        out += [("count_h0", h0), ("count_h1", h1), ("count_w0", w0), ("count_w1", w1)]
    return [*out, *pitch("xp", x.view), *pitch("yp", y.view)]


def shape_fields(s: PoolShape) -> list[tuple[str, str | int]]:
    out: list[tuple[str, str | int]] = [("planes", s.planes), ("h", s.h), ("wd", s.w)]
    out += [("ho", s.ho), ("wo", s.wo), ("kh", s.kernel[0]), ("kw", s.kernel[1])]
    if s.adaptive:
        return out
    out += [("stride_h", s.stride[0]), ("stride_w", s.stride[1]), ("pad_h", s.pad[0]), ("pad_w", s.pad[1])]
    return [*out, ("dil_h", s.dilation[0]), ("dil_w", s.dilation[1])]


def pitch(name: str, view: View) -> list[tuple[str, int]]:
    return [(f"{name}.{axis}", s) for axis, s in zip(("plane", "row"), view.strides, strict=False)]


# ---- shapes


def apart(kind: MaxPool | AvgPool, _cores: int) -> bool:
    """No input lies under two windows, nor between the taps of one."""
    s = kind.shape
    return all(s.dilation[d] == 1 and s.stride[d] >= s.kernel[d] for d in (0, 1))


def numbered(kind: MaxPool, tap: DType) -> bool:
    return kind.shape.dilation[1] == 1 and kind.tap is tap


def in_a_byte(kind: MaxPool, _cores: int) -> bool:
    return numbered(kind, DType.U8)


def in_two_bytes(kind: MaxPool, _cores: int) -> bool:
    return numbered(kind, DType.U16)


def near(kind: MaxPool, _cores: int) -> bool:
    """Without holes between taps, numbered in a byte."""
    return kind.shape.dilation == (1, 1) and kind.tap is DType.U8


def near_low(kind: MaxPool, cores: int) -> bool:
    """Of few rows, which each core has as sums."""
    return near(kind, cores) and max(kind.shape.kernel[0], kind.shape.stride[0]) <= 5


def rows_of_sums(kind: MaxPool, cores: int) -> int:
    """Floats of what two rows of windows reach for each core, as wide as all their taps."""
    s = kind.shape
    reached = (s.wo - 1) * s.stride[1] + s.kernel[1] - s.pad[1]
    return DType.F32.size * cores * two_rows(s) * (max(s.pad[1], 0) + max(s.w, reached))


def two_rows(s: PoolShape) -> int:
    return s.stride[0] + max(s.kernel[0], s.stride[0])


def near_tiled(kind: MaxPool, cores: int) -> bool:
    return near(kind, cores) and tiled(kind, cores)


def tiled(kind: MaxPool | AvgPool, cores: int) -> bool:
    """Windows side by side from the first element on, the last one inside: a winner below a tile is another tile's."""
    s = kind.shape
    return s.stride == s.kernel and s.pad == (0, 0) and s.dilation == (1, 1) and whole(kind, cores)


def whole(kind: MaxPool | AvgPool, _cores: int) -> bool:
    """All windows have all their taps."""
    s = kind.shape
    ends = ((s.ho - 1) * s.stride[0] - s.pad[0] + s.kernel[0], (s.wo - 1) * s.stride[1] - s.pad[1] + s.kernel[1])
    return max(s.pad) <= 0 and ends[0] <= s.h and ends[1] <= s.w


def even(kind: AvgPool, _cores: int) -> bool:
    """All windows count the same number of columns."""
    s, (first, end) = kind.shape, kind.counted(1)
    return kind.divisor != 0 or (-s.pad[1] >= first and (s.wo - 1) * s.stride[1] - s.pad[1] + s.kernel[1] <= end)


# ---- cycles of the slowest core


def output_cycles(kind: MaxPool | AvgPool, cores: int, tap: float, costs: Costs) -> float:
    """Rows of outputs, tap by tap."""
    s = kind.shape
    return -(-s.planes * s.ho // cores) * (costs.pool.row + s.wo * s.taps() * tap)


def input_cycles(kind: MaxPool | AvgPool, cores: int, windows: float, costs: Costs) -> float:
    """Rows of inputs, each element in so many cycles."""
    s = kind.shape
    return -(-s.planes * s.h // cores) * (costs.pool.row + s.w * windows)


def maxima_cycles(kind: MaxPool, cores: int, costs: Costs) -> float:
    return output_cycles(kind, cores, costs.pool.maximum, costs)


def means_cycles(kind: AvgPool, cores: int, costs: Costs) -> float:
    return output_cycles(kind, cores, costs.pool.mean, costs)


def any_cycles(kind: MaxPool | AvgPool, cores: int, costs: Costs) -> float:
    if kind.direction == "fw":
        return output_cycles(kind, cores, costs.pool.any_tap, costs)
    return input_cycles(kind, cores, costs.pool.gathered * max(overlap(kind), 1), costs)


def overlap(kind: MaxPool | AvgPool) -> float:
    """Windows over an input."""
    s = kind.shape
    return s.taps() * s.ho * s.wo / max(s.h * s.w, 1)


def shared_cycles(kind: MaxPool | AvgPool, cores: int, costs: Costs) -> float:
    return input_cycles(kind, cores, costs.pool.shared, costs)


def scattered_cycles(kind: MaxPool, cores: int, costs: Costs) -> float:
    """Inputs cleared, and what each window gives to one of them."""
    s = kind.shape
    cleared = -(-s.planes * s.h // cores) * s.w * costs.pool.cleared
    return cleared + -(-s.planes * s.ho // cores) * (costs.pool.row + s.wo * costs.pool.given)


def rounded_cycles(kind: MaxPool, cores: int, costs: Costs) -> float:
    """What windows give, as sums of which some move on and all are rounded."""
    s = kind.shape
    rows = -(-s.planes * s.h // cores)
    return scattered_cycles(kind, cores, costs) + rows * s.w * costs.pool.rounded


def each_cycles(kind: MaxPool, cores: int, costs: Costs) -> float:
    return input_cycles(kind, cores, costs.pool.each + costs.pool.each_window * overlap(kind), costs)


def row(
    fields: Making[P], operation: str, more: str = "", storage: DType = DType.F32, **keywords: Unpack[More[P]]
) -> Row[P]:
    name = operation + more
    keywords.setdefault("split", "outputs" if operation.endswith("fw") else "inputs")
    keywords.setdefault("cycles", any_cycles)
    symbol, source = f"tl_{name}_{storage.name.lower()}", f"pool/{pointer(name, storage)}.c"
    return Row(operation, symbol, source, "tl_pool2d", "tl_pool.h", fields, storage=storage, **keywords)


maxima, averages = partial(row, max_fields), partial(row, average_fields)
of_halves, with_sums = partial(maxima, storage=DType.F16), partial(row, summed_fields, storage=DType.F16)

POOL = (
    maxima("maxpool2d_fw", "_rows", takes=near, cycles=maxima_cycles),
    maxima("maxpool2d_fw"),
    maxima("adaptive_maxpool2d_fw"),
    maxima("maxpool2d_bw", "_tiled", takes=near_tiled, cycles=shared_cycles),
    maxima("maxpool2d_bw", "_near", takes=near, cycles=scattered_cycles),
    maxima("maxpool2d_bw", "_apart", takes=apart),
    maxima("maxpool2d_bw", "_u8", takes=in_a_byte),
    maxima("maxpool2d_bw", "_u16", takes=in_two_bytes),
    maxima("maxpool2d_bw"),
    maxima("adaptive_maxpool2d_bw"),
    of_halves("maxpool2d_fw", "_rows", takes=near, cycles=maxima_cycles),
    of_halves("maxpool2d_fw"),
    of_halves("maxpool2d_bw", "_tiled", takes=near_tiled, cycles=shared_cycles),
    with_sums("maxpool2d_bw", "_near", takes=near_low, scratch=rows_of_sums, cycles=rounded_cycles),
    of_halves("maxpool2d_bw", "_apart", takes=apart),
    of_halves("maxpool2d_bw", cycles=each_cycles),
    of_halves("adaptive_maxpool2d_fw"),
    of_halves("adaptive_maxpool2d_bw", cycles=each_cycles),
    averages("avgpool2d_fw", "_whole", takes=whole, cycles=means_cycles),
    averages("avgpool2d_fw"),
    averages("adaptive_avgpool2d_fw"),
    averages("avgpool2d_bw", "_tiled", takes=tiled, cycles=shared_cycles),
    averages("avgpool2d_bw", "_apart", takes=apart),
    averages("avgpool2d_bw", "_even", takes=even),
    averages("avgpool2d_bw"),
    averages("adaptive_avgpool2d_bw"),
)
