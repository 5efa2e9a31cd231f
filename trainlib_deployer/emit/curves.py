"""A row of exponentials of differences from one number, as of a softmax, or of GELUs or SiLUs with their slopes: one
call. With PULP's own instructions that is a hardware loop. A build that records makes it element by element."""

from __future__ import annotations

from dataclasses import dataclass

from trainlib_deployer.emit.adaptive import OtherwiseError, made, number, only
from trainlib_deployer.emit.loop_text import Text, constant, instructions
from trainlib_deployer.emit.rows import Row
from trainlib_deployer.program.expr import Arg, Const
from trainlib_deployer.program.ir import DType
from trainlib_deployer.program.loop import Loop

SUFFIXES = {DType.F32: "f32", DType.F16: "f16"}


@dataclass(frozen=True)
class Curve:
    """The function, the number of the row's operand, and what does not move along the row."""

    function: str
    operand: int
    factors: tuple[Arg, ...] = ()


def curve_of(kind: Loop, row: Row) -> Curve | None:
    """Where all of the row is dense and of one type."""
    kept = len(kind.kept)
    types = {*kind.outputs[:kept], *(kind.inputs[i] for i in row.reads)}
    dense = all(p.stride == 1 for p in (*row.reads.values(), *row.writes[:kept]))
    if not dense or len(row.reads) != 1 or len(types) != 1 or not types <= SUFFIXES.keys():
        return None
    (dtype,) = types
    for matched in (exponential, gelu, silu):
        try:
            found = matched(kind, dtype)
        except OtherwiseError:
            continue
        if {found.operand} == {*row.reads} and not kind.depending(row.reads) & {*found.factors}:
            return found
    return None


def exponential(kind: Loop, dtype: DType) -> Curve:
    only(len(kind.kept) == 1)
    (difference,) = made(kind, rounded(kind, kind.kept[0], dtype), "exp").args
    x, less = made(kind, difference, "sub").args
    return Curve(f"tl_exp_row_{SUFFIXES[dtype]}", operand(kind, x, dtype), (less,))


def gelu(kind: Loop, dtype: DType) -> Curve:
    only(len(kind.kept) == 2)
    y, slope = (rounded(kind, value, dtype) for value in kind.kept)
    x, part = made(kind, y, "mul").args
    only(made(kind, part, "gauss_cdf").args == (x,))
    again, density, more = made(kind, slope, "fma").args
    only((again, more) == (x, part) and made(kind, density, "gauss_density").args == (x,))
    return Curve(f"tl_gelu_row_{SUFFIXES[dtype]}", operand(kind, x, dtype))


def silu(kind: Loop, dtype: DType) -> Curve:
    only(len(kind.kept) == 2 and dtype is DType.F32)
    y, slope = kind.kept
    x, s = made(kind, y, "mul").args
    only(made(kind, s, "sigmoid").args == (x,))
    again, rest, more = made(kind, slope, "fma").args
    only((again, more) == (y, s) and made(kind, rest, "sub").args == (Const(1.0), s))
    return Curve("tl_silu_row", number(x))


def rounded(kind: Loop, result: Arg, dtype: DType) -> Arg:
    """What a result is made of."""
    return result if dtype is DType.F32 else made(kind, result, "to_half").args[0]


def operand(kind: Loop, x: Arg, dtype: DType) -> int:
    return number(x if dtype is DType.F32 else made(kind, x, "from_half").args[0])


def curve_row(t: Text, kind: Loop, row: Row, curve: Curve) -> None:
    fixed = {a for a in curve.factors if isinstance(a, int)}
    instructions(t, kind, kind.body, kind.at_body, kind.needed(fixed))
    arguments = [row.first(p) for p in (*row.writes[: len(kind.kept)], row.reads[curve.operand])]
    arguments += [constant(a.value, DType.F32) if isinstance(a, Const) else f"v{a}" for a in curve.factors]
    t.add(f"{curve.function}({', '.join((*arguments, row.elements))});")
