"""A convolution whose windows neither overlap nor leave a gap, as a vision transformer's patches: a matrix product.

Each pixel is in one window. Copied once, in the order of windows, the image is a matrix of one row a window, and all
three directions are products of dense matrices, which pack operands faster than a convolution gathers pixels that are
apart.

Of a large kernel on few channels windows overlap, and are copied all the same: a convolution by one tap is left.
"""

from __future__ import annotations

from math import prod

from trainlib_deployer.kernels.panels import BLOCK
from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.conv_shape import ConvShape
from trainlib_deployer.ops.matmul import product
from trainlib_deployer.program.ir import Shape, View

FEWEST = 4  # windows, and channels: below that a product has a tile to itself, or a vector
MOST_TERMS = BLOCK  # of overlapping windows that are copied
MANY = 32  # channels of results, for each of which a copied pixel is multiplied


def in_patches(s: ConvShape) -> bool:
    kernel = (s.kh, s.kw)
    return (
        (s.groups, s.stride, s.pad, s.dilation) == (1, kernel, (0, 0), (1, 1))
        and (s.h, s.w) == (s.ho * s.kh, s.wo * s.kw)
        and s.kh * s.kw > 1
        and min(s.n * s.ho * s.wo, s.co) >= FEWEST
    )


def in_taps(s: ConvShape) -> bool:
    """Large kernels on few channels, as a first layer has them: what all windows read by one tap is a plane of its own,
    copied once in each direction, and the kernel has one tap then. Kernels of nine taps need no copy."""
    alone = (s.groups, s.pad) == (1, (0, 0)) and s.kh * s.kw > 9 and s.ci * s.kh * s.kw <= MOST_TERMS
    return alone and min(s.co, s.n * s.ho * s.wo) >= MANY and not in_patches(s)


def taps(b: Builder, x: View, s: ConvShape) -> View:
    """[n, terms, ho, wo]: of each channel as many planes as a kernel has taps."""
    n, channel, row, column = x.strides
    (down, across), (far, wide) = s.stride, s.dilation
    strides = (n, channel, row * far, column * wide, row * down, column * across)
    read = View(x.tensor, (s.n, s.ci, s.kh, s.kw, s.ho, s.wo), strides, x.offset)
    return b.reshape(b.contiguous(read), (s.n, s.ci * s.kh * s.kw, s.ho, s.wo))


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
