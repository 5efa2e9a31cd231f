"""Rows that are a SiLU and its slope are told from rows that look like it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainlib_deployer.emit.curves import Curve, curve_of
from trainlib_deployer.emit.loops import body_text
from trainlib_deployer.emit.rows import Pointer, Row
from trainlib_deployer.program.expr import Arg, Const, Instr
from trainlib_deployer.program.ir import DType, View
from trainlib_deployer.program.loop import Loop

X, S, Y, REST, SLOPE = range(5)
Steps = tuple[tuple[str, tuple[Arg, ...]], ...]
SILU: Steps = (("sigmoid", (X,)), ("mul", (X, S)), ("sub", (Const(1.0), S)), ("fma", (Y, REST, S)))
ROW = Row("lo", "hi", {X: Pointer("r0")}, [Pointer("w0"), Pointer("w1")])


def loop(steps: Steps = SILU, results: tuple[int, ...] = (Y, SLOPE), dtype: DType = DType.F32) -> Loop:
    body = tuple(Instr(op, args, DType.F32) for op, args in steps)
    return Loop((40,), 0, (dtype,), body, (), (), results, (dtype,) * len(results))


def test_it_is_one_call() -> None:
    dense = View("x", (40,), (1,))
    assert curve_of(loop(), ROW) == Curve("tl_silu_row", X)
    assert "tl_silu_row(w0 + lo, w1 + lo, r0 + lo, hi - lo);" in body_text(loop(), (dense,), (dense, dense))


@pytest.mark.parametrize(
    ("at", "step"),
    [
        (0, ("tanh", (X,))),
        (1, ("mul", (S, S))),
        (2, ("sub", (Const(2.0), S))),
        (3, ("fma", (Y, REST, X))),
    ],
)
def test_another_formula_is_another_row(at: int, step: tuple[str, tuple[Arg, ...]]) -> None:
    assert not curve_of(loop((*SILU[:at], step, *SILU[at + 1 :])), ROW)


def test_so_are_other_results_halves_and_rows_that_are_not_dense() -> None:
    assert not curve_of(loop(results=(SLOPE, Y)), ROW)
    assert not curve_of(loop(results=(Y,)), ROW)
    assert not curve_of(loop(dtype=DType.F16), ROW)
    assert not curve_of(loop(), replace(ROW, reads={X: Pointer("r0", 2)}))
