"""Rows that Adam or RMSprop updates are told from rows that look like it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainlib_deployer.emit.adaptive import Adaptive, adaptive_of
from trainlib_deployer.emit.loops import body_text
from trainlib_deployer.emit.rows import Pointer, Row
from trainlib_deployer.program.expr import Arg, Const, Instr
from trainlib_deployer.program.ir import DType, View
from trainlib_deployer.program.loop import Loop

W, G, M, V, RATE, MORE, MINUS_V, REST, NEW_V, ROOT, DIFFERENCE, NEW_M, STEP, MINUS_RATE, NEW_W = range(15)
Steps = tuple[tuple[str, tuple[Arg, ...]], ...]
ROOT_STEPS: Steps = (
    ("neg", (V,)),
    ("fma", (G, G, MINUS_V)),
    ("fma", (REST, Const(0.001), V)),
    ("inverse_root", (NEW_V, MORE)),
)
ADAM: Steps = (
    *ROOT_STEPS,
    ("sub", (G, M)),
    ("fma", (DIFFERENCE, Const(0.1), M)),
    ("mul", (NEW_M, ROOT)),
    ("neg", (RATE,)),
    ("fma", (MINUS_RATE, STEP, W)),
)
ALONE, MINUS_LR, NEW = 10, 11, 12
RMSPROP: Steps = (*ROOT_STEPS, ("mul", (G, ROOT)), ("neg", (RATE,)), ("fma", (MINUS_LR, ALONE, W)))
MOMENTUM: Steps = (
    *RMSPROP[:5],
    ("fma", (M, Const(0.9), ALONE)),
    ("neg", (RATE,)),
    ("fma", (NEW, 11, W)),
)
MOVING = {i: Pointer(f"p{i}") for i in (W, G, M, V)}
ROW = Row("lo", "hi", MOVING, [Pointer(f"q{i}") for i in range(3)])
ROOT_FACTORS = {"rate": RATE, "second": Const(0.001), "more": MORE}


def loop(steps: Steps = ADAM, results: tuple[int, ...] = (NEW_W, NEW_M, NEW_V)) -> Loop:
    body = tuple(Instr(op, args, DType.F32) for op, args in steps)
    return Loop((40,), 0, (DType.F32,) * 6, body, (), (), results, (DType.F32,) * len(results))


def changed(steps: Steps, at: int, args: tuple[Arg, ...]) -> Steps:
    op, _ = steps[at]
    return (*steps[:at], (op, args), *steps[at + 1 :])


def named(found: Adaptive) -> tuple[str, tuple[bool, bool], str]:
    return found.function, found.literals, found.written


def test_operands_of_adam_are_found() -> None:
    found = adaptive_of(loop(), ROW)
    assert found is not None and named(found) == ("tl_adam_row", (False, False), "wmv")
    assert found.moving == {"w": W, "g": G, "m": M, "v": V}
    assert found.factors == {**ROOT_FACTORS, "first": Const(0.1)}


@pytest.mark.parametrize(("steps", "grain"), [(ADAM, 1), (changed(ADAM, 4, (M, G)), 4)])
def test_cores_share_them_one_by_one(steps: Steps, grain: int) -> None:
    """Of 40 parameters each of eight cores has five, and of another long body four or eight."""
    reads = tuple(View(f"x{i}", (40,), (int(i in MOVING),)) for i in range(6))
    writes = tuple(View(f"y{i}", (40,), (1,)) for i in range(3))
    assert f"tl_split(n, {grain}, &lo, &hi);" in body_text(loop(steps), reads, writes)


def test_so_they_are_where_parameters_decay() -> None:
    kept = NEW_W  # in its place, and the new parameter behind
    steps = (*ADAM[:-1], ("mul", (W, RATE)), ("fma", (MINUS_RATE, STEP, kept)))
    found = adaptive_of(loop(steps, (kept + 1, NEW_M, NEW_V)), ROW)
    assert found is not None and found.literals == (True, False)
    assert found.moving["w"] == W and found.factors["keep"] == RATE


def test_operands_of_rmsprop_are_found() -> None:
    found = adaptive_of(loop(RMSPROP, (NEW, NEW_V)), ROW)
    assert found is not None and named(found) == ("tl_rmsprop_row", (False, False), "wvm")
    assert found.moving == {"w": W, "g": G, "v": V} and found.factors == ROOT_FACTORS


def test_so_they_are_with_a_momentum() -> None:
    found = adaptive_of(loop(MOMENTUM, (13, NEW_V, 11)), ROW)
    assert found is not None and named(found) == ("tl_rmsprop_row", (True, False), "wvm")
    assert found.moving == {"w": W, "g": G, "m": M, "v": V}
    assert found.factors == {**ROOT_FACTORS, "first": Const(0.9)}


@pytest.mark.parametrize(
    ("steps", "results", "literals"),
    [(ADAM, (NEW_W, NEW_M, NEW_V), (False, True)), (MOMENTUM, (13, NEW_V, 11), (True, True))],
)
def test_another_way_to_the_root_is_a_literal(
    steps: Steps, results: tuple[int, ...], literals: tuple[bool, bool]
) -> None:
    steps = (*steps[:3], ("inverse_root_near", (NEW_V, MORE)), *steps[4:])
    found = adaptive_of(loop(steps, results), ROW)
    assert found is not None and found.literals == literals


@pytest.mark.parametrize(
    ("at", "args"),
    [
        (0, (M,)),
        (1, (G, M, MINUS_V)),
        (2, (REST, Const(0.001), M)),
        (2, (REST, G, V)),
        (3, (V, MORE)),
        (4, (M, G)),
        (5, (DIFFERENCE, Const(0.1), V)),
        (6, (M, ROOT)),
        (7, (W,)),
        (8, (MINUS_RATE, STEP, Const(0.0))),
        (8, (RATE, STEP, W)),
    ],
)
def test_another_formula_is_another_row(at: int, args: tuple[Arg, ...]) -> None:
    assert adaptive_of(loop(changed(ADAM, at, args)), ROW) is None


@pytest.mark.parametrize(
    ("at", "args"),
    [
        (1, (G, M, MINUS_V)),
        (3, (V, MORE)),
        (4, (M, ROOT)),
        (5, (M, V, ALONE)),
        (5, (M, Const(0.9), G)),
        (6, (W,)),
        (7, (NEW, ALONE, W)),
    ],
)
def test_so_is_another_momentum(at: int, args: tuple[Arg, ...]) -> None:
    assert adaptive_of(loop(changed(MOMENTUM, at, args), (13, NEW_V, 11)), ROW) is None


def test_rows_that_are_not_dense_are_others() -> None:
    apart = replace(ROW, reads={**MOVING, G: Pointer("p1", 3)})
    assert adaptive_of(loop(), apart) is None
    assert adaptive_of(loop(results=(NEW_W, NEW_V, NEW_M)), ROW) is None
    assert adaptive_of(loop(MOMENTUM, (13, 11, NEW_V)), ROW) is None
    assert adaptive_of(loop(RMSPROP, (NEW,)), ROW) is None
