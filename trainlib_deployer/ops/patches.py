"""A convolution whose windows neither overlap nor leave a gap, as a vision transformer's patches: a matrix product.

Each pixel is in one window. Copied once, in the order of windows, the image is a matrix of one row a window, and all
three directions are products of dense matrices, which pack operands faster than a convolution gathers pixels that are
apart.
"""

from __future__ import annotations

from math import prod

from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.conv_shape import ConvShape
from trainlib_deployer.ops.matmul import product
from trainlib_deployer.program.ir import Shape, View

FEWEST = 4  # windows, and channels: below that a product has a tile to itself, or a vector


def in_patches(s: ConvShape) -> bool:
    kernel = (s.kh, s.kw)
    return (
        (s.groups, s.stride, s.pad, s.dilation) == (1, kernel, (0, 0), (1, 1))
        and (s.h, s.w) == (s.ho * s.kh, s.wo * s.kw)
        and s.kh * s.kw > 1
        and min(s.n * s.ho * s.wo, s.co) >= FEWEST
    )


def windows(b: Builder, x: View, s: ConvShape) -> View:
    """[windows, terms] of an image; backward reads what forward has copied, in place of the image. One that is there
    all the time, as a sample is, is copied again: the copy would take memory beside it."""
    apart = b.reshape(x, (s.n, s.ci, s.ho, s.kh, s.wo, s.kw)).permuted((0, 2, 4, 1, 3, 5))
    made = b.copies.get(apart)
    if made is None:
        made = b.reshape(apart, (s.n * s.ho * s.wo, s.ci * s.kh * s.kw))
        if b.program.tensors[x.tensor].role.comes_and_goes:
            b.copies[apart] = made
    return made


def channels_last(b: Builder, y: View) -> View:
    """[windows, channels] of what lies as [n, channels, h, w]."""
    last = y.permuted((0, 2, 3, 1))
    return b.reshape(last, (prod(last.shape[:-1]), last.shape[-1]))


def filters(b: Builder, w: View) -> View:
    """[channels, terms]."""
    return b.reshape(w, (w.shape[0], prod(w.shape[1:])))


def patches_forward(b: Builder, x: View, w: View, bias: View | None, s: ConvShape) -> View:
    out = product(b, windows(b, x, s), filters(b, w).permuted((1, 0)), bias)
    return b.reshape(out, (s.n, s.ho, s.wo, s.co)).permuted((0, 3, 1, 2))


def patches_input_gradient(b: Builder, gy: View, w: View, s: ConvShape) -> View:
    out = product(b, channels_last(b, gy), filters(b, w), suffix="input")
    apart = b.reshape(out, (s.n, s.ho, s.wo, s.ci, s.kh, s.kw)).permuted((0, 3, 1, 4, 2, 5))
    return b.reshape(apart, (s.n, s.ci, s.h, s.w))


def patches_weight_gradient(b: Builder, x: View, gy: View, w: Shape, s: ConvShape) -> View:
    out = product(b, channels_last(b, gy).permuted((1, 0)), windows(b, x, s), suffix="weight")
    return b.reshape(out, w)
