"""Depthwise convolutions of halves: exact, bounded, and bit by bit their reference, whatever the cores; those that are
made of floats, bit by bit what rows of floats give between conversions."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.kernel_harness import Tensor, fitting, pitched, run
from tests.unit.test_conv_rows import DIRECTIONS, EPS, Case, expectation, operands
from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.depthwise_f16 import DEPTHWISE_F16, at_a_time, pays, widens
from trainlib_deployer.ops.conv import Conv

CASES = [
    Case(groups=5, size=(11, 5), pad=(1, 1)),
    Case(n=2, groups=3, size=(9, 8), pad=(1, 1), wide=3),
    Case(groups=4, size=(6, 7), sparse_w=2),
    Case(groups=2, size=(3, 1), pad=(1, 1)),
    Case(groups=3, size=(7, 6), pad=(-1, 2), more=(1, 0)),
    Case(groups=11, size=(13, 12), pad=(2, 0), more=(0, 1)),
    Case(groups=2, size=(31, 95), pad=(1, 1)),  # more than a core copies at a time
    Case(ci=1, co=5, size=(8, 9), pad=(1, 1), wide=2),
    Case(groups=2, ci=3, size=(8, 9), pad=(1, 1)),
    Case(groups=2, co=3, size=(5, 10), pad=(0, 1)),
    Case(groups=9, size=(1, 1), pad=(1, 1)),
    Case(groups=5, size=(12, 12), pad=(1, 1), stride=(2, 2)),
    Case(n=2, groups=3, size=(11, 13), pad=(1, 1), stride=(2, 2), wide=3),
    Case(groups=4, size=(9, 8), stride=(2, 2), sparse_w=2),
    Case(groups=3, size=(8, 7), stride=(2, 2), more=(0, 1)),
    Case(groups=2, size=(2, 3), pad=(1, 2), stride=(2, 2)),
    Case(groups=3, size=(7, 6), pad=(-1, 2), stride=(2, 2), more=(1, 0)),
    Case(groups=2, size=(61, 97), pad=(0, 1), stride=(2, 2)),
    Case(groups=2, size=(33, 131), pad=(1, 0), stride=(2, 2)),
    Case(ci=1, co=5, size=(9, 10), pad=(1, 1), stride=(2, 2), wide=2),
    Case(groups=2, ci=3, size=(9, 7), pad=(2, 2), stride=(2, 2)),
    Case(groups=7, size=(1, 1), pad=(1, 1), stride=(2, 2)),
]
LONG = [
    Case(groups=5, size=(11, 7), kernel=(5, 5), pad=(2, 2), wide=2),
    Case(n=2, groups=3, size=(12, 13), kernel=(5, 5), pad=(2, 2), stride=(2, 2)),
    Case(groups=7, size=(13, 11), kernel=(7, 7), pad=(3, 3)),
    Case(groups=3, co=2, size=(9, 12), kernel=(7, 7), pad=(3, 3), stride=(2, 2)),
    Case(groups=2, ci=2, size=(10, 9), kernel=(7, 7), pad=(3, 1)),
    Case(groups=3, size=(6, 17), kernel=(4, 5), pad=(-1, 4), more=(1, 0), sparse_w=2),
    Case(groups=3, size=(12, 9), kernel=(5, 7), pad=(3, -1), stride=(2, 2), more=(1, 1)),
    Case(n=2, groups=3, size=(3, 5), kernel=(5, 5), pad=(6, 4)),  # windows of which no row is in the image
    Case(groups=3, size=(3, 9), kernel=(7, 7), pad=(9, 2), stride=(2, 2)),
    Case(groups=4, size=(9, 10), kernel=(2, 1), pad=(1, 0), stride=(2, 2)),
    Case(groups=3, size=(7, 8), kernel=(3, 4), pad=(0, 1), stride=(2, 2), sparse_w=3, wide=1),
    Case(groups=5, size=(1, 1), kernel=(5, 5), pad=(2, 2)),
    Case(n=2, groups=3, size=(13, 11), kernel=(3, 5), pad=(0, 2), stride=(3, 3), wide=1),  # any kernel
    Case(groups=5, size=(11, 13), pad=(1, 2), stride=(3, 1), sparse_w=2),
    Case(groups=3, size=(9, 17), kernel=(3, 3), pad=(2, 2), dil=(2, 3)),
    Case(groups=2, size=(7, 29), kernel=(1, 31), pad=(0, 1)),
    Case(groups=2, size=(17, 13), kernel=(11, 7), pad=(2, 1), stride=(1, 2)),  # more than a block of taps
    Case(groups=2, ci=3, size=(7, 11), kernel=(2, 3), pad=(1, 0), sparse_w=1),
    Case(groups=2, co=3, size=(5, 7), kernel=(3, 2), pad=(2, 1), stride=(2, 3)),
    Case(groups=2, size=(37, 41), kernel=(5, 5), pad=(2, 2)),  # planes that are not copied whole
]
WIDENED = [(c, d) for c in LONG for d in DIRECTIONS if widens(operands(c, d, True, "plain", DType.F16)[0])]
TWOS = [(c, d) for c in CASES for d in DIRECTIONS if pays(operands(c, d, True, "plain", DType.F16)[0])]


def by_twos(case: Case, direction: str, exact: bool, mode: str) -> tuple[Conv, list[Tensor], Tensor]:
    kind, reads, write = operands(case, direction, exact, mode, DType.F16)
    return replace(kind, twos=True), reads, write


@pytest.mark.parametrize(("case", "direction"), TWOS, ids=str)
def test_depthwise(lib: ctypes.CDLL, case: Case, direction: str) -> None:
    modes = ("accumulate", "plain") if direction == "bw_w" else ("bias", "plain")
    for exact, mode in ((True, modes[0]), (False, modes[0]), (False, modes[1])):
        kind, reads, write = by_twos(case, direction, exact, mode)
        expected, size = expectation(kind, case, exact)
        terms = case.n * np.prod(case.out) if direction == "bw_w" else 9
        bound = np.zeros(expected.shape) if exact else (EPS * (terms + 2) * size).numpy()
        (row,) = fitting(kind, reads, write, 1)
        wanted = run(lib, row, kind, reads, write, 1, f"reference_conv2d_{direction}_twos")
        np.testing.assert_array_less(np.abs(wanted - expected.numpy()), bound + 1e-300)
        for cores, team in ((1, 0), (2, 0), (3, 0), (8, 0), (8, 3), (5, 7)):
            found = run(lib, row, replace(kind, team=team), reads, write, cores)
            np.testing.assert_array_equal(found.view(np.int32), wanted.view(np.int32), err_msg=f"{cores} {team}")


@pytest.mark.parametrize(("case", "direction"), [t for t in TWOS if t[1] != "bw_w"], ids=str)
def test_results_and_weights_are_rounded(lib: ctypes.CDLL, case: Case, direction: str) -> None:
    kind, reads, write = by_twos(case, direction, False, "bias")
    (row,) = fitting(kind, reads, write, 1)
    wanted = run(lib, row, kind, reads, write, 1).astype(np.float16)
    floats = operands(case, direction, False, "bias")[1]
    rounding = replace(kind, result=DType.F16, rounds=True)
    for cores in (1, 3, 8):
        found = run(lib, row, rounding, [reads[0], floats[1], *reads[2:]], write.stored_as(DType.F16), cores)
        np.testing.assert_array_equal(found.view(np.int16), wanted.view(np.int16))


@pytest.mark.parametrize(("case", "direction"), [t for t in WIDENED if t[1] == "bw_w"], ids=str)
def test_gradients_of_weights_made_of_floats(lib: ctypes.CDLL, case: Case, direction: str) -> None:
    for mode in ("plain", "accumulate"):
        kind, given, write = operands(case, direction, False, mode)
        halves = [pitched(t.stored_as(DType.F16).view, 0, 0, 0, 3) for t in given]  # rows apart
        reads = [replace(t, values=h.view.astype(np.float32)) for t, h in zip(given, halves, strict=True)]
        (row, *_) = fitting(kind, reads, write, 1)
        wanted = run(lib, row, kind, reads, write, 1)
        widening = replace(kind, storage=DType.F16, widens=True)
        for cores, team in ((1, 0), (2, 0), (3, 0), (8, 0), (8, 3), (5, 7)):
            lean = replace(widening, team=team)
            for row in fitting(lean, halves, write, cores):
                found = run(lib, row, lean, halves, write, cores)
                np.testing.assert_array_equal(found.view(np.int32), wanted.view(np.int32), err_msg=row.symbol)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(("case", "direction"), [t for t in WIDENED if t[1] != "bw_w"], ids=str)
def test_made_of_floats(lib: ctypes.CDLL, case: Case, direction: str, large: bool) -> None:
    """Large ones: sums beyond the range of halves, and among what is read infinities."""
    kind, given, write = operands(case, direction, False, "bias")
    if large:
        given[0] = replace(given[0], values=given[0].values * np.float32(6e4))
    halves = [t.stored_as(DType.F16) for t in given[:2]]
    reads = [replace(t, values=h.view.astype(np.float32)) for t, h in zip(given, halves, strict=False)]
    (row, *_) = fitting(kind, reads, write, 1)
    with np.errstate(over="ignore"):
        wanted = run(lib, row, kind, [*reads, *given[2:]], write, 1).astype(np.float16)
    assert np.isfinite(wanted).all() != large
    storing, half = replace(kind, storage=DType.F16, result=DType.F16, widens=True), write.stored_as(DType.F16)
    rounding = replace(storing, rounds=True)
    for cores, team in ((1, 0), (2, 0), (3, 0), (8, 0), (8, 3), (5, 7)):
        for lean, weights in ((replace(storing, team=team), halves[1]), (replace(rounding, team=team), given[1])):
            for row in fitting(lean, [halves[0], weights, *given[2:]], half, cores):
                found = run(lib, row, lean, [halves[0], weights, *given[2:]], half, cores)
                np.testing.assert_array_equal(found.view(np.int16), wanted.view(np.int16), err_msg=row.symbol)


def test_every_row_is_tested() -> None:
    rows = {r.symbol for c, d in TWOS for r in fitting(*by_twos(c, d, True, "plain"), 1)}
    for c, d in WIDENED:
        kind, reads, write = operands(c, d, True, "plain", DType.F16)
        rows |= {r.symbol for n in (1, 8) for r in fitting(replace(kind, widens=True), reads, write, n)}
    assert rows == {r.symbol for r in DEPTHWISE_F16}
    assert any(at_a_time(k) < k.shape.ho for k, *_ in (by_twos(c, d, True, "plain") for c, d in TWOS))
