"""Reading and writing at indices that are known only when the step runs: token ids, gather, scatter, x[index] = value.

Tensors are seen as [outer, extent, inner]; an index selects along the middle.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from trainlib_deployer.errors import Unsupported
from trainlib_deployer.ops.build import Builder, broadcast
from trainlib_deployer.ops.registry import covers
from trainlib_deployer.program.cuts import Cuttable, Range, grids, span
from trainlib_deployer.program.expr import Expr, apply, select
from trainlib_deployer.program.expr import Operand as Value
from trainlib_deployer.program.ir import DType, Part, Shape, View
from trainlib_deployer.program.loop import Loop

aten = torch.ops.aten


EXACT = 2**24  # floats hold all whole numbers up to here
Box = tuple[Range, ...]


@dataclass(frozen=True)
class Take(Cuttable[Box]):
    """y[o, m, i] = x[o, index[o, m, i], i], zero where the index is `ignore`: reads x [outer, extent, inner] and
    index [outer, count, inner], writes y [outer, count, inner]."""

    outer: int
    extent: int
    count: int
    inner: int
    ignore: int | None = None

    name = "take"

    def touched(self, operand: int, view: View) -> int:
        return self.outer * self.count * self.inner if operand == 0 else view.numel

    def cuts(self) -> Iterator[list[Box]]:
        """Columns of x stay while the index passes."""
        return grids(self.outer, self.inner, self.count)

    def part(self, cut: Box, reads: tuple[View, ...], writes: tuple[View, ...]) -> Part:
        (x, index), (o, i, m) = reads, cut
        kind = dataclasses.replace(self, outer=span(o), inner=span(i), count=span(m))
        x = x.sliced(0, *o).sliced(2, *i)
        index, y = (v.sliced(0, *o).sliced(1, *m).sliced(2, *i) for v in (index, *writes))
        return Part(kind, (x, index), (y,))


@dataclass(frozen=True)
class Put(Cuttable[Box]):
    """y[o, index[o, m, i], i] += g[o, m, i] on top of init or zeros, in the order of m; with `set` the last one stays.

    Reads g and index [outer, count, inner], perhaps init [outer, rows, inner]; writes y [outer, rows, inner].
    """

    outer: int
    extent: int
    count: int
    inner: int
    ignore: int | None = None
    set: bool = False
    piece: Range | None = None  # of a tile: the rows of y that it has

    name = "put"

    @property
    def rows(self) -> Range:
        return self.piece or (0, self.extent)

    def cuts(self) -> Iterator[list[Box]]:
        """The index stays while the rows pass, each tile taking what is its own."""
        return grids(self.outer, self.inner, self.extent)

    def part(self, cut: Box, reads: tuple[View, ...], writes: tuple[View, ...]) -> Part:
        (g, index, *init), (o, i, rows) = reads, cut
        kind = dataclasses.replace(self, outer=span(o), inner=span(i), piece=rows)
        given = (v.sliced(0, *o).sliced(2, *i) for v in (g, index))
        *init, y = (v.sliced(0, *o).sliced(1, *rows).sliced(2, *i) for v in (*init, *writes))
        return Part(kind, (*given, *init), (y,))


def whole_numbers(b: Builder, index: View) -> View:
    """An index as int32; booleans select by value and would make shapes depend on data."""
    if b.dtype(index) is DType.U8:
        raise Unsupported(
            "a boolean or byte tensor is used as an index",
            source=b.where.source,
            remedy="use torch.where or a product; x[mask] = value works for one value",
        )
    return index if b.dtype(index) is DType.I32 else b.map(lambda v: v, index, dtype=DType.I32, suffix="index")


def take(b: Builder, x: View, index: View, ignore: int | None = None, suffix: str = "") -> View:
    """x [outer, extent, inner] at index, which broadcasts to [outer, count, inner]."""
    outer, extent, inner = x.shape
    index = whole_numbers(b, index).expanded((outer, index.shape[1], inner))
    narrow = b.dtype(x)
    if narrow not in (DType.F32, DType.I32):
        x = b.map(lambda v: v, x, dtype=DType.I32, suffix="wide")
    out = b.tensor(index.shape, b.dtype(x), suffix)
    b.op(Take(outer, extent, index.shape[1], inner, ignore), [x, index], [out], suffix)
    return out if b.dtype(out) is narrow else b.map(lambda v: v, out, dtype=narrow)


def put(
    b: Builder,
    g: View,
    index: View,
    extent: int,
    init: View | None = None,
    *,
    ignore: int | None = None,
    replace: bool = False,
    suffix: str = "",
) -> View:
    """The sum of g [outer, count, inner] in the rows that index names, on top of init [outer, extent, inner]."""
    outer, count, inner = g.shape
    if b.dtype(g) is DType.U8 and replace:
        wide = [None if v is None else b.map(lambda v: v, v, dtype=DType.F32, suffix="wide") for v in (g, init)]
        assert wide[0] is not None
        done = put(b, wide[0], index, extent, wide[1], ignore=ignore, replace=True, suffix=suffix)
        return b.map(lambda v: v, done, dtype=DType.U8)
    if b.dtype(g) is DType.I32 and replace:
        halves = [(cut(b, f, g), None if init is None else cut(b, f, init)) for f in (lower, upper)]
        low, high = (put(b, v, index, extent, i, ignore=ignore, replace=True, suffix=suffix) for v, i in halves)
        return b.map(lambda x, y: x.cast(DType.I32) + y.cast(DType.I32), low, high, dtype=DType.I32)
    if b.dtype(g) is not DType.F32:
        return put_whole(b, g, index, extent, init, ignore)
    index = whole_numbers(b, index).expanded(g.shape)
    base = [] if init is None or is_zero(b, init) else [b.contiguous(init)]
    out = b.tensor((outer, extent, inner), suffix=suffix)
    b.op(Put(outer, extent, count, inner, ignore, replace), [g, index, *base], [out], suffix)
    return out


def put_whole(b: Builder, g: View, index: View, extent: int, init: View | None, ignore: int | None) -> View:
    """Sums of integers, by those of their digits: floats hold these exactly, whatever is added up first."""
    bits = next((n for n in (16, 8) if (g.shape[1] + 1) * (2**n - 1) <= EXACT), None)
    if b.dtype(g) is not DType.I32 or bits is None:
        raise Unsupported(
            "truths cannot be added up in places that an index names"
            if bits
            else f"{g.shape[1]} integers cannot be added up in places that an index names",
            source=b.where.source,
            remedy="add up floats: convert the values with .float() before, and the sums with .long() behind",
        )
    base = None if init is None or is_zero(b, init) else init
    total: View | None = None
    for shift in range(0, 32, bits):

        def digit(x: Expr, shift: int = shift) -> Expr:
            return apply("and", [apply("iright", [x, shift]), 2**bits - 1])

        def onto(x: Expr, *sums: Expr, shift: int = shift) -> Expr:
            return sum(sums, apply("ileft", [x.cast(DType.I32), shift]))

        parts = [None if v is None else cut(b, digit, v) for v in (g, base)]
        assert parts[0] is not None
        found = put(b, parts[0], index, extent, parts[1], ignore=ignore)
        total = b.map(onto, found, *([] if total is None else [total]), dtype=DType.I32, suffix="whole")
    assert total is not None
    return total


def cut(b: Builder, part: Callable[[Expr], Expr], x: View) -> View:
    """Half of a whole number as a float, which holds it exactly."""
    return b.map(part, x, dtype=DType.F32, suffix="half")


def lower(x: Expr) -> Expr:
    return apply("and", [x, 0xFFFF])


def upper(x: Expr) -> Expr:
    return x - lower(x)


def is_zero(b: Builder, view: View) -> bool:
    """Whether the tensor was only ever filled with zeros."""
    made = [op for op in b.program.ops if any(v.tensor == view.tensor for v in op.writes)]
    if len(made) != 1 or not isinstance(made[0].kind, Loop):
        return False
    kind = made[0].kind
    constants = [a for s in kind.body for a in s.args if not isinstance(a, int)]
    return not kind.inputs and len(kind.body) == 1 and [c.value for c in constants] == [0]


# ---- x[..., index, ...]


@dataclass(frozen=True)
class Selection:
    """Which dimensions of x are indexed, and the shape that the indices broadcast to."""

    outer: tuple[int, ...]
    indexed: tuple[int, ...]
    inner: tuple[int, ...]
    shape: Shape  # of the index

    @staticmethod
    def of(x: View, indices: Sequence[View | None]) -> Selection:
        """Neighbouring indexed dimensions stay where they are; separated ones move to the front."""
        indexed = tuple(d for d, v in enumerate(indices) if v is not None)
        adjacent = indexed == tuple(range(indexed[0], indexed[-1] + 1))
        outer = tuple(range(indexed[0])) if adjacent else ()
        inner = tuple(d for d in range(len(x.shape)) if d not in (*outer, *indexed))
        return Selection(outer, indexed, inner, broadcast(*(v.shape for v in indices if v is not None)))

    @property
    def order(self) -> tuple[int, ...]:
        return (*self.outer, *self.indexed, *self.inner)

    def sizes(self, x: View) -> Shape:
        """[outer, extent, inner]"""
        return tuple(prod(x.shape[d] for d in dims) for dims in (self.outer, self.indexed, self.inner))

    def folded(self, b: Builder, x: View) -> View:
        return b.reshape(x.permuted(self.order), self.sizes(x))

    def unfolded(self, b: Builder, y: View, x: View) -> View:
        """From [outer, extent, inner] back to the order of x."""
        shown = b.reshape(y, tuple(x.shape[d] for d in self.order))
        return shown.permuted(tuple(self.order.index(d) for d in range(len(self.order))))


def flat_index(b: Builder, x: View, indices: Sequence[View | None], chosen: Selection) -> View:
    """One index [1, count, 1] over all indexed dimensions: sum of index * stride."""
    given = [whole_numbers(b, v) for v in indices if v is not None]
    count = prod(chosen.shape)
    if len(given) == 1:
        return b.reshape(given[0], (1, count, 1))
    sizes = [x.shape[d] for d in chosen.indexed]

    def body(*values: Expr) -> Value:
        total: Value = 0
        for value, size in zip(values, sizes, strict=True):
            place = select(value < 0, value + size, value)
            total = total * size + place if isinstance(total, Expr) else place
        return total

    return b.reshape(b.map(body, *given, shape=chosen.shape, suffix="index"), (1, count, 1))


@covers(aten.index.Tensor, aten._unsafe_index.Tensor)
def index(b: Builder, x: View, indices: Sequence[View | None]) -> View:
    chosen = Selection.of(x, indices)
    return b.reshape(take(b, chosen.folded(b, x), flat_index(b, x, indices, chosen)), tuple(b.meta.shape))


@covers(aten.index_select.default)
def index_select(b: Builder, x: View, dim: int, places: View) -> View:
    if not x.shape:
        return b.map(lambda v: v, x)
    found: View = index(b, x, [*[None] * (dim % len(x.shape)), places])
    return found


def filled_where(b: Builder, x: View, indices: Sequence[View | None], values: View) -> View | None:
    """x[mask] = value: the same value wherever the mask is true needs no list of places."""
    given = [(at, v) for at, v in enumerate(indices) if v is not None]
    at, mask = given[0]
    inner = len(x.shape) - at - len(mask.shape)
    if len(given) > 1 or b.dtype(mask) is not DType.U8 or len(values.shape) > inner:
        return None
    mask = b.reshape(mask, (*mask.shape, *[1] * inner)).expanded(x.shape)
    return b.map(select, mask, values.expanded(x.shape), x)


@covers(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(
    b: Builder, x: View, indices: Sequence[View | None], values: View, accumulate: bool = False, *_: Any
) -> View:
    masked = filled_where(b, x, indices, values) if not accumulate else None
    if masked is not None:
        return masked
    chosen = Selection.of(x, indices)
    shape = (*(x.shape[d] for d in chosen.outer), *chosen.shape, *(x.shape[d] for d in chosen.inner))
    outer, extent, inner = chosen.sizes(x)
    g = b.reshape(values.expanded(shape), (outer, prod(chosen.shape), inner))
    places = flat_index(b, x, indices, chosen)
    out = put(b, g, places, extent, chosen.folded(b, x), replace=not accumulate)
    return chosen.unfolded(b, out, x)


@covers(aten.put.default)
def put_flat(b: Builder, x: View, places: View, values: View, accumulate: bool = False) -> View:
    """At places of the flattened tensor: the gradient of take."""
    flat = b.reshape(x, (1, x.numel, 1))
    g, where = (b.reshape(v, (1, places.numel, 1)) for v in (values, places))
    return b.reshape(put(b, g, where, x.numel, flat, replace=not accumulate), x.shape)


# ---- gather and scatter along one dimension


def around(shape: Shape, dim: int) -> Shape:
    return prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :])


def window(x: View, shape: Shape, dim: int) -> View:
    """The part of x that an index of this shape reaches."""
    for d, extent in enumerate(shape):
        if d != dim:
            x = x.sliced(d, 0, extent)
    return x


@covers(aten.gather.default)
def gather(b: Builder, x: View, dim: int, places: View, **_: Any) -> View:
    if not x.shape:
        return b.reshape(b.map(lambda v: v, x), places.shape)
    dim %= len(x.shape)
    seen = window(x, places.shape, dim)
    found = take(b, b.reshape(seen, around(seen.shape, dim)), b.reshape(places, around(places.shape, dim)))
    return b.reshape(found, places.shape)


def scattered(b: Builder, x: View, dim: int, places: View, source: View, replace: bool) -> View:
    if not x.shape:
        return b.map(lambda v, s: s if replace else v + s, x, b.reshape(source, ()))
    dim %= len(x.shape)
    for d, extent in enumerate(places.shape):
        source = source.sliced(d, 0, extent)
    part = window(x, places.shape, dim)
    g = b.reshape(source, around(places.shape, dim))
    index_ = b.reshape(places, around(places.shape, dim))
    written = put(b, g, index_, x.shape[dim], b.reshape(part, around(part.shape, dim)), replace=replace)
    written = b.reshape(written, part.shape)
    if part.shape == x.shape:
        return written
    out = b.map(lambda v: v, x, suffix="base")
    b.copy_into(written, window(out, places.shape, dim), "place")
    return out


@covers(aten.scatter_add.default)
def scatter_add(b: Builder, x: View, dim: int, places: View, source: View) -> View:
    return scattered(b, x, dim, places, source, replace=False)


@covers(aten.scatter.src)
def scatter(b: Builder, x: View, dim: int, places: View, source: View) -> View:
    return scattered(b, x, dim, places, source, replace=True)


@covers(aten.scatter.value)
def scatter_value(b: Builder, x: View, dim: int, places: View, value: float) -> View:
    return scattered(b, x, dim, places, b.fill((), value, b.dtype(x)).expanded(places.shape), replace=True)


# ---- embedding


@covers(aten.embedding.default)
def embedding(b: Builder, table: View, places: View, *_: Any) -> View:
    found: View = index(b, table, [places])
    return found


@covers(aten.embedding_dense_backward.default)
def embedding_backward(b: Builder, g: View, places: View, rows: int, padding: int, by_frequency: bool) -> View:
    """Sums the rows of equal tokens in their order, so the bits are always the same."""
    count, width = places.numel, g.shape[-1]
    slopes = b.reshape(g, (1, count, width))
    flat = b.reshape(whole_numbers(b, places), (1, count, 1))
    ignore = padding if padding >= 0 else None
    if by_frequency:
        ones = b.fill((), 1, DType.F32, "one").expanded((1, count, 1))
        often = take(b, put(b, ones, flat, rows, suffix="count"), flat, suffix="often")
        slopes = b.map(lambda g, n: g / n, slopes, often, suffix="scaled")
    return b.reshape(put(b, slopes, flat, rows, ignore=ignore), (rows, width))
