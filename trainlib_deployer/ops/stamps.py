"""A transposed convolution whose windows neither overlap nor leave a gap, as those of a U-Net: of one tap.

Each pixel of the small image has a window of the large one for itself. With a plane for each tap of each channel in
place of the large image all three directions are those of a transposed convolution by one tap, which reads and writes
neighbours: forward the planes are dealt out to the large image, backward its gradient is taken apart once.
"""

from __future__ import annotations

from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.conv_shape import ConvShape
from trainlib_deployer.program.ir import Shape, View


def planes_shape(s: ConvShape) -> Shape:
    return s.n, s.ci * s.kh * s.kw, s.ho, s.wo


def by_planes(b: Builder, w: View) -> View:
    """[channels of the small image, planes, 1, 1]."""
    return b.reshape(w, (w.shape[0], w.numel // w.shape[0], 1, 1))


def by_taps(b: Builder, large: View, s: ConvShape) -> View:
    """[n, ci, kh, kw, ho, wo] of the large image."""
    return b.reshape(large, (s.n, s.ci, s.ho, s.kh, s.wo, s.kw)).permuted((0, 1, 3, 5, 2, 4))


def dealt_out(b: Builder, planes: View, bias: View | None, s: ConvShape) -> View:
    """The large image, and the bias on it."""
    large = b.tensor((s.n, s.ci, s.h, s.w))
    into = by_taps(b, large, s)
    read = b.reshape(planes, into.shape)
    if bias is None:
        b.map(lambda x: x, read, into=into)
    else:
        b.map(lambda x, c: x + c, read, b.reshape(bias, (s.ci, 1, 1, 1, 1)), into=into)
    return large


def taken_apart(b: Builder, large: View, s: ConvShape) -> View:
    return b.reshape(by_taps(b, large, s), planes_shape(s))
