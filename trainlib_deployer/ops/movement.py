"""Views, which cost nothing, and the copies that rearrange data."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch

from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.pointwise import result_dtype
from trainlib_deployer.ops.registry import covers
from trainlib_deployer.program.ir import View

aten = torch.ops.aten


@covers(operator.getitem)
def getitem(_: Builder, values: Sequence[View], index: int) -> View:
    return values[index]


@covers(
    aten.view.default,
    aten.reshape.default,
    aten._unsafe_view.default,
    aten._reshape_alias.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.unsqueeze.default,
    aten.flatten.using_ints,
    aten.view_as_real.default,
)
def reshape(b: Builder, x: View, *_: Any, **__: Any) -> View:
    return b.reshape(x, tuple(b.meta.shape))


@covers(aten.detach.default, aten.alias.default, aten.lift_fresh_copy.default)
def same(_: Builder, x: View) -> View:
    return x


@covers(aten.t.default)
def t(_: Builder, x: View) -> View:
    return x.permuted(tuple(reversed(range(len(x.shape)))))


@covers(aten.transpose.int)
def transpose(_: Builder, x: View, first: int, second: int) -> View:
    order = list(range(len(x.shape)))
    if order:
        order[first], order[second] = order[second], order[first]
    return x.permuted(tuple(order))


@covers(aten.permute.default)
def permute(_: Builder, x: View, order: list[int]) -> View:
    return x.permuted(tuple(d % len(x.shape) for d in order))


@covers(aten.expand.default)
def expand(b: Builder, x: View, *_: Any, **__: Any) -> View:
    return x.expanded(tuple(b.meta.shape))


def bounds(extent: int, start: int | None, stop: int | None) -> tuple[int, int]:
    """Python's slice rules."""
    first, last, _ = slice(start, stop).indices(extent)
    return first, max(first, last)


@covers(aten.slice.Tensor)
def slice_(_: Builder, x: View, dim: int = 0, start: int | None = None, stop: int | None = None, step: int = 1) -> View:
    dim %= len(x.shape)
    return x.sliced(dim, *bounds(x.shape[dim], start, stop), step)


@covers(aten.select.int)
def select(_: Builder, x: View, dim: int, index: int) -> View:
    dim %= len(x.shape)
    return selected(x, dim, index % x.shape[dim])


def selected(x: View, dim: int, index: int) -> View:
    return View(
        x.tensor,
        (*x.shape[:dim], *x.shape[dim + 1 :]),
        (*x.strides[:dim], *x.strides[dim + 1 :]),
        x.offset + index * x.strides[dim],
    )


@covers(aten.split.Tensor, aten.split_with_sizes.default, aten.chunk.default)
def split(b: Builder, x: View, _sizes: Any, dim: int = 0) -> tuple[View, ...]:
    dim %= len(x.shape)
    pieces, start = [], 0
    for piece in b.meta:
        pieces.append(x.sliced(dim, start, start + piece.shape[dim]))
        start += piece.shape[dim]
    return tuple(pieces)


@covers(aten.unbind.int)
def unbind(_: Builder, x: View, dim: int = 0) -> tuple[View, ...]:
    dim %= len(x.shape)
    return tuple(selected(x, dim, i) for i in range(x.shape[dim]))


@covers(aten.diagonal.default)
def diagonal(_: Builder, x: View, offset: int = 0, first: int = 0, second: int = 1) -> View:
    first, second = first % len(x.shape), second % len(x.shape)
    rest = [d for d in range(len(x.shape)) if d not in (first, second)]
    rows, cols = x.shape[first], x.shape[second]
    extent = max(0, min(rows, cols - offset) if offset >= 0 else min(rows + offset, cols))
    start = offset * x.strides[second] if offset >= 0 else -offset * x.strides[first]
    return View(
        x.tensor,
        (*(x.shape[d] for d in rest), extent),
        (*(x.strides[d] for d in rest), x.strides[first] + x.strides[second]),
        x.offset + start,
    )


@covers(aten.diagonal_copy.default)
def diagonal_copy(b: Builder, x: View, *where: int) -> View:
    return b.map(lambda v: v, diagonal(b, x, *where))


@covers(aten.cat.default)
def cat(b: Builder, parts: Sequence[View], dim: int = 0) -> View:
    shape = tuple(b.meta.shape)
    dim %= len(shape)
    out = b.tensor(shape, result_dtype(b))
    start = 0
    for part in parts:
        if part.shape == (0,):  # legacy empty tensors that cat ignores
            continue
        stop = start + part.shape[dim]
        b.copy_into(part, out.sliced(dim, start, stop), "part")
        start = stop
    return out


@covers(aten.stack.default)
def stack(b: Builder, parts: Sequence[View], dim: int = 0) -> View:
    out = b.tensor(tuple(b.meta.shape), result_dtype(b))
    dim %= len(out.shape)
    for i, part in enumerate(parts):
        b.copy_into(part, selected(out, dim, i), "part")
    return out


