"""Every row of the recurrent scans: bit by bit the reference, for every number of cores, in both directions of time."""

from __future__ import annotations

import ctypes
import random
from itertools import count, product

import numpy as np
import pytest

from tests.unit.kernel_harness import (
    ALL_CORES,
    Array,
    Tensor,
    as_bfloats,
    execute,
    fitting,
    pitched,
    run_all,
    transposed,
)
from tests.unit.kernel_harness import random as drawn
from trainlib_deployer.capture.recurrent import GATES
from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.recurrent import RECURRENT
from trainlib_deployer.ops.recurrent import EITHER, MOMENTS, Scan, Scans
from trainlib_deployer.passes.join_scans import size
from trainlib_deployer.program.call import Operand
from trainlib_deployer.program.ir import View

CELLS = ("rnn_tanh", "rnn_relu", "lstm", "gru")
LAYERS = ((5, 1, 3), (3, 2, 71), (1, 3, 8), (4, 2, 13), (3, 1, 66), (2, 3, 37))  # steps, samples, units


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
        carry = {"carry": dense(seed + 8, 2, batch, hidden)} if "carry" in optional else {}
        writes = {**state, **(kept if "saved" in optional else {}), **carry}
    else:
        y = transposed(drawn((steps, batch, hidden), seed, False), (1, 0, 2), 1)
        reads = ({"y": y} if "y" in optional else {}) | {n: t for n, t in begun.items() if n in optional}
        reads |= {**w, **state, **kept}
        writes = {"dgates": dense(0, *gated)} | ({"dhidden": dense(0, *gated)} if cell == "gru" else {})
        writes |= {"dh": dense(0, batch, hidden)} | ({"dc": dense(0, batch, hidden)} if cell == "lstm" else {})
    kind = Scan(direction, cell, *layer, rng.random() < 0.5, tuple(reads), tuple(writes), initial=rng.random() < 0.5)
    return kind, list(reads.values()), list(writes.values())


def by_blocks(kind: Scan) -> list[Scan]:
    """Where the weights lie, and in each way to bring them."""
    return [kind, *kind.bringing()]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("direction", ["fw", "bw"])
def test_scan(lib: ctypes.CDLL, direction: str, cell: str) -> None:
    for layer, seed in product(LAYERS, range(4)):
        kind, reads, writes = scan(direction, cell, layer, seed)
        first = fitting(kind, reads, writes[0], 1, *writes[1:])[0]
        wanted = run_all(lib, first, kind, reads, writes, 1, f"reference_{kind.name}")
        for one, cores in product(by_blocks(kind), ALL_CORES):
            for row in fitting(one, reads, writes[0], 1, *writes[1:]):
                found = run_all(lib, row, one, reads, writes, cores)
                for mine, other in zip(found, wanted, strict=True):
                    np.testing.assert_array_equal(mine, other, err_msg=f"{one} by {cores} cores")


def rounded(values: Array, half: DType) -> Array:
    """As they lie in memory."""
    return as_bfloats(values) if half is DType.BF16 else values.astype(np.float16)


def widened(values: Array, half: DType) -> Array:
    return (values.astype(np.uint32) << 16).view(np.float32) if half is DType.BF16 else values.astype(np.float32)


def in_halves(kind: Scan, operands: list[Tensor], half: DType, seed: int) -> tuple[Scan, list[Tensor], list[Tensor]]:
    """The kind; what floats have of the same values; halves. Each second case has states or dL/dy as floats."""
    names = (*kind.reads, *kind.writes)
    floats = {name for at, name in enumerate(sorted(EITHER)) if seed >> at & 1}
    small = kind.of_halves(half, (MOMENTS | EITHER) - floats)
    stored = [
        Tensor(rounded(t.values, half), t.strides) if n in small.halves else t
        for n, t in zip(names, operands, strict=True)
    ]
    given = [
        Tensor(widened(t.values, half), t.strides) if n in small.halves else t
        for n, t in zip(names, stored, strict=True)
    ]
    return small, given, stored


def held_in_halves(lib: ctypes.CDLL, half: DType, direction: str, cell: str) -> set[str]:
    """Bit by bit what floats of the same values have, rounded once; in tiles of time as well. The rows that did it."""
    seen = set[str]()
    for layer, seed in product(LAYERS, range(4)):
        kind, reads, writes = scan(direction, cell, layer, seed)
        small, given, stored = in_halves(kind, [*reads, *writes], half, seed)
        count = len(reads)
        wanted = run_all(lib, fitting(kind, given[:count], given[count], 1)[0], kind, given[:count], given[count:], 1)
        kinds = zip(kind.writes, wanted, strict=True)
        wanted = [rounded(values, half) if name in small.halves else values for name, values in kinds]
        for one, cores in product(by_blocks(small), ALL_CORES):
            (row,) = fitting(one, stored[:count], stored[count], 1)
            seen.add(row.symbol)
            found = run_all(lib, row, one, stored[:count], stored[count:], cores)
            for mine, other in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(mine, other, err_msg=f"{one} by {cores} cores")
            if cores == 3 and layer[0] > 1 and ("carry" in kind.writes or direction == "bw") and kind.initial:
                in_tiles(lib, one, stored[:count], stored[count:], wanted, cores)
    return seen


