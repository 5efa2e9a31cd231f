"""The verdict where numbers leave what float32 has: PyTorch's own float32 run, the program's, or both."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from golden import compare, sketch

Array = np.ndarray[Any, Any]
LOSS, WEIGHT = (2, "loss", "loss"), (2, "gradient", "weight")
INF, NAN = np.inf, np.nan
EXACT = np.array([1.0, -2.0, 3.0, 0.5, -0.25, 7.0, 11.0])


def with_values(**places: float) -> Array:
    out = EXACT.astype(np.float32)
    for place, value in places.items():
        out[int(place[1:])] = value
    return out


def verdict(found: Array, *singles: Array, exact: Array = EXACT, may_diverge: bool = True) -> compare.Verdict:
    loss = {LOSS: np.ones(1, np.float32)}
    runs = [{WEIGHT: s, **loss} for s in singles]
    return compare.compare({WEIGHT: found, **loss}, {WEIGHT: exact, **loss}, runs, {}, may_diverge)


@pytest.mark.parametrize("ours", [INF, -INF, NAN, 3.0])
@pytest.mark.parametrize("theirs", [INF, NAN])
def test_where_pytorch_overflows_the_program_may_too(ours: float, theirs: float) -> None:
    got = verdict(with_values(_2=ours), with_values(_2=theirs))
    assert got.passed and "diverges" in got.divergence
    assert "'weight' in step 2" in got.divergence and "tensors compared in part: 1, not at all: 0" in got.divergence
    assert got.as_json()["tensors"][0]["diverged"] == 1
    assert not verdict(with_values(_2=ours), with_values(_2=theirs), may_diverge=False).passed


@pytest.mark.parametrize("ours", [INF, -INF, NAN])
def test_alone_it_may_not(ours: float) -> None:
    assert not verdict(with_values(_2=ours), with_values()).passed
    assert not verdict(with_values(_2=ours, _3=INF), with_values(_3=INF)).passed


def test_one_overflow_in_several_runs_is_enough() -> None:
    """They differ by rounding alone: the program may be the one that overflows."""
    assert verdict(with_values(_2=INF), with_values(), with_values(_2=INF)).passed


def test_what_is_finite_is_held_to_the_tolerance() -> None:
    assert verdict(with_values(_2=NAN), with_values(_2=NAN)).passed
    assert not verdict(with_values(_2=NAN, _0=1.01), with_values(_2=NAN)).passed
    huge = EXACT.copy()
    huge[2] = 1e300  # what float64 still has must not make the others small
    assert not verdict(with_values(_2=NAN, _0=1.01), with_values(_2=INF), exact=huge).passed
    assert verdict(with_values(_2=NAN), with_values(_2=INF), exact=huge).passed


def test_masks_of_minus_infinity_are_compared() -> None:
    masked = with_values(_5=-INF)
    exact = masked.astype(np.float64)
    assert verdict(masked, masked, exact=exact).passed
    assert not verdict(masked, masked, exact=exact).divergence
    for wrong in (INF, NAN, 0.0):
        assert not verdict(with_values(_5=wrong), masked, exact=exact).passed


def test_nothing_left_to_compare_is_no_pass() -> None:
    lost = {LOSS: np.full(1, NAN, np.float32)}
    assert not compare.compare(lost, {LOSS: np.ones(1)}, [lost], {}).passed


@pytest.mark.parametrize("value", [INF, NAN, 1e39, 1e200, -1e300])
def test_a_program_does_not_judge_what_diverges(value: float) -> None:
    """Fault: sums beyond 64 bits, which no compiler takes."""
    exact = EXACT.copy()
    exact[1] = value
    with np.errstate(over="ignore"):
        runs = [{WEIGHT: exact.astype(np.float32)}]
    assert sketch.sketches({WEIGHT: exact}, runs)[WEIGHT] == sketch.UNCHECKED
    assert sketch.sketch(exact, 1e-6, 1.0) == sketch.UNCHECKED
    largest = np.array([np.finfo(np.float32).max, -1.0])
    made = sketch.sketches({WEIGHT: largest}, [{WEIGHT: largest.astype(np.float32)}])[WEIGHT]
    assert made.limit > 0 and all(abs(s) < 2**31 for s in made.sums)


def test_a_large_tensor_is_summed_up_in_parts() -> None:
    """Fault: the signs of ten million elements took more than half a gigabyte."""
    values = np.random.default_rng(3).standard_normal(2 * sketch.AT_ONCE + 77)
    made = sketch.sketch(values, 1e-6, float(np.linalg.norm(values)))
    fixed = np.trunc(values * 2.0**made.exponent).astype(np.int64)
    assert made.sums == tuple((fixed * sketch.signs(0, len(values))).sum(axis=1).tolist())


def test_a_sketch_is_made_by_one_thread() -> None:
    """Fault: products and norms were those of a library that takes all processors, also from the planner beside it, and
    sums up in an order that depends on how many there are."""
    values = np.random.default_rng(3).standard_normal(2 * sketch.AT_ONCE + 77)

    def others() -> float:
        """Seconds of other threads, as a part of this one's."""
        here, all_of_them = time.thread_time(), time.process_time()
        for _ in range(8):
            sketch.sketch(values, 1e-6, compare.norm_where(values, None))
            compare.distance(values, values + 1.0, 1.0)
        here, all_of_them = time.thread_time() - here, time.process_time() - all_of_them
        return all_of_them / here - 1

    assert min(others() for _ in range(20)) < 0.1  # those of tests before this one may still be about


def test_what_pytorch_has_no_numbers_for_is_said_aloud() -> None:
    """Fault: where program and reference were no numbers alike nothing was compared, and nobody heard of it."""
    nowhere = np.full_like(EXACT, NAN)
    got = verdict(nowhere.astype(np.float32), nowhere, exact=nowhere)
    assert got.passed and got.unjudged == (
        "not compared: 1 of 2 tensors, which are infinite or no number in PyTorch, too: "
        "first the gradient 'weight' in step 2"
    )
    assert not got.divergence and got.as_json()["tensors"][0]["skipped"] == len(EXACT)
    holes = np.where(EXACT == 3.0, NAN, EXACT)
    part = verdict(holes.astype(np.float32), holes, exact=holes)
    assert part.passed and part.unjudged.startswith("not compared: parts of 1, which are")
    assert not verdict(with_values(), with_values()).unjudged
    diverged = verdict(with_values(_2=INF), with_values(_2=INF))
    assert diverged.divergence and not diverged.unjudged