@covers(aten.repeat.default)
def repeat(b: Builder, x: View, times: Sequence[int]) -> View:
    """Seen as [times0, extent0, times1, extent1, ...] a repeat is a broadcast copy."""
    lead = len(times) - len(x.shape)
    shape = (1,) * lead + x.shape
    strides = (0,) * lead + x.strides
    paired = tuple(n for pair in zip(times, shape, strict=True) for n in pair)
    source = View(x.tensor, paired, tuple(s for stride in strides for s in (0, stride)), x.offset)
    out = b.tensor(tuple(b.meta.shape), result_dtype(b))
    target = out.reshaped(paired)
    assert target is not None
    b.copy_into(source, target)
    return out


def zeros_with(b: Builder, shape: Sequence[int], place: Any, g: View) -> View:
    """Zeros with `g` written where `place(out)` points: the gradient of a window."""
    out = b.fill(tuple(shape), 0, b.dtype(g), "zero")
    b.copy_into(g, place(out), "place")
    return out


@covers(aten.slice_backward.default)
def slice_backward(b: Builder, g: View, shape: list[int], dim: int, start: int, stop: int, step: int) -> View:
    dim %= len(shape)
    window = bounds(shape[dim], start, stop)
    return zeros_with(b, shape, lambda out: out.sliced(dim, *window, step), g)


@covers(aten.select_backward.default)
def select_backward(b: Builder, g: View, shape: list[int], dim: int, index: int) -> View:
    dim %= len(shape)
    return zeros_with(b, shape, lambda out: selected(out, dim, index % shape[dim]), g)


@covers(aten.diagonal_backward.default)
def diagonal_backward(b: Builder, g: View, shape: list[int], offset: int, first: int, second: int) -> View:
    return zeros_with(b, shape, lambda out: diagonal(b, out, offset, first, second), g)


@covers(aten.slice_scatter.default)
def slice_scatter(
    b: Builder,
    x: View,
    source: View,
    dim: int = 0,
    start: int | None = None,
    stop: int | None = None,
    step: int = 1,
) -> View:
    dim %= len(x.shape)
    out = b.map(lambda v: v, x, suffix="base")
    b.copy_into(source, out.sliced(dim, *bounds(x.shape[dim], start, stop), step), "place")
    return out


@covers(aten.select_scatter.default)
def select_scatter(b: Builder, x: View, source: View, dim: int, index: int) -> View:
    dim %= len(x.shape)
    out = b.map(lambda v: v, x, suffix="base")
    b.copy_into(source, selected(out, dim, index % x.shape[dim]), "place")
    return out


@covers(aten.constant_pad_nd.default)
def constant_pad(b: Builder, x: View, pad: Sequence[int], value: float = 0) -> View:
    """Positive pads frame the copy, negative ones crop it."""
    out = b.fill(tuple(b.meta.shape), value, b.dtype(x), "frame")
    source, target = x, out
    for pair in range(len(pad) // 2):
        dim = len(x.shape) - 1 - pair
        low, high = pad[2 * pair], pad[2 * pair + 1]
        source = source.sliced(dim, max(0, -low), x.shape[dim] - max(0, -high))
        target = target.sliced(dim, max(0, low), out.shape[dim] - max(0, high))
    b.copy_into(source, target, "inside")
    return out


@covers(aten.flip.default)
def flip(b: Builder, x: View, dims: Sequence[int]) -> View:
    out = x
    for dim in (d % len(x.shape) for d in dims):
        last = out.offset + (out.shape[dim] - 1) * out.strides[dim]
        strides = (*out.strides[:dim], -out.strides[dim], *out.strides[dim + 1 :])
        out = View(out.tensor, out.shape, strides, last)
    return b.map(lambda v: v, out)


@covers(aten.roll.default)
def roll(b: Builder, x: View, shifts: Sequence[int] | int, dims: Sequence[int] | int = ()) -> View:
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    dims = [dims] if isinstance(dims, int) else list(dims)
    if not dims:
        flat = b.reshape(x, (x.numel,))
        return b.reshape(roll(b, flat, shifts, [0]), x.shape)
    for shift, dim in zip(shifts, (d % len(x.shape) for d in dims), strict=True):
        cut = x.shape[dim] - shift % x.shape[dim]
        out = b.tensor(x.shape, b.dtype(x))
        b.copy_into(x.sliced(dim, cut, x.shape[dim]), out.sliced(dim, 0, x.shape[dim] - cut), "head")
        b.copy_into(x.sliced(dim, 0, cut), out.sliced(dim, x.shape[dim] - cut, x.shape[dim]), "tail")
        x = out
    return x


@covers(aten.pixel_shuffle.default)
def pixel_shuffle(b: Builder, x: View, r: int) -> View:
    n, c, h, w = x.shape
    split_up = b.reshape(x, (n, c // (r * r), r, r, h, w)).permuted((0, 1, 4, 2, 5, 3))
    return b.reshape(b.map(lambda v: v, split_up), tuple(b.meta.shape))


@covers(aten.pixel_unshuffle.default)
def pixel_unshuffle(b: Builder, x: View, r: int) -> View:
    n, c, h, w = x.shape
    split_up = b.reshape(x, (n, c, h // r, r, w // r, r)).permuted((0, 1, 3, 5, 2, 4))
    return b.reshape(b.map(lambda v: v, split_up), tuple(b.meta.shape))
