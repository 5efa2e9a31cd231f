"""Frames of reflected or repeated borders, and sliding windows: copies of views; their gradients add the views back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.registry import covers
from trainlib_deployer.program.ir import Shape, View

aten = torch.ops.aten
Border = Callable[[View, int, int, int], tuple[View, View]]


def reflected(x: View, dim: int, low: int, high: int) -> tuple[View, View]:
    """The elements next to the first and before the last one, in reverse."""
    n = x.shape[dim]
    return reversed_(x.sliced(dim, 1, 1 + low), dim), reversed_(x.sliced(dim, n - 1 - high, n - 1), dim)


def reversed_(x: View, dim: int) -> View:
    strides = (*x.strides[:dim], -x.strides[dim], *x.strides[dim + 1 :])
    return View(x.tensor, x.shape, strides, x.offset + max(0, x.shape[dim] - 1) * x.strides[dim])


def repeated(x: View, dim: int, low: int, high: int) -> tuple[View, View]:
    """The first and the last element again and again."""
    n = x.shape[dim]

    def wide(v: View, extent: int) -> View:
        return v.expanded((*v.shape[:dim], extent, *v.shape[dim + 1 :]))

    return wide(x.sliced(dim, 0, 1), low), wide(x.sliced(dim, n - 1, n), high)


def pairs(x: View, pad: Sequence[int]) -> list[tuple[int, int, int]]:
    """(dim, low, high) from the last dimension on."""
    return [(len(x.shape) - 1 - i, pad[2 * i], pad[2 * i + 1]) for i in range(len(pad) // 2)]


def cropped(x: View, dim: int, low: int, high: int) -> tuple[View, int, int]:
    """Negative pads cut off."""
    x = x.sliced(dim, max(0, -low), x.shape[dim] - max(0, -high))
    return x, max(0, low), max(0, high)


def framed(b: Builder, x: View, pad: Sequence[int], border: Border) -> View:
    for dim, low, high in pairs(x, pad):
        x, low, high = cropped(x, dim, low, high)
        if not low and not high:
            continue
        n = x.shape[dim]
        out = b.tensor((*x.shape[:dim], low + n + high, *x.shape[dim + 1 :]), b.dtype(x))
        before, after = border(x, dim, low, high)
        b.copy_into(x, out.sliced(dim, low, low + n), "inside")
        if low:
            b.copy_into(before, out.sliced(dim, 0, low), "before")
        if high:
            b.copy_into(after, out.sliced(dim, low + n, low + n + high), "after")
        x = out
    return b.map(lambda v: v, x) if x.shape != tuple(b.meta.shape) else x


def add_into(b: Builder, g: View, target: View, suffix: str) -> None:
    """target += g; where the target repeats elements, one after the other."""
    for dim, (extent, stride) in enumerate(zip(target.shape, target.strides, strict=True)):
        if stride == 0 and extent > 1:
            for i in range(extent):
                add_into(b, g.sliced(dim, i, i + 1), target.sliced(dim, i, i + 1), suffix)
            return
    b.map(lambda t, g: t + g, target, g, into=target, suffix=suffix)


def framed_backward(b: Builder, g: View, shape: Shape, pad: Sequence[int], border: Border) -> View:
    """Back through the dimensions in reverse: each border's slope is added to the elements that it copied."""
    steps, extents = [], list(shape)
    for dim, low, high in pairs(View("", shape, shape), pad):
        steps.append((dim, low, high, extents[dim]))
        extents[dim] += low + high
    for dim, low, high, n in reversed(steps):
        whole = (*g.shape[:dim], n, *g.shape[dim + 1 :])
        cut = low < 0 or high < 0
        out = b.fill(whole, 0, b.dtype(g), "zero") if cut else b.tensor(whole, b.dtype(g))
        inner, low, high = cropped(out, dim, low, high)
        kept = inner.shape[dim]
        b.copy_into(g.sliced(dim, low, low + kept), inner, "inside")
        before, after = border(inner, dim, low, high)
        if low:
            add_into(b, g.sliced(dim, 0, low), before, "before")
        if high:
            add_into(b, g.sliced(dim, low + kept, low + kept + high), after, "after")
        g = out
    return g


@covers(aten.reflection_pad1d.default, aten.reflection_pad2d.default)
def reflection_pad(b: Builder, x: View, pad: list[int]) -> View:
    return framed(b, x, pad, reflected)


@covers(aten.replication_pad1d.default, aten.replication_pad2d.default)
def replication_pad(b: Builder, x: View, pad: list[int]) -> View:
    return framed(b, x, pad, repeated)


