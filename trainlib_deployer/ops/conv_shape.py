"""The extents of a convolution."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd

from trainlib_deployer.kernels.panels import BLOCK
from trainlib_deployer.ops.sliding import Sliding


@dataclass(frozen=True)
class ConvShape:
    """Extents of a two-dimensional convolution x [n, groups*ci, h, w] -> y [n, groups*co, ho, wo]."""

    n: int
    groups: int
    ci: int
    co: int
    h: int
    w: int
    ho: int
    wo: int
    kh: int
    kw: int
    stride: tuple[int, int]
    pad: tuple[int, int]
    dilation: tuple[int, int]

    @cached_property
    def rows(self) -> Sliding:
        return Sliding(self.h, self.ho, self.kh, self.stride[0], self.pad[0], self.dilation[0])

    @property
    def pointwise(self) -> bool:
        """With one tap an image is one row."""
        return self.kh * self.kw == 1

    @property
    def block_rows(self) -> int:
        """Rows of y that begin a block of a weight gradient's terms: whole rows, or 64 terms of longer ones."""
        return BLOCK // gcd(BLOCK, self.wo) if self.pointwise else max(1, BLOCK // self.wo)

    @property
    def blocks(self) -> int:
        """Of a weight gradient's terms."""
        row, rows = (self.ho * self.wo, 1) if self.pointwise else (self.wo, self.ho)
        return self.n * (rows * -(-row // BLOCK) if row > BLOCK else -(-rows // (BLOCK // row)))

    @property
    def inside(self) -> bool:
        """No window reaches out of the image."""
        sizes = zip(
            (self.h, self.w), (self.ho, self.wo), (self.kh, self.kw), self.stride, self.pad, self.dilation, strict=True
        )
        return max(self.pad) <= 0 and all((n - 1) * s + (k - 1) * d - p < size for size, n, k, s, p, d in sizes)

    def macs(self) -> int:
        return self.n * self.groups * self.ci * self.co * self.ho * self.wo * self.kh * self.kw
