"""Running sums and products, the place of the largest element, sorting: along one dimension, each line by one core."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.index import around, scattered, take
from trainlib_deployer.ops.pointwise import result_dtype
from trainlib_deployer.ops.registry import covers
from trainlib_deployer.program.cuts import Cuttable, Range, grids, span
from trainlib_deployer.program.expr import apply
from trainlib_deployer.program.ir import DType, Part, Shape, View

aten = torch.ops.aten
HALF = 1 << 16


@dataclass(frozen=True)
class Lines(Cuttable[tuple[Range, ...]]):
    """Something done with each line of [outer, extent, inner]. Further fields are members of `tl_lines`."""

    outer: int
    extent: int
    inner: int

    places = True  # it also tells where in their lines the values stand
    compares = False  # each element with all of its line

    @property
    def result(self) -> Shape:
        """[outer, ..., inner]: of the values, and of their places."""
        return self.outer, self.extent, self.inner

    def touched(self, operand: int, view: View) -> int:
        return view.numel * (self.extent if self.compares and operand == 0 else 1)

    def cuts(self) -> Iterator[list[tuple[Range, ...]]]:
        return grids(self.outer, self.inner)

    def part(self, cut: tuple[Range, ...], reads: tuple[View, ...], writes: tuple[View, ...]) -> Part:
        o, i = cut

        def seen(view: View) -> View:
            return view.sliced(0, *o).sliced(len(view.shape) - 1, *i)

        kind = replace(self, outer=span(o), inner=span(i))
        return Part(kind, tuple(map(seen, reads)), tuple(map(seen, writes)))


@dataclass(frozen=True)
class Scan(Lines):
    """Sums or products of all elements up to here."""

    product: bool

    name = "scan"
    places = False


@dataclass(frozen=True)
class Running(Lines):
    """The largest (smallest) elements up to here."""

    largest: bool

    name = "running"


@dataclass(frozen=True)
class Extreme(Lines):
    """The largest (smallest) element."""

    largest: bool

    name = "extreme"

    @property
    def result(self) -> Shape:
        return self.outer, self.inner


@dataclass(frozen=True)
class Order(Lines):
    """The first `count` in order, the largest (smallest) first."""

    count: int
    largest: bool

    name = "order"
    compares = True

    @property
    def result(self) -> Shape:
        return self.outer, self.count, self.inner


@dataclass(frozen=True)
class Mode(Lines):
    """The most frequent element."""

    name = "mode"
    compares = True

    @property
    def result(self) -> Shape:
        return self.outer, self.inner


def lines(b: Builder, x: View, dim: int) -> View:
    """Dense floats [outer, extent, inner]."""
    x = b.contiguous(as_floats(b, x))
    return b.reshape(x, around(x.shape, dim % len(x.shape)) if x.shape else (1, 1, 1))


def made_of_lines(b: Builder, seen: View, kind: Lines) -> list[View]:
    """Values and, of most kinds, their places."""
    made = [b.tensor(kind.result, suffix="value" if kind.places else "")]
    made += [b.tensor(kind.result, DType.I32, "place")] if kind.places else []
    b.op(kind, [seen], made)
    return made


def as_floats(b: Builder, x: View) -> View:
    """What is only compared as floats."""
    return x if b.dtype(x) is DType.F32 else b.map(lambda v: v, x, dtype=DType.F32, suffix="float")


def returned(b: Builder, x: View, values: View) -> View:
    """In the type of x, for integers that were compared as floats."""
    return values if b.dtype(x) is DType.F32 else b.map(lambda v: v, values, dtype=b.dtype(x))


def scan(b: Builder, x: View, dim: int, product: bool) -> View:
    """In the type of the result: masks are counted in integers."""
    if b.dtype(x) is not result_dtype(b):
        x = b.map(lambda v: v, x, dtype=result_dtype(b))
    seen = lines(b, x, dim)
    outer, extent, inner = seen.shape
    (out,) = made_of_lines(b, seen, Scan(outer, extent, inner, product))
    return b.reshape(returned(b, x, out), x.shape)


@covers(aten.cumsum.default)
def cumsum(b: Builder, x: View, dim: int, **_: Any) -> View:
    return scan(b, x, dim, product=False)


@covers(aten.cumprod.default)
def cumprod(b: Builder, x: View, dim: int, **_: Any) -> View:
    return scan(b, x, dim, product=True)


def running(b: Builder, x: View, dim: int, largest: bool) -> tuple[View, View]:
    seen = lines(b, x, dim)
    outer, extent, inner = seen.shape
    values, places = made_of_lines(b, seen, Running(outer, extent, inner, largest))
    return b.reshape(returned(b, x, values), x.shape), b.reshape(places, x.shape)


@covers(aten.cummax.default)
def cummax(b: Builder, x: View, dim: int) -> tuple[View, View]:
    return running(b, x, dim, largest=True)


@covers(aten.cummin.default)
def cummin(b: Builder, x: View, dim: int) -> tuple[View, View]:
    return running(b, x, dim, largest=False)


def extreme(b: Builder, x: View, dim: int, largest: bool) -> tuple[View, View]:
    if b.dtype(x) is DType.I32:  # floats would take close ones for equal: where is the one that is the largest?
        whole = b.reshape(x, around(x.shape, dim % len(x.shape)) if x.shape else (1, 1, 1))
        best = b.reduce("max" if largest else "min", (1,), whole, keepdim=True, suffix="value")
        found = b.map(lambda v, most: apply("eq", [v, most]), whole, best, suffix="found")
        return b.reshape(best, (whole.shape[0], whole.shape[2])), extreme(b, found, 1, largest=True)[1]
    seen = lines(b, x, dim)
    outer, extent, inner = seen.shape
    values, places = made_of_lines(b, seen, Extreme(outer, extent, inner, largest))
    return returned(b, x, values), places


@covers(aten.max.dim)
def max_dim(b: Builder, x: View, dim: int, _keepdim: bool = False) -> tuple[View, ...]:
    return tuple(b.reshape(v, tuple(b.meta[0].shape)) for v in extreme(b, x, dim, largest=True))


@covers(aten.min.dim)
def min_dim(b: Builder, x: View, dim: int, _keepdim: bool = False) -> tuple[View, ...]:
    return tuple(b.reshape(v, tuple(b.meta[0].shape)) for v in extreme(b, x, dim, largest=False))


def place_of(b: Builder, x: View, dim: int | None, largest: bool) -> View:
    if dim is None:
        x, dim = b.reshape(x, (x.numel,)), 0
    return b.reshape(extreme(b, x, dim, largest)[1], tuple(b.meta.shape))


@covers(aten.argmax.default)
def argmax(b: Builder, x: View, dim: int | None = None, _keepdim: bool = False) -> View:
    return place_of(b, x, dim, largest=True)


@covers(aten.argmin.default)
def argmin(b: Builder, x: View, dim: int | None = None, _keepdim: bool = False) -> View:
    return place_of(b, x, dim, largest=False)


@covers(aten.mode.default)
def mode(b: Builder, x: View, dim: int = -1, _keepdim: bool = False) -> tuple[View, ...]:
    seen = lines(b, x, dim)
    outer, extent, inner = seen.shape
    values, places = made_of_lines(b, seen, Mode(outer, extent, inner))
    return tuple(b.reshape(v, tuple(b.meta[0].shape)) for v in (returned(b, x, values), places))


def ordered(b: Builder, x: View, dim: int, descending: bool) -> tuple[View, ...]:
    shape = tuple(b.meta[0].shape)
    count = shape[dim] if shape else 1
    if b.dtype(x) is DType.I32:
        whole = b.reshape(x, around(x.shape, dim % len(x.shape)) if x.shape else (1, 1, 1))
        return tuple(b.reshape(v, shape) for v in order_of_integers(b, whole, count, descending))
    values, places = order(b, lines(b, x, dim), count, descending)
    return b.reshape(returned(b, x, values), shape), b.reshape(places, shape)


def order(b: Builder, seen: View, count: int, descending: bool) -> tuple[View, View]:
    """Of equal elements, the first one comes first."""
    outer, extent, inner = seen.shape
    values, places = made_of_lines(b, seen, Order(outer, extent, inner, count, descending))
    return values, places


def order_of_integers(b: Builder, x: View, count: int, descending: bool) -> tuple[View, View]:
    """By their lower halves, then by their upper ones: each is exact as a float."""
    x = b.contiguous(x)
    low = b.map(lambda v: apply("remainder", [v, HALF]), x, dtype=DType.F32, suffix="low")
    high = b.map(lambda v: apply("idiv", [v - apply("remainder", [v, HALF]), HALF]), x, dtype=DType.F32, suffix="high")
    by_low = order(b, low, x.shape[1], descending)[1]
    by_high = order(b, take(b, high, by_low), count, descending)[1]
    places = take(b, by_low, by_high)
    return take(b, x, places), places


@covers(aten.topk.default)
def topk(b: Builder, x: View, _k: int, dim: int = -1, largest: bool = True, _sorted: bool = True) -> tuple[View, ...]:
    return ordered(b, x, dim, largest)


@covers(aten.sort.default)
def sort(b: Builder, x: View, dim: int = -1, descending: bool = False) -> tuple[View, ...]:
    return ordered(b, x, dim, descending)


@covers(aten.sort.stable)
def sort_stable(
    b: Builder, x: View, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[View, ...]:
    return ordered(b, x, dim, descending)


@covers(aten.value_selecting_reduction_backward.default)
def selection_backward(b: Builder, g: View, dim: int, places: View, sizes: list[int], keepdim: bool) -> View:
    """The slope goes to the element that was selected."""
    shape = tuple(1 if d == dim % len(sizes) else e for d, e in enumerate(sizes))
    zeros = b.fill(tuple(sizes), 0, b.dtype(g))
    return scattered(b, zeros, dim, b.reshape(places, shape), b.reshape(g, shape), replace=True)
