"""Matrix products.

c[b, m, n] = init + sum_k a[b, m, k] * b[b, k, n]; transposed or sliced operands are read where they lie.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch

from trainlib_deployer.formats import DType
from trainlib_deployer.kernels import table
from trainlib_deployer.kernels.panels import BLOCK
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.registry import covers
from trainlib_deployer.program.cuts import MOST_TILES, Cuttable, Range, even_ranges, ranges, sizes, there_and_back
from trainlib_deployer.program.ir import Frugal, Leading, Part, Priced, View

aten = torch.ops.aten


class Cut(NamedTuple):
    """One tile of a product."""

    samples: Range
    rows: Range
    columns: Range
    terms: Range


@dataclass(frozen=True)
class MatMul(Cuttable[Cut], Leading, Frugal, Priced):
    """Reads a [batch, m, k], b [batch, k, n] and perhaps init [batch, m, n]; writes c [batch, m, n]. As an update it
    writes init - rate * sum over init itself: it reads the rate, too, and a build that records keeps the sums."""

    batch: int
    m: int
    n: int
    k: int
    init: bool = False
    accumulate: bool = False  # add to what is there already
    update: bool = False
    team: int = 0  # cores that work, with scratch for each; 0: all
    storage: DType = DType.F32  # of a and b
    result: DType = DType.F32  # of c
    rounds: tuple[bool, bool] = (False, False)  # a, b lie as floats, which are rounded as they are packed
    widens: bool = False  # of a vector: halves are widened instead, and floats multiplied
    layouts: tuple[str, str] | None = field(default=None, repr=False)  # of a and b, where every tile keeps them

    name = "matmul"

    def macs(self) -> int:
        return self.batch * self.m * self.n * self.k

    def scratch(self, cores: int) -> int:
        return table.scratch(self, cores)

    @property
    def strided(self) -> bool:
        return True

    @property
    def in_place(self) -> bool:
        return self.update

    def replaceable(self, reads: tuple[View, ...]) -> tuple[View, ...]:
        """What it begins with, as it may add to what is there already."""
        multiplied = {v.tensor for v in reads[:2]}
        return tuple(v for v in reads[2:] if v.tensor not in multiplied)

    def leaner(self, cores: int) -> Iterator[MatMul]:
        return (replace(self, team=t) for t in range(cores - 1, 0, -1))

    def cycles(self, cores: int, costs: Costs) -> float:
        return table.cycles(self, cores, costs)

    def cuts(self) -> Iterator[list[Cut]]:
        """Whole products; or rows, then columns of one, pass by; long sums in pieces of whole blocks, unless only
        complete ones can be stored or used."""
        for some in sizes(self.batch)[1:]:
            if -(-self.batch // some) <= MOST_TILES:
                whole = (0, self.m), (0, self.n), (0, self.k)
                yield [Cut(s, *whole) for s in ranges(self.batch, some)]
        for k in sizes(self.k, BLOCK) if self.result is DType.F32 and not self.update else [self.k]:
            for m in sizes(self.m, 4):
                for n in sizes(self.n, 4):
                    terms = even_ranges(self.k, k, BLOCK)
                    if -(-self.k // k) * -(-self.m // m) * -(-self.n // n) > MOST_TILES:
                        continue
                    samples = ranges(self.batch, 1 if m < self.m or n < self.n or k < self.k else self.batch)
                    rows, columns = ranges(self.m, m), ranges(self.n, n)
                    by_rows = there_and_back([(s, r) for s in samples for r in rows], columns)
                    yield [Cut(s, r, c, t) for (s, r), c in by_rows for t in terms]
                    if len(rows) > 1 and len(columns) > 1:
                        by_columns = there_and_back([(s, c) for s in samples for c in columns], rows)
                        yield [Cut(s, r, c, t) for (s, c), r in by_columns for t in terms]

    def part(self, cut: Cut, reads: tuple[View, ...], writes: tuple[View, ...]) -> Part:
        a, b, *more = reads
        s, r, c, t = cut.samples, cut.rows, cut.columns, cut.terms

        def results(view: View) -> View:
            return view.sliced(0, *s).sliced(1, *r).sliced(2, *c)

        kind = replace(
            self,
            batch=s[1] - s[0],
            m=r[1] - r[0],
            n=c[1] - c[0],
            k=t[1] - t[0],
            accumulate=t[0] > 0 or self.accumulate,
        )
        windows = (a.sliced(0, *s).sliced(1, *r).sliced(2, *t), b.sliced(0, *s).sliced(1, *t).sliced(2, *c))
        init, rate = more[: self.init], more[self.init :]
        return Part(kind, (*windows, *map(results, init), *rate), tuple(map(results, writes)))


def product(b: Builder, left: View, right: View, init: View | None = None, suffix: str = "") -> View:
    """left [..., m, k] x right [..., k, n]; all leading dimensions already folded into one."""
    if len(left.shape) == 2:
        left, right = b.reshape(left, (1, *left.shape)), b.reshape(right, (1, *right.shape))
        out = product(b, left, right, init, suffix)
        return b.reshape(out, out.shape[1:])
    batch, m, k = left.shape
    n = right.shape[2]
    if b.dtype(left) is not DType.F32:
        return integer_product(b, left, right, init, suffix)
    if k == 0:  # a sum of no terms
        zero = b.fill((batch, m, n), 0.0, b.dtype(left))
        return zero if init is None else b.map(lambda z, i: z + i, zero, init.expanded((batch, m, n)))
    out = b.tensor((batch, m, n), suffix=suffix)
    reads = [left, right] + ([init.expanded((batch, m, n))] if init is not None else [])
    b.op(MatMul(batch, m, n, k, init is not None), reads, [out], suffix)
    return out


def integer_product(b: Builder, left: View, right: View, init: View | None, suffix: str) -> View:
    """Of integers: a loop, as the kernels multiply floats."""
    batch, m, k = left.shape
    n = right.shape[2]
    rows = b.reshape(left, (batch, m, 1, k)).expanded((batch, m, n, k))
    columns = b.reshape(right.permuted((0, 2, 1)), (batch, 1, n, k)).expanded((batch, m, n, k))
    out = b.reduce("sum", (3,), rows, columns, body=lambda x, y: x * y, suffix=suffix)
    return out if init is None else b.map(lambda o, i: o + i, out, init, suffix="sum")


@covers(aten.mm.default)
def mm(b: Builder, left: View, right: View) -> View:
    return product(b, left, right)


@covers(aten.bmm.default)
def bmm(b: Builder, left: View, right: View) -> View:
    return product(b, left, right)


@covers(aten.addmm.default, aten.baddbmm.default)
def addmm(b: Builder, init: View, left: View, right: View, beta: float = 1, alpha: float = 1, **_: Any) -> View:
    if alpha == 1 and beta == 1:
        return product(b, left, right, init)
    scaled = product(b, left, right)
    if b.dtype(scaled) is DType.F32:
        alpha, beta = float(alpha), float(beta)
    return b.map(lambda p, i: p * alpha + i * beta, scaled, init)


@covers(aten.mv.default)
def mv(b: Builder, matrix: View, vector: View) -> View:
    out = product(b, matrix, b.reshape(vector, (*vector.shape, 1)))
    return b.reshape(out, matrix.shape[:1])


@covers(aten.dot.default)
def dot(b: Builder, x: View, y: View) -> View:
    return b.reduce("sum", (), x, y, body=lambda x, y: x * y)


@covers(aten.linear.default)
def linear(b: Builder, x: View, weight: View, bias: View | None = None) -> View:
    rows = b.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))
    out = product(b, rows, weight.permuted((1, 0)), bias)
    return b.reshape(out, (*x.shape[:-1], weight.shape[0]))
