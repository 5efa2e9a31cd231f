"""Rows of exponentials and of GELUs are told from rows that look like them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainlib_deployer.emit.curves import curve_of
from trainlib_deployer.emit.loops import body_text
from trainlib_deployer.emit.rows import Pointer, Row
from trainlib_deployer.program.expr import Arg, Instr
from trainlib_deployer.program.ir import DType, View
from trainlib_deployer.program.loop import Loop

F32, F16, U8 = DType.F32, DType.F16, DType.U8
X, LESS = 0, 1
Steps = tuple[tuple[str, tuple[Arg, ...]], ...]
EXP: Steps = (("sub", (X, LESS)), ("exp", (2,)))
EXP_OF_HALVES: Steps = (("from_half", (X,)), ("sub", (2, LESS)), ("exp", (3,)), ("to_half", (4,)))
GELU: Steps = (
    ("gauss_cdf", (X,)),
    ("mul", (X, 1)),
    ("gauss_density", (X,)),
    ("fma", (X, 3, 1)),
)
GELU_OF_HALVES: Steps = (
    ("from_half", (X,)),
    ("gauss_cdf", (1,)),
    ("mul", (1, 2)),
    ("to_half", (3,)),
    ("gauss_density", (1,)),
    ("fma", (1, 5, 2)),
    ("to_half", (6,)),
)
ROW = Row("lo", "hi", {X: Pointer("r0")}, [Pointer("w0")])
BOTH = replace(ROW, writes=[Pointer("w0"), Pointer("w1")])


def loop(steps: Steps, inputs: tuple[DType, ...], results: tuple[int, ...], of: DType = F32) -> Loop:
    body = tuple(Instr(op, args, F16 if op == "to_half" else F32) for op, args in steps)
    return Loop((40,), 0, inputs, body, (), (), results, (of,) * len(results))


def changed(steps: Steps, at: int, op: str, args: tuple[Arg, ...]) -> Steps:
    return (*steps[:at], (op, args), *steps[at + 1 :])


@pytest.mark.parametrize(
    ("kind", "row", "function", "factors"),
    [
        (loop(EXP, (F32, F32), (3,)), ROW, "tl_exp_row_f32", (LESS,)),
        (loop(EXP_OF_HALVES, (F16, F32), (5,), F16), ROW, "tl_exp_row_f16", (LESS,)),
        (loop(GELU, (F32,), (2, 4)), BOTH, "tl_gelu_row_f32", ()),
        (loop(GELU_OF_HALVES, (F16,), (4, 7), F16), BOTH, "tl_gelu_row_f16", ()),
    ],
)
def test_operands_are_found(kind: Loop, row: Row, function: str, factors: tuple[Arg, ...]) -> None:
    found = curve_of(kind, row)
    assert found is not None and (found.function, found.operand, found.factors) == (function, X, factors)
    apart = replace(row, reads={X: Pointer("r0", 3)})
    assert curve_of(kind, apart) is None


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        (loop(changed(EXP, 0, "sub", (LESS, X)), (F32, F32), (3,)), ROW),
        (loop(changed(EXP, 0, "add", (X, LESS)), (F32, F32), (3,)), ROW),
        (loop(changed(EXP, 1, "exp2", (2,)), (F32, F32), (3,)), ROW),
        (loop(EXP, (F32, F32), (3,)), replace(ROW, reads={X: Pointer("r0"), LESS: Pointer("r1")})),
        (loop(EXP, (F32, F32), (2, 3)), BOTH),
        (loop(EXP_OF_HALVES, (F16, F32), (4,)), ROW),
        (loop(changed(EXP_OF_HALVES, 0, "from_bf16", (X,)), (F16, F32), (5,), F16), ROW),
        (loop(GELU, (F32,), (4, 2)), BOTH),
        (loop(GELU, (F32,), (2,)), ROW),
        (loop(changed(GELU, 1, "mul", (1, 1)), (F32,), (2, 4)), BOTH),
        (loop(changed(GELU, 3, "fma", (X, 3, 3)), (F32,), (2, 4)), BOTH),
        (loop(changed(GELU, 2, "gauss_density", (1,)), (F32,), (2, 4)), BOTH),
        (loop(changed(GELU_OF_HALVES, 5, "fma", (2, 5, 2)), (F16,), (4, 7), F16), BOTH),
    ],
)
def test_another_formula_is_another_row(kind: Loop, row: Row) -> None:
    assert curve_of(kind, row) is None


def test_what_a_row_calls() -> None:
    """A number of each row stays in its place, and a build that records goes element by element."""
    kind = replace(loop(EXP_OF_HALVES, (F16, F32), (5, 3)), extents=(7, 37), outputs=(F16, F32), recorded=1)
    views = (View("", (7, 37), (37, 1)), View("", (7, 37), (1, 0)))
    text = body_text(kind, views, (View("", (7, 37), (37, 1)), View("", (7, 37), (37, 1))))
    recording, _, otherwise = text.partition("#else")
    assert "tl_exp_row_f16(q0 + begin, p0 + begin, v1, end - begin);" in otherwise and "tl_expf" not in otherwise
    assert "tl_exp_row" not in recording and "tl_expf(v3)" in recording
