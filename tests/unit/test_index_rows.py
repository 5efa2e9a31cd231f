"""Every row of what selects: bit by bit the reference, for every number of cores, however the operands lie."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
import pytest

from tests.unit.kernel_harness import ALL_CORES, Array, Tensor, fitting, pitched, run_all, transposed
from trainlib_deployer.kernels.index import INDEX
from trainlib_deployer.kernels.table import BY_OPERATION
from trainlib_deployer.ops.index import Put, Take
from trainlib_deployer.ops.order import Lines
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


def lines(kind: type[Lines]) -> Callable[[Draw], Case]:
    """Of every kind that does something with lines, without a word about it here: either way, and so many results."""

    def case(d: Draw) -> Case:
        shape = d.shape()
        drawn = {"count": d.rng.randint(1, shape[1])}
        own = [drawn.get(f.name, d.rng.random() < 0.5) for f in fields(kind)[len(shape) :]]
        made = kind(*shape, *own)
        writes = [d.wide(d.values(*made.result)), d.wide(d.places(9, *made.result))]
        return Case(made, [d.wide(d.values(*shape))], writes[: 1 + made.places])

    return case


FAMILIES: dict[str, Callable[[Draw], Case]] = {
    "take": take,
    "put": put,
    **{kind.name: lines(kind) for kind in Lines.__subclasses__()},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_rows(lib: ctypes.CDLL, family: str) -> None:
    """A kernel that goes element by element and is alone may be its own reference; one core's bits are all cores'."""
    reference = f"reference_{family}" if hasattr(lib, f"reference_{family}") else ""
    assert reference or len(BY_OPERATION[family]) == 1, "which of them is right?"
    for seed in SEEDS:
        case = FAMILIES[family](Draw.of(seed))
        rows = fitting(case.kind, case.reads, case.writes[0], 1, *case.writes[1:])
        wanted = run_all(lib, rows[0], case.kind, case.reads, case.writes, 1, reference)
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
