"""Rows that Adam updates are told from rows that look like it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainlib_deployer.emit.adam import adam_of
from trainlib_deployer.emit.rows import Pointer, Row
from trainlib_deployer.program.expr import Arg, Const, Instr
from trainlib_deployer.program.ir import DType
from trainlib_deployer.program.loop import Loop

W, G, M, V, RATE, SCALE, MINUS_V, REST, NEW_V, ROOT, DIFFERENCE, NEW_M, STEP, MINUS_RATE, NEW_W = range(15)
Steps = tuple[tuple[str, tuple[Arg, ...]], ...]
STEPS: Steps = (
    ("neg", (V,)),
    ("fma", (G, G, MINUS_V)),
    ("fma", (REST, Const(0.001), V)),
    ("inverse_root", (NEW_V, SCALE, Const(1e-8))),
    ("sub", (G, M)),
    ("fma", (DIFFERENCE, Const(0.1), M)),
    ("mul", (NEW_M, ROOT)),
    ("neg", (RATE,)),
    ("fma", (MINUS_RATE, STEP, W)),
)
MOVING = {i: Pointer(f"p{i}") for i in (W, G, M, V)}
ROW = Row("lo", "hi", MOVING, [Pointer(f"q{i}") for i in range(3)])


def adam(
    steps: tuple[tuple[str, tuple[Arg, ...]], ...] = STEPS, results: tuple[int, ...] = (NEW_W, NEW_M, NEW_V)
) -> Loop:
    body = tuple(Instr(op, args, DType.F32) for op, args in steps)
    return Loop((40,), 0, (DType.F32,) * 6, body, (), (), results, (DType.F32,) * len(results))


def test_its_operands_are_found() -> None:
    found = adam_of(adam(), ROW)
    assert found is not None and (found.w, found.g, found.m, found.v) == (W, G, M, V)
    assert found.factors == {
        "rate": RATE,
        "first": Const(0.1),
        "second": Const(0.001),
        "scale": SCALE,
        "more": Const(1e-8),
    }


def test_so_they_are_where_parameters_decay() -> None:
    kept = NEW_W  # in its place, and the new parameter behind
    steps = (*STEPS[:-1], ("mul", (W, SCALE)), ("fma", (MINUS_RATE, STEP, kept)))
    found = adam_of(adam(steps, (kept + 1, NEW_M, NEW_V)), ROW)
    assert found is not None and found.w == W and found.keep == SCALE


@pytest.mark.parametrize(
    ("at", "args"),
    [
        (0, (M,)),
        (1, (G, M, MINUS_V)),
        (2, (REST, Const(0.001), M)),
        (2, (REST, G, V)),
        (3, (V, SCALE, Const(1e-8))),
        (4, (M, G)),
        (5, (DIFFERENCE, Const(0.1), V)),
        (6, (M, ROOT)),
        (7, (W,)),
        (8, (MINUS_RATE, STEP, Const(0.0))),
        (8, (RATE, STEP, W)),
    ],
)
def test_another_formula_is_another_row(at: int, args: tuple[Arg, ...]) -> None:
    op, _ = STEPS[at]
    assert adam_of(adam((*STEPS[:at], (op, args), *STEPS[at + 1 :])), ROW) is None


def test_rows_that_are_not_dense_are_others() -> None:
    apart = replace(ROW, reads={**MOVING, G: Pointer("p1", 3)})
    assert adam_of(adam(), apart) is None
    assert adam_of(adam(results=(NEW_W, NEW_V, NEW_M)), ROW) is None
