"""A program's own judgement: the same sums as golden's, the same verdict."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden.sketch import SUMS, UNCHECKED, Sketch, sketch
from trainlib_deployer.emit.initial import SKETCH

C_LIB = Path(__file__).parents[2] / "c_lib"
FLAGS = [f"-I{C_LIB / 'include'}", "-Wall", "-Wextra", "-Werror", "-O2"]
CHECK = C_LIB / "kernels" / "check.c"
TOLERANCE = 1e-5

pytestmark = pytest.mark.compiler


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    made = tmp_path_factory.mktemp("check") / "check.so"
    subprocess.run(["gcc", *FLAGS, "-shared", "-fPIC", "-fsanitize=undefined", str(CHECK), "-o", str(made)], check=True)
    return ctypes.CDLL(str(made))


def agrees(library: ctypes.CDLL, values: np.ndarray[Any, Any], reference: Sketch, dtype: Any = np.float32) -> bool:
    struct = np.zeros(1, SKETCH)
    struct[0] = (reference.sums, reference.limit, reference.exponent)
    data = np.ascontiguousarray(values, dtype)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (data, struct)]
    sizes = [ctypes.c_size_t(n) for n in (data.nbytes, data.itemsize)]
    return bool(library.tl_agrees(pointers[0], *sizes, pointers[1]))


def test_halves_are_judged_as_the_floats_that_they_are(library: ctypes.CDLL) -> None:
    """Of all sizes, subnormal ones among them; a bit more is too much, and so is an infinity."""
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16)
    for values in (halves, halves[:1024], halves[-1024:], -halves[::7]):
        exact = values.astype(np.float64)
        reference = sketch(exact, TOLERANCE, float(np.linalg.norm(exact)))
        assert agrees(library, values, reference, np.float16)
        for factor, verdict in ((1 + TOLERANCE / 4, True), (1 + 100 * TOLERANCE, False)):
            near = sketch(exact * factor, TOLERANCE, float(np.linalg.norm(exact)))
            assert agrees(library, values, near, np.float16) is agrees(library, exact, near) is verdict
        infinite = np.append(values, np.float16(np.inf))
        assert not agrees(library, infinite, reference, np.float16)


def judged(values: np.ndarray[Any, Any], reference: Sketch) -> float:
    """Of the squared distance, how much of the limit it is: in Python."""
    exact = np.float32(values).astype(np.float64)
    own = sketch(exact, TOLERANCE, float(np.linalg.norm(exact)))
    assert own.exponent == reference.exponent
    return sum((a - b) ** 2 for a, b in zip(own.sums, reference.sums, strict=True)) / reference.limit


@pytest.mark.parametrize("scale", (1e-20, 3e-7, 1.0, 777.0, 1e25))
@pytest.mark.parametrize("count", (1, 2, 131, 10007))
def test_the_verdict_is_that_of_the_sums(scale: float, count: int, library: ctypes.CDLL) -> None:
    rng = np.random.default_rng(count)
    exact = np.float32(rng.standard_normal(count) * scale).astype(np.float64)
    exact[0] = 1.9 * abs(exact).max()  # its place among the powers of two stays
    norm = float(np.linalg.norm(exact))
    reference = sketch(exact, TOLERANCE, norm)
    verdicts = set()
    for error in (0, 0.3, 0.9, 1.1, 3, 4.5, 9, 30, 1e6):
        off = rng.standard_normal(count)
        off[0] = -abs(off[0])
        values = np.float32(exact + error * TOLERANCE * norm * off / np.linalg.norm(off)) if error < 1e6 else exact * 0
        part = judged(values, reference) if error < 1e6 else 2.0
        if not 0.999 < part < 1.001:
            assert agrees(library, values, reference) == (part <= 1), (error, part)
            verdicts.add(part <= 1)
    assert verdicts == {True, False}


@pytest.mark.parametrize("wrong", (np.nan, np.inf, -np.inf, 3e38, -1e20))
def test_what_is_no_number_or_far_off_never_agrees(wrong: float, library: ctypes.CDLL) -> None:
    values = np.random.default_rng(5).standard_normal(17)
    reference = sketch(values, TOLERANCE, float(np.linalg.norm(values)))
    assert agrees(library, values, reference)
    values[11] = wrong
    assert not agrees(library, values, reference)
    assert agrees(library, values, UNCHECKED)


def test_large_sums_do_not_overflow(library: ctypes.CDLL) -> None:
    reference = Sketch((-(2**62),) * SUMS, 0, 1e30)
    assert not agrees(library, np.full(1000, 2.0**30), reference)
    assert agrees(library, np.zeros(3), Sketch((0,) * SUMS, 0, 0.1))
