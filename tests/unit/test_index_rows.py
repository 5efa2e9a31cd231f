"""Every row of what selects: bit by bit the reference, for every number of cores, however the operands lie."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from tests.unit.kernel_harness import ALL_CORES, Array, Tensor, fitting, pitched, run_all, transposed
from trainlib_deployer.kernels.index import INDEX
from trainlib_deployer.ops.index import Put, Take
from trainlib_deployer.ops.order import Extreme, Lines, Order, Running, Scan
from trainlib_deployer.program.ir import Kind

SEEDS = range(12)


@dataclass(frozen=True)
class Case:
    kind: Kind
    reads: list[Tensor]
    writes: list[Tensor]


@dataclass(frozen=True)
class Draw:
    """Shapes and values."""

    rng: random.Random
    numbers: np.random.Generator

    @staticmethod
    def of(seed: int) -> Draw:
        return Draw(random.Random(seed), np.random.default_rng(seed))

    def shape(self) -> tuple[int, int, int]:
        return self.rng.randint(1, 5), self.rng.randint(1, 23), self.rng.choice([1, 1, 2, 7, 13])

    def values(self, *shape: int) -> Array:
        """Few distinct ones, so that there are ties; and some that are no numbers."""
        found = np.round(2 * self.numbers.standard_normal(shape)) / 2
        found[self.numbers.random(shape) < 0.02] = np.nan
        return found.astype(np.float32)

    def places(self, extent: int, *shape: int) -> Array:
        """Also from the end, beyond either end, and one to be ignored."""
        return self.numbers.integers(-extent - 2, extent + 2, shape).astype(np.int32)

    def wide(self, values: Array) -> Tensor:
        """Neighbours along the last dimension lie side by side."""
        return pitched(values, *(self.rng.randint(0, 3) for _ in values.shape[:-1]), 0)

    def loose(self, values: Array) -> Tensor:
        return self.wide(values) if self.rng.random() < 0.6 else transposed(values, (2, 0, 1), 1)

    def index(self, extent: int, outer: int, count: int, inner: int) -> Tensor:
        """One for each element, or one for each row."""
        if self.rng.random() < 0.5:
            return self.loose(self.places(extent, outer, count, inner))
        row = self.wide(self.places(extent, outer, count))
        return Tensor(np.broadcast_to(row.view[:, :, None], (outer, count, inner)).copy(), (*row.strides, 0))


def take(d: Draw) -> Case:
    (outer, extent, inner), count = d.shape(), d.rng.randint(1, 19)
    reads = [d.loose(d.values(outer, extent, inner)), d.index(extent, outer, count, inner)]
    kind = Take(outer, extent, count, inner, d.rng.choice([None, 1, -1]))
    return Case(kind, reads, [d.wide(d.values(outer, count, inner))])


def put(d: Draw) -> Case:
    (outer, extent, inner), count = d.shape(), d.rng.randint(1, 19)
    first = d.rng.choice([0, d.rng.randint(0, extent - 1)])
    rows = (first, d.rng.randint(first + 1, extent))
    kind = Put(outer, extent, count, inner, d.rng.choice([None, 1, -1]), d.rng.random() < 0.5, rows)
    reads = [d.loose(d.values(outer, count, inner)), d.index(extent, outer, count, inner)]
    own = (outer, rows[1] - rows[0], inner)
    reads += [d.wide(d.values(*own))] if d.rng.random() < 0.5 else []
    return Case(kind, reads, [d.wide(d.values(*own))])


def lines(make: Callable[[Draw, tuple[int, int, int]], tuple[Lines, int]]) -> Callable[[Draw], Case]:
    """What gives so many values a line, and in most cases their places."""

    def case(d: Draw) -> Case:
        shape = d.shape()
        kind, count = make(d, shape)
        own = (shape[0], count, shape[2]) if count else (shape[0], shape[2])
        writes = [d.wide(d.values(*own)), d.wide(d.places(9, *own))]
        return Case(kind, [d.wide(d.values(*shape))], writes[: 1 if isinstance(kind, Scan) else 2])

    return case


def order(d: Draw, shape: tuple[int, int, int]) -> tuple[Order, int]:
    count = d.rng.randint(1, shape[1])
    return Order(*shape, count, d.rng.random() < 0.5), count


FAMILIES: dict[str, Callable[[Draw], Case]] = {
    "take": take,
    "put": put,
    "scan": lines(lambda d, shape: (Scan(*shape, d.rng.random() < 0.5), shape[1])),
    "extreme": lines(lambda d, shape: (Extreme(*shape, d.rng.random() < 0.5), 0)),
    "running": lines(lambda d, shape: (Running(*shape, d.rng.random() < 0.5), shape[1])),
    "order": lines(order),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_rows(lib: ctypes.CDLL, family: str) -> None:
    for seed in SEEDS:
        case = FAMILIES[family](Draw.of(seed))
        rows = fitting(case.kind, case.reads, case.writes[0], 1, *case.writes[1:])
        wanted = run_all(lib, rows[0], case.kind, case.reads, case.writes, 1, f"reference_{family}")
        for cores in ALL_CORES:
            for row in rows:
                found = run_all(lib, row, case.kind, case.reads, case.writes, cores)
                for one, other in zip(found, wanted, strict=True):
                    np.testing.assert_array_equal(one.view(np.int32), other.view(np.int32), err_msg=f"{row}, {case}")


def test_every_row_is_tested() -> None:
    seen = set()
    for make in FAMILIES.values():
        for case in (make(Draw.of(seed)) for seed in SEEDS):
            seen |= {r.symbol for r in fitting(case.kind, case.reads, case.writes[0], 1, *case.writes[1:])}
    assert seen == {r.symbol for r in INDEX}
