"""Estimates of generated loops."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import prod

import pytest

from trainlib_deployer.machine.pulp_open import PULP_OPEN
from trainlib_deployer.plan.loop_cycles import loop_cycles
from trainlib_deployer.program.expr import C_FORM, Const, Instr, Reduction
from trainlib_deployer.program.ir import DType, View
from trainlib_deployer.program.loop import Loop

F32 = DType.F32
COSTS = PULP_OPEN.costs.loop


def dense(*shape: int) -> View:
    return View("", shape, tuple(prod(shape[d + 1 :]) for d in range(len(shape))))


def doubled(*shape: int, op: str = "mul") -> tuple[Loop, tuple[View, ...], tuple[View, ...]]:
    kind = Loop(shape, 0, (F32,), (Instr(op, (0, Const(2.0)), F32),), (), (), (1,), (F32,))
    return kind, (dense(*shape),), (dense(*shape),)


def summed(rows: int, columns: int) -> tuple[Loop, tuple[View, ...], tuple[View, ...]]:
    kind = Loop((rows, columns), 1, (F32,), (), (Reduction("sum", 0, F32),), (), (1,), (F32,))
    return kind, (dense(rows, columns),), (dense(rows),)


def test_every_instruction_with_a_price_exists() -> None:
    assert set(COSTS.functions) <= set(C_FORM)


def test_an_element_pays_for_its_loads_its_instructions_and_its_store() -> None:
    kind, reads, writes = doubled(8 * 1024)
    element = COSTS.load + COSTS.store + COSTS.plain + COSTS.step
    assert loop_cycles(kind, reads, writes, 8, COSTS) == pytest.approx(COSTS.start + COSTS.row + 1024 * element)
    dear = loop_cycles(*doubled(8 * 1024, op="pow"), 8, COSTS)
    assert dear > 1024 * COSTS.functions["pow"]


def test_clipping_bits_takes_no_comparisons() -> None:
    def clamped(*witness: int) -> float:
        body = (Instr("max", (0, Const(0.0)), F32), Instr("min", (2, Const(6.0), *witness), F32))
        kind = Loop((8, 1024), 0, (F32, F32), body, (), (), (3,), (F32,))
        return loop_cycles(kind, (dense(8, 1024), View("", (8, 1024), (1, 0))), (dense(8, 1024),), 8, COSTS)

    compared = COSTS.functions["max"] + COSTS.functions["min"]
    assert clamped() - clamped(1) == pytest.approx(1024 * (compared - 2 * COSTS.plain))


def test_what_is_read_again_is_loaded_and_doubled_once() -> None:
    kind, reads, writes = doubled(8, 1024)
    same = (View("", (8, 1024), (1, 0)),)
    saved = loop_cycles(kind, reads, writes, 8, COSTS) - loop_cycles(kind, same, writes, 8, COSTS)
    assert saved == pytest.approx(1024 * (COSTS.load + COSTS.plain), rel=0.02)


@pytest.mark.parametrize("made", [doubled, summed])
def test_more_cores_never_take_longer(made: object) -> None:
    assert callable(made)
    taken = [loop_cycles(*made(7, 13), cores, COSTS) for cores in range(1, 12)]
    assert all(a >= b for a, b in pairwise(taken))
    assert made is doubled or taken[6] == taken[10]  # of seven sums


def test_seven_rows_on_four_cores_take_as_long_as_eight() -> None:
    assert loop_cycles(*summed(7, 129), 4, COSTS) == loop_cycles(*summed(8, 129), 4, COSTS)


def test_a_loop_without_elements_takes_its_start() -> None:
    assert loop_cycles(*doubled(0, 5), 8, COSTS) == COSTS.start


def test_merged_dimensions_take_what_one_takes() -> None:
    kind, _, _ = doubled(64 * 33)
    apart = replace(kind, extents=(64, 33))
    whole = loop_cycles(kind, (dense(64 * 33),), (dense(64 * 33),), 8, COSTS)
    assert loop_cycles(apart, (dense(64, 33),), (dense(64, 33),), 8, COSTS) == whole


def test_what_a_record_alone_needs_takes_nothing() -> None:
    """An update by an outer product, five rows at a time: the gradient is not made where nothing is recorded."""
    shape, body = (10, 128), (Instr("mul", (3, 0), F32), Instr("fma", (4, 1, 2), F32))
    reads = tuple(View("", shape, strides) for strides in ((1, 0), (0, 1), (128, 1), (0, 0)))
    update = Loop(shape, 0, (F32,) * 4, body, (), (), (5,), (F32,))
    product = (Instr("fma", (0, 1, Const(0.0)), F32), Instr("mul", (3, 0), F32), Instr("fma", (5, 1, 2), F32))
    recording = replace(update, body=product, results=(6, 4), outputs=(F32, F32), recorded=1)
    alone = loop_cycles(update, reads, (dense(*shape),), 8, COSTS)
    assert loop_cycles(recording, reads, (dense(*shape),) * 2, 8, COSTS) == alone
