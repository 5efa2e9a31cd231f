"""Every row of the recurrent scans: bit by bit the reference, for every number of cores, in both directions of time."""

from __future__ import annotations

import ctypes
import random
from itertools import product

import numpy as np
import pytest

from tests.unit.kernel_harness import ALL_CORES, Tensor, fitting, pitched, run_all, transposed
from tests.unit.kernel_harness import random as drawn
from trainlib_deployer.capture.recurrent import GATES
from trainlib_deployer.kernels.recurrent import RECURRENT
from trainlib_deployer.ops.recurrent import Scan

CELLS = ("rnn_tanh", "rnn_relu", "lstm", "gru")
LAYERS = ((5, 1, 3), (3, 2, 71), (1, 3, 8), (4, 2, 13))  # steps, samples, units


def dense(seed: int, *shape: int) -> Tensor:
    return pitched(drawn(shape, seed, False), *(0 for _ in shape))


def scan(direction: str, cell: str, layer: tuple[int, int, int], seed: int) -> tuple[Scan, list[Tensor], list[Tensor]]:
    (steps, batch, hidden), gates, rng = layer, GATES[cell], random.Random(seed)
    wide, gated = (steps + 1, batch, hidden), (steps, batch, gates * hidden)
    optional = {name for name in ("bias", "saved", "y", "h0", "c0", "carry") if rng.random() < 0.6}
    state = {"hs": dense(seed, *wide)} | ({"cs": dense(seed + 1, *wide)} if cell == "lstm" else {})
    kept = {"saved": dense(seed + 2, steps, batch, 4 * hidden)} if gates > 1 else {}
    begun = {"h0": dense(seed + 3, batch, hidden)} | ({"c0": dense(seed + 4, batch, hidden)} if cell == "lstm" else {})
    w = {"w": dense(seed + 5, gates * hidden, hidden)}
    if direction == "fw":
        reads = {"gates": dense(seed + 6, *gated), **begun, **w}
        reads |= {"bias": dense(seed + 7, 3 * hidden)} if cell == "gru" and "bias" in optional else {}
        carry = {"carry": dense(seed + 8, 2, batch, hidden)} if cell == "lstm" and "carry" in optional else {}
        writes = {**state, **(kept if "saved" in optional else {}), **carry}
    else:
        y = transposed(drawn((steps, batch, hidden), seed, False), (1, 0, 2), 1)
        reads = ({"y": y} if "y" in optional else {}) | {n: t for n, t in begun.items() if n in optional}
        reads |= {**w, **state, **kept}
        writes = {"dgates": dense(0, *gated)} | ({"dhidden": dense(0, *gated)} if cell == "gru" else {})
        writes |= {"dh": dense(0, batch, hidden)} | ({"dc": dense(0, batch, hidden)} if cell == "lstm" else {})
    kind = Scan(direction, cell, *layer, rng.random() < 0.5, tuple(reads), tuple(writes), initial=rng.random() < 0.5)
    return kind, list(reads.values()), list(writes.values())


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("direction", ["fw", "bw"])
def test_scan(lib: ctypes.CDLL, direction: str, cell: str) -> None:
    for layer, seed in product(LAYERS, range(4)):
        kind, reads, writes = scan(direction, cell, layer, seed)
        rows = fitting(kind, reads, writes[0], 1, *writes[1:])
        wanted = run_all(lib, rows[0], kind, reads, writes, 1, f"reference_{kind.name}")
        for row, cores in product(rows, ALL_CORES):
            found = run_all(lib, row, kind, reads, writes, cores)
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=f"{kind} by {cores} cores")


def test_every_row_is_tested() -> None:
    kinds = {scan(d, cell, LAYERS[0], 0)[0].name for d in ("fw", "bw") for cell in CELLS}
    assert {r.symbol for r in RECURRENT if r.operation in kinds} == {r.symbol for r in RECURRENT}