@covers(aten.reflection_pad1d_backward.default, aten.reflection_pad2d_backward.default)
def reflection_pad_backward(b: Builder, g: View, x: View, pad: list[int]) -> View:
    return framed_backward(b, g, x.shape, pad, reflected)


@covers(aten.replication_pad1d_backward.default, aten.replication_pad2d_backward.default)
def replication_pad_backward(b: Builder, g: View, x: View, pad: list[int]) -> View:
    return framed_backward(b, g, x.shape, pad, repeated)


# ---- sliding windows


@covers(aten.unfold.default)
def unfold(b: Builder, x: View, dim: int, size: int, step: int) -> View:
    """[..., windows, ..., size]: a view in which windows may overlap."""
    if not x.shape:
        return b.reshape(x, (1,))
    dim %= len(x.shape)
    windows = (x.shape[dim] - size) // step + 1
    shape = (*x.shape[:dim], windows, *x.shape[dim + 1 :], size)
    strides = (*x.strides[:dim], x.strides[dim] * step, *x.strides[dim + 1 :], x.strides[dim])
    return View(x.tensor, shape, strides, x.offset)


@covers(aten.unfold_backward.default)
def unfold_backward(b: Builder, g: View, shape: list[int], dim: int, size: int, step: int) -> View:
    """Windows side by side, a step wide each, are added at once: the next ones overlap them."""
    if not shape:
        return b.reshape(g, ())
    dim %= len(shape)
    out = b.fill(tuple(shape), 0, b.dtype(g), "zero")
    last = len(g.shape) - 1
    for start in range(0, size, step):
        part = g.sliced(last, start, min(start + step, size))
        strides = (*out.strides[:dim], out.strides[dim] * step, *out.strides[dim + 1 :], out.strides[dim])
        add_into(b, part, View(out.tensor, part.shape, strides, out.offset + start * out.strides[dim]), "window")
    return out


def patches(x: View, kernel: Sequence[int], dilation: Sequence[int], stride: Sequence[int], ho: int, wo: int) -> View:
    """[n, c, kh, kw, ho, wo] windows on a padded image [n, c, h, w]."""
    n, c = x.shape[:2]
    sn, sc, sh, sw = x.strides
    strides = (sn, sc, sh * dilation[0], sw * dilation[1], sh * stride[0], sw * stride[1])
    return View(x.tensor, (n, c, *kernel, ho, wo), strides, x.offset)


def counts(shape: Sequence[int], kernel: Sequence[int], dilation: Sequence[int], stride: Sequence[int]) -> list[int]:
    """How many windows fit."""
    each = zip(shape, kernel, dilation, stride, strict=True)
    return [(n - d * (k - 1) - 1) // s + 1 for n, k, d, s in each]


@covers(aten.im2col.default)
def im2col(b: Builder, x: View, kernel: list[int], dilation: list[int], padding: list[int], stride: list[int]) -> View:
    images = x if len(x.shape) == 4 else b.reshape(x, (1, *x.shape))
    n, c, h, w = images.shape
    framed_image = b.fill((n, c, h + 2 * padding[0], w + 2 * padding[1]), 0, b.dtype(x), "frame")
    inside = framed_image.sliced(2, padding[0], padding[0] + h).sliced(3, padding[1], padding[1] + w)
    b.copy_into(images, inside, "inside")
    ho, wo = counts(framed_image.shape[2:], kernel, dilation, stride)
    seen = patches(framed_image, kernel, dilation, stride, ho, wo)
    return b.reshape(b.map(lambda v: v, seen), tuple(b.meta.shape))


@covers(aten.col2im.default)
def col2im(
    b: Builder,
    x: View,
    size: list[int],
    kernel: list[int],
    dilation: list[int],
    padding: list[int],
    stride: list[int],
) -> View:
    """The sum of overlapping patches: the gradient of im2col."""
    columns = x if len(x.shape) == 3 else b.reshape(x, (1, *x.shape))
    n, c = columns.shape[0], columns.shape[1] // (kernel[0] * kernel[1])
    full = b.fill((n, c, size[0] + 2 * padding[0], size[1] + 2 * padding[1]), 0, b.dtype(x), "zero")
    ho, wo = counts(full.shape[2:], kernel, dilation, stride)
    target = patches(full, kernel, dilation, stride, ho, wo)
    source = b.reshape(columns, target.shape)
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            place = target.sliced(2, i, i + 1).sliced(3, j, j + 1)
            add_into(b, source.sliced(2, i, i + 1).sliced(3, j, j + 1), place, "patch")
    inside = full.sliced(2, padding[0], padding[0] + size[0]).sliced(3, padding[1], padding[1] + size[1])
    return b.reshape(inside, tuple(b.meta.shape))
