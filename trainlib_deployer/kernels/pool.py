"""Pooling: which kernel, by how the windows lie."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from trainlib_deployer.kernels.row import Fields, Row
from trainlib_deployer.program.call import Operand
from trainlib_deployer.program.ir import DType, View

if TYPE_CHECKING:
    from trainlib_deployer.ops.pool import AvgPool, MaxPool, PoolShape


def max_fields(kind: MaxPool, reads: list[Operand], writes: list[Operand], _scratch: str) -> Fields:
    x, y, tap = (reads[0], *writes) if kind.direction == "fw" else (writes[0], *reads)
    out: list[tuple[str, str | int]] = [("x", x.pointer), ("y", y.pointer), ("tap", tap.pointer)]
    out += [("tap_bytes", kind.tap.size), *shape_fields(kind.shape)]
    return [*out, *pitch("xp", x.view), *pitch("yp", y.view), *pitch("tp", tap.view)]


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


def even(kind: AvgPool, _cores: int) -> bool:
    """All windows count the same number of columns."""
    s, (first, end) = kind.shape, kind.counted(1)
    return kind.divisor != 0 or (-s.pad[1] >= first and (s.wo - 1) * s.stride[1] - s.pad[1] + s.kernel[1] <= end)


def row(fields: Any, operation: str, more: str = "", **keywords: Any) -> Row:
    name = operation + more
    source, split = f"pool/{name}.c", "outputs" if operation.endswith("fw") else "inputs"
    return Row(operation, f"tl_{name}_f32", source, "tl_pool2d", "tl_pool.h", fields, split=split, **keywords)


maxima, averages = partial(row, max_fields), partial(row, average_fields)

POOL = (
    maxima("maxpool2d_fw"),
    maxima("adaptive_maxpool2d_fw"),
    maxima("maxpool2d_bw", "_apart", takes=apart),
    maxima("maxpool2d_bw", "_u8", takes=in_a_byte),
    maxima("maxpool2d_bw", "_u16", takes=in_two_bytes),
    maxima("maxpool2d_bw"),
    maxima("adaptive_maxpool2d_bw"),
    averages("avgpool2d_fw"),
    averages("adaptive_avgpool2d_fw"),
    averages("avgpool2d_bw", "_apart", takes=apart),
    averages("avgpool2d_bw", "_even", takes=even),
    averages("avgpool2d_bw"),
    averages("adaptive_avgpool2d_bw"),
)
