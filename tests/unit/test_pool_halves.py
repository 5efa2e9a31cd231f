"""Maxima of halves and their gradients: what floats of the same values have, rounded once."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.unit.pool_cases import MAX, TESTED, Memory, aten, carry_out, drawn, lowered, sample, three_columns
from trainlib_deployer.kernels.pool import POOL
from trainlib_deployer.ops import pool
from trainlib_deployer.program.ir import DType


@pytest.mark.parametrize("windows", ["regular", "three columns", "adaptive"])
@pytest.mark.parametrize("seed", range(24))
def test_maxima_of_halves(lib: ctypes.CDLL, seed: int, windows: str) -> None:
    """What floats of these values have, and a gradient that is rounded once. Sums of several would be rounded as often
    as windows lie over an element."""
    x, arguments = three_columns(seed) if windows == "three columns" else drawn(seed)
    (target, back), adaptive = MAX, windows == "adaptive"
    if adaptive:
        x = sample(2, 3, 5 + seed % 7, 4 + seed % 11, window=seed)
        target, back, arguments = aten.adaptive_max_pool2d.default, aten.adaptive_max_pool2d_backward.default, [[3, 4]]
    x.view(-1)[seed % x.numel()] = float("nan") if seed % 7 == 0 else float("inf")
    b, vx, vy, vg, vgx = lowered(target, back, x, arguments, [] if adaptive else arguments, seed % 5 == 0)
    floats, given = Memory(b.program), {vx: x.half().numpy(), vg: torch.randn(vy.shape).half().numpy()}
    for view, values in given.items():
        floats.write(view, values)
    for op in b.program.ops:
        carry_out(lib, op, floats, 1)
    smaller = {n: replace(t, dtype=DType.F16) if t.dtype is DType.F32 else t for n, t in b.program.tensors.items()}
    for cores in (1, 3, 8):
        halves = Memory(replace(b.program, tensors=smaller))
        for view, values in given.items():
            halves.write(view, values)
        for op in b.program.ops:
            assert isinstance(op.kind, pool.MaxPool)
            carry_out(lib, replace(op, kind=replace(op.kind, storage=DType.F16)), halves, cores, floats)
        assert np.array_equal(halves.read(vgx), floats.read(vgx).astype(np.float16), equal_nan=True)


def test_every_row_of_halves_is_tested(lib: ctypes.CDLL) -> None:
    TESTED.clear()
    wanted = {r.symbol for r in POOL if r.storage is DType.F16}
    for seed in range(24):
        for windows in ("regular", "three columns", "adaptive"):
            if not wanted <= TESTED:
                test_maxima_of_halves(lib, seed, windows)
    assert wanted <= TESTED
