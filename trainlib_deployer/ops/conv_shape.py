"""The extents of a convolution."""

from __future__ import annotations

from dataclasses import dataclass

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

    @property
    def rows(self) -> Sliding:
        return Sliding(self.h, self.ho, self.kh, self.stride[0], self.pad[0], self.dilation[0])

    def macs(self) -> int:
        return self.n * self.groups * self.ci * self.co * self.ho * self.wo * self.kh * self.kw
