"""Sums of generated loops: no term is lost at the edges of blocks; long sums are as exact as those of PyTorch."""

from __future__ import annotations

import ctypes
import subprocess
from math import prod
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from trainlib_deployer.emit.loops import body_text
from trainlib_deployer.program.expr import Const, Instr, Reduction
from trainlib_deployer.program.ir import DType, Shape, View
from trainlib_deployer.program.loop import Loop

C_LIB = Path(__file__).parents[2] / "c_lib"
ROWS = 3
SHAPES: list[Shape] = [(1,), (3,), (4,), (7,), (31,), (32,), (33,), (36,), (47,), (64,), (67,), (131,), (1024,)]
SHAPES += [(3, 5), (5, 3), (2, 16), (2, 17), (2, 36), (11, 13), (3, 100), (2, 3, 5), (5, 7, 3), (2, 2, 37)]
EMPTY: list[Shape] = [(0,), (3, 0), (0, 3)]
TWO = Const(2.0)
BODIES = {  # four at a time: as trees, products by a multiply-add each; one by one
    "short": Instr("copy", (0,), DType.F32),
    "product": Instr("mul", (0, TWO), DType.F32),
    "long": Instr("floor", (0,), DType.F32),
}
FACTOR = {"short": 1, "product": 2, "long": 1}

pytestmark = pytest.mark.compiler


def loop(folded: Shape, op: str, turned: bool) -> str:
    """Sum and largest of each of three rows; `turned` are the reduced dimensions in memory the other way round."""
    extents = (ROWS, *folded)
    strides = [1] * len(folded)
    for d in range(1, len(folded)):
        before, here = (d - 1, d) if turned else (-d, -d - 1)
        strides[here] = strides[before] * folded[before]
    kind = Loop(
        extents,
        len(folded),
        (DType.F32,),
        (BODIES[op],),
        (Reduction("sum", 1, DType.F32), Reduction("max", 0, DType.F32)),
        (),
        (2, 3),
        (DType.F32, DType.F32),
    )
    written = View("y", (ROWS,), (1,), 0)
    return body_text(kind, (View("x", extents, (prod(folded), *strides), 0),), (written, written))


def name(folded: Shape, op: str, turned: bool) -> str:
    return f"fold_{op}_{'turned' if turned else 'plain'}_{'_'.join(map(str, folded))}"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    cases = [(folded, op, turned) for folded in SHAPES + EMPTY for op in BODIES for turned in (False, True)]
    texts = [loop(*case).replace("@NAME@", name(*case)) for case in cases]
    folder = tmp_path_factory.mktemp("folds")
    source, binary = folder / "folds.c", folder / "folds.so"
    source.write_text("\n\n".join(['#include "tl_hal.h"\n#include "tl_loop.h"', *texts]))
    flags = "-std=gnu99 -O1 -ffp-contract=off -fno-math-errno -Wall -Wextra -Werror -shared -fPIC -pthread".split()
    files = [str(source), str(C_LIB / "hal/host.c")]
    folders = [f"-I{C_LIB / part}" for part in ("include", "ukernels")]
    subprocess.run(["gcc", *flags, *folders, *files, "-lm", "-o", str(binary)], check=True)
    return ctypes.CDLL(str(binary))


def run(library: ctypes.CDLL, function: str, x: npt.NDArray[np.float32]) -> list[npt.NDArray[np.float32]]:
    out = [np.full(ROWS, np.nan, np.float32) for _ in range(2)]
    getattr(library, function)(*(ctypes.c_void_p(a.ctypes.data) for a in (*out, x)))
    return out


@pytest.mark.parametrize("op", BODIES)
@pytest.mark.parametrize("turned", [False, True])
def test_every_term_counts_once(op: str, turned: bool, library: ctypes.CDLL) -> None:
    """Integers below 2^24 in all: any order is exact."""
    rng = np.random.default_rng(3)
    for folded in SHAPES:
        x = rng.integers(0, 1000, (ROWS, prod(folded))).astype(np.float32)
        total, largest = run(library, name(folded, op, turned), x)
        assert total.tolist() == (FACTOR[op] * x.sum(1, dtype=np.float64)).tolist(), (folded, op)
        assert largest.tolist() == x.max(1).tolist(), (folded, op)


@pytest.mark.parametrize("op", ["short", "product"])
def test_sums_are_as_exact_as_those_of_pytorch(op: str, library: ctypes.CDLL) -> None:
    rng = np.random.default_rng(4)
    for folded in [(36,), (47,), (64,), (131,), (1024,), (11, 13)]:
        ours, theirs = [], []
        for _ in range(400):
            x = rng.random((ROWS, prod(folded))).astype(np.float32)
            true = FACTOR[op] * x.sum(1, dtype=np.float64)
            ours.append((run(library, name(folded, op, False), x)[0] - true) / true)
            theirs.append((torch.from_numpy(FACTOR[op] * x).sum(1).numpy() - true) / true)
        assert np.std(ours) <= np.std(theirs), folded


@pytest.mark.parametrize("folded", EMPTY)
@pytest.mark.parametrize("op", BODIES)
def test_nothing_adds_up_to_zero(folded: Shape, op: str, library: ctypes.CDLL) -> None:
    total, largest = run(library, name(folded, op, False), np.ones((ROWS, 1), np.float32))
    assert total.tolist() == [0.0] * ROWS and largest.tolist() == [-np.inf] * ROWS


def test_infinities_stay(library: ctypes.CDLL) -> None:
    x = np.ones((ROWS, 131), np.float32)
    x[0, 5], x[1, 100], x[2, 3], x[2, 120] = np.inf, -np.inf, np.inf, -np.inf
    total, _ = run(library, name((131,), "short", False), x)
    assert total[0] == np.inf and total[1] == -np.inf and np.isnan(total[2])