def in_tiles(
    lib: ctypes.CDLL, kind: Scan | Scans, reads: list[Tensor], writes: list[Tensor], wanted: list[Array], cores: int
) -> None:
    """Of two steps, or what is left."""
    out = [t.fresh() for t in writes]
    whole = [View("", t.values.shape, t.strides) for t in (*reads, *out)]
    steps = (kind.scans[0] if isinstance(kind, Scans) else kind).steps
    ways = kind.ways(tuple(whole[: len(reads)]), tuple(whole[len(reads) :]))
    for part in next(parts for parts in ways if 2 * len(parts) >= steps):
        views = (*part.reads, *part.writes)
        starts = [int(t.operand.pointer) for t in (*reads, *out)]
        sizes = [t.values.itemsize for t in (*reads, *out)]
        operands = [Operand(str(p + v.offset * s), v) for p, s, v in zip(starts, sizes, views, strict=True)]
        row = fitting(part.kind, reads, out[0], 1)[0]
        scratch = np.zeros(row.scratch(part.kind, cores) // 4, np.float32)
        place = str(int(scratch.ctypes.data))
        execute(lib, row, row.call(part.kind, operands[: len(reads)], operands[len(reads) :], place), cores)
    for one, other in zip(out, wanted, strict=True):
        np.testing.assert_array_equal(one.view, other, err_msg=f"{kind} in tiles by {cores} cores")


Given = tuple[Scan, list[Tensor], list[Tensor]]


def two(direction: str, cell: str, layer: tuple[int, int, int], seed: int) -> tuple[Given, Given]:
    """Scans that may go at a time."""
    first = scan(direction, cell, layer, seed)
    others = (scan(direction, cell, layer, 100 * seed + s) for s in count(50))
    return first, next(other for other in others if size(other[0]) == size(first[0]))


def at_a_time(first: Given, second: Given) -> tuple[Scans, list[Tensor], list[Tensor]]:
    return Scans((first[0], second[0])), first[1] + second[1], first[2] + second[2]


def alone(lib: ctypes.CDLL, given: Given) -> list[Array]:
    kind, reads, writes = given
    return run_all(lib, fitting(kind, reads, writes[0], 1)[0], kind, reads, writes, 1)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("direction", ["fw", "bw"])
def test_two_scans_at_a_time(lib: ctypes.CDLL, direction: str, cell: str) -> None:
    for layer, seed in product(LAYERS, range(3)):
        pair = two(direction, cell, layer, seed)
        kind, reads, writes = at_a_time(*pair)
        wanted = [values for given in pair for values in alone(lib, given)]
        (row,) = fitting(kind, reads, writes[0], 1)
        for cores in ALL_CORES:
            found = run_all(lib, row, kind, reads, writes, cores)
            for mine, other in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(mine, other, err_msg=f"{kind} by {cores} cores")
            if cores in (1, 3) and layer[0] > 1 and (direction == "bw" or "carry" in pair[0][0].writes):
                in_tiles(lib, kind, reads, writes, wanted, cores)


def both_in_halves(lib: ctypes.CDLL, half: DType, direction: str, cell: str) -> set[str]:
    """Two at a time: bit by bit what each has alone. The rows that did it."""
    seen = set[str]()
    for layer, seed in product(LAYERS, range(4)):
        pair = []
        for at, (kind, reads, writes) in enumerate(two(direction, cell, layer, seed)):
            small, _, stored = in_halves(kind, [*reads, *writes], half, seed + at)
            pair.append((small, stored[: len(reads)], stored[len(reads) :]))
        kind, reads, writes = at_a_time(*pair)
        wanted = [values for given in pair for values in alone(lib, given)]
        (row,) = fitting(kind, reads, writes[0], 1)
        seen.add(row.symbol)
        for cores in ALL_CORES:
            found = run_all(lib, row, kind, reads, writes, cores)
            for mine, other in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(mine, other, err_msg=f"{kind} by {cores} cores")
    return seen


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("direction", ["fw", "bw"])
def test_scan_of_halves(lib: ctypes.CDLL, direction: str, cell: str) -> None:
    assert held_in_halves(lib, DType.F16, direction, cell)
    assert both_in_halves(lib, DType.F16, direction, cell)


def test_halves_are_read_where_all_moments_are() -> None:
    kind = scan("bw", "gru", LAYERS[0], 0)[0]
    assert kind.of_halves(DType.F16, {"saved", "dgates", "hs"}).storage is DType.F32
    assert kind.of_halves(DType.F16, {"saved", "dgates", "dhidden", "w"}).halves == ("saved", "dgates", "dhidden")


def test_every_row_is_tested() -> None:
    kinds = {scan(d, cell, LAYERS[0], 0)[0].name for d in ("fw", "bw") for cell in CELLS}
    assert {r.operation for r in RECURRENT} == {*kinds, *(f"{name}_both" for name in kinds)}
