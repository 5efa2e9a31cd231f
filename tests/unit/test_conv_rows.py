"""Every row of the convolutions: exact, bounded, and bit by bit the reference, for every number of cores."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.unit.kernel_harness import ALL_CORES, Tensor, fitting, pitched, random, run
from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.conv import CONV
from trainlib_deployer.kernels.conv_around import AROUND
from trainlib_deployer.kernels.conv_block import IN_A_BLOCK
from trainlib_deployer.kernels.conv_f16 import CONV_F16
from trainlib_deployer.kernels.conv_inside import INSIDE
from trainlib_deployer.kernels.conv_plane import PLANES, known_dense
from trainlib_deployer.kernels.depthwise import DEPTHWISE, met
from trainlib_deployer.kernels.table import chosen
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.ops.conv_shape import ConvShape

EPS = 2.0**-23
STORAGES = {DType.F32: "", DType.F16: "_f16"}  # and the names of their references
DIRECTIONS = ("fw", "bw_x", "bw_w")
LEANER = ((8, 3, 4), (5, 1, 8), (3, 2, 12), (4, 7, 4), (8, 8, 4))  # cores, team, packed rows


@dataclass(frozen=True)
class Case:
    n: int = 1
    groups: int = 1
    ci: int = 1
    co: int = 1
    size: tuple[int, int] = (6, 7)
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int] = (0, 0)
    dil: tuple[int, int] = (1, 1)
    more: tuple[int, int] = (0, 0)  # outputs beyond those of symmetric padding
    wide: int = 0  # extra pitch
    sparse_w: int = 0  # extra pitch of w

    @property
    def out(self) -> tuple[int, int]:
        sizes = (
            (self.size[i] + 2 * self.pad[i] - self.dil[i] * (self.kernel[i] - 1) - 1) // self.stride[i]
            + 1
            + self.more[i]
            for i in range(2)
        )
        height, width = sizes
        return height, width


CASES = [
    Case(ci=3, co=5),
    Case(n=2, ci=3, co=5, pad=(1, 1)),
    Case(n=3, ci=16, co=13, size=(5, 9), pad=(1, 1), wide=3),
    Case(ci=8, co=40, size=(8, 8), pad=(1, 1)),
    Case(ci=40, co=8, size=(7, 5), pad=(1, 2), stride=(2, 2)),
    Case(n=2, ci=9, co=7, size=(9, 11), kernel=(3, 5), stride=(2, 3), pad=(1, 2), wide=1),
    Case(ci=4, co=6, size=(12, 13), kernel=(2, 3), stride=(3, 4), pad=(0, 1)),  # stride beyond the kernel
    Case(ci=3, co=6, size=(10, 12), kernel=(3, 2), dil=(2, 3), pad=(2, 1)),
    Case(ci=5, co=6, size=(12, 15), kernel=(3, 4), dil=(2, 3), stride=(4, 2), pad=(2, 4)),
    Case(ci=4, co=4, size=(11, 10), kernel=(4, 2), pad=(-1, -2), wide=2),
    Case(ci=4, co=5, size=(9, 10), pad=(-2, 1), more=(1, 0)),
    Case(ci=3, co=4, size=(4, 5), kernel=(4, 4), pad=(3, 2), more=(1, -1)),
    Case(n=2, groups=3, ci=4, co=5, size=(5, 6), pad=(1, 1), stride=(2, 1)),
    Case(groups=2, ci=34, co=3, size=(6, 6), pad=(1, 1), sparse_w=2),
    Case(n=2, ci=20, co=12, size=(6, 6), kernel=(1, 1)),
    Case(n=2, ci=130, co=7, size=(3, 5), kernel=(1, 1), wide=2),
    Case(ci=12, co=9, size=(7, 9), kernel=(1, 1), stride=(2, 2)),
    Case(ci=7, co=10, size=(5, 7), kernel=(1, 1)),  # planes, no whole tiles of channels, in one block and in two
    Case(n=2, ci=66, co=5, size=(4, 3), kernel=(1, 1)),
    Case(n=2, groups=2, ci=3, co=8, size=(4, 5), kernel=(1, 1)),
    Case(n=5, ci=6, co=10, size=(3, 3), kernel=(3, 3)),  # one pixel per image
    Case(n=2, ci=2, co=6, size=(11, 12), kernel=(9, 8), pad=(4, 3)),  # more taps than a block
    Case(ci=1, co=8, size=(1, 90), kernel=(1, 80), stride=(1, 4)),
    Case(n=2, ci=4, co=4, size=(1, 33), kernel=(1, 7), pad=(0, 3), dil=(1, 2)),
    Case(n=1, ci=4, co=5, size=(16, 16), pad=(1, 1)),
    Case(n=3, ci=4, co=5, size=(8, 8), pad=(1, 1), wide=4),
    Case(groups=6, size=(8, 9), pad=(1, 1)),
    Case(groups=4, size=(8, 8), pad=(1, 1)),
    Case(groups=5, size=(11, 5), pad=(1, 1)),
    Case(groups=3, size=(16, 16), pad=(1, 1), stride=(2, 2)),
    Case(ci=5, co=6, size=(8, 8), pad=(1, 1)),
    Case(ci=10, co=6, size=(3, 4), pad=(1, 1)),
    Case(ci=1, co=4, size=(11, 13), pad=(1, 1)),
    Case(n=2, groups=3, size=(9, 14), pad=(1, 1), stride=(2, 2), wide=2),
    Case(n=1, groups=3, size=(11, 9), pad=(1, 1), stride=(2, 2)),  # half a square at the end of each row
    Case(groups=2, size=(20, 19), kernel=(5, 5), pad=(2, 1), stride=(1, 2)),
    Case(groups=3, co=2, size=(7, 10), pad=(1, 0)),
    Case(groups=3, co=3, size=(7, 10), kernel=(3, 2), pad=(2, 3), dil=(2, 2)),
    Case(groups=2, co=5, size=(7, 6), pad=(1, 1)),
    Case(groups=3, ci=2, size=(7, 10), pad=(1, 1), stride=(2, 3), sparse_w=1),
    Case(groups=2, size=(12, 13), kernel=(9, 8), pad=(4, 4)),
    Case(groups=5, size=(4, 4), kernel=(4, 4)),
    Case(groups=2, size=(9, 11), kernel=(2, 2), stride=(3, 3), pad=(-1, -1)),
    Case(groups=4, size=(5, 6), kernel=(1, 1)),
    Case(ci=1, co=1, size=(1, 1), kernel=(1, 1)),
    Case(groups=1, size=(3, 2), kernel=(3, 3), pad=(2, 2)),
    Case(n=2, groups=3, size=(1, 1), pad=(1, 1), wide=1),
    Case(groups=5, size=(11, 7), kernel=(5, 5), pad=(2, 2), wide=2),
    Case(groups=3, co=2, size=(9, 12), kernel=(7, 7), pad=(3, 3), stride=(2, 2)),
    Case(n=2, groups=3, size=(12, 13), kernel=(5, 5), pad=(2, 2), stride=(2, 2)),
    Case(groups=2, ci=2, size=(10, 9), kernel=(7, 7), pad=(3, 1)),
    Case(groups=3, size=(6, 17), kernel=(4, 5), pad=(-1, 4), more=(1, 0), sparse_w=2),
    Case(groups=3, size=(12, 9), kernel=(5, 7), pad=(3, -1), stride=(2, 2), more=(1, 1)),
    Case(n=3, groups=2, size=(7, 11), kernel=(7, 7), pad=(3, 3), wide=1),
    Case(groups=3, size=(14, 13), kernel=(5, 5), pad=(2, 2), stride=(2, 2)),
    Case(n=2, groups=3, size=(3, 5), kernel=(5, 5), pad=(6, 4)),  # windows of which no row is in the image
    Case(groups=5, size=(2, 7), kernel=(7, 7), pad=(7, 3)),
    Case(groups=3, size=(3, 9), kernel=(7, 7), pad=(9, 2), stride=(2, 2)),
    Case(groups=4, size=(9, 10), kernel=(2, 1), pad=(1, 0), stride=(2, 2)),
    Case(groups=3, size=(13, 7), pad=(2, 3), wide=3),
    Case(groups=2, size=(9, 8), pad=(0, 1), more=(2, 1)),
    Case(groups=3, size=(7, 6), pad=(-1, 0), more=(1, 1)),
    Case(n=2, groups=3, co=3, size=(10, 3), pad=(1, 1), sparse_w=3),
    Case(groups=3, ci=3, size=(7, 9), pad=(0, -1), more=(0, 2)),
    Case(groups=3, size=(2, 1), pad=(1, 1), stride=(2, 2)),
    Case(n=2, groups=3, size=(1, 1), pad=(1, 1), stride=(2, 2)),
    Case(n=2, groups=5, size=(8, 5), pad=(1, 1), stride=(2, 2), wide=3),
    Case(n=1, groups=19, size=(25, 5), pad=(1, 1), stride=(2, 2)),
    Case(groups=4, size=(7, 11), pad=(0, 2), stride=(2, 2), wide=1),
    Case(groups=3, size=(8, 10), pad=(2, 0), stride=(2, 2), more=(1, 1)),
    Case(groups=3, size=(8, 7), pad=(1, 1), stride=(2, 2), more=(1, 2)),
    Case(groups=2, size=(11, 8), pad=(2, 2), stride=(2, 2), more=(0, 1)),
    Case(groups=2, size=(10, 13), pad=(0, 0), stride=(2, 2)),
    Case(groups=2, size=(12, 9), pad=(-1, -2), stride=(2, 2), more=(1, 1)),
    Case(n=2, ci=3, co=7, size=(12, 12), pad=(1, 1)),  # a block in two images
    Case(n=3, groups=2, ci=2, co=5, size=(9, 16), pad=(1, 1), stride=(1, 2)),
    Case(n=2, ci=3, co=6, size=(11, 12), kernel=(2, 3), pad=(1, -1), stride=(2, 2)),
    Case(ci=2, co=9, size=(10, 4), pad=(3, 3), dil=(2, 1), sparse_w=2),
    Case(n=2, ci=5, co=4, size=(1, 50), kernel=(1, 3), pad=(0, 1), stride=(1, 2), more=(0, -1)),
    Case(n=2, ci=3, co=7, size=(6, 6), pad=(1, 1)),  # two outputs at a time, blocks in two and three images
    Case(n=4, groups=2, ci=2, co=3, size=(5, 12), pad=(1, 1), stride=(1, 2), sparse_w=1),
    Case(n=2, groups=2, ci=3, co=5, size=(8, 8), pad=(1, 1), stride=(2, 2), wide=1),
    Case(n=2, ci=3, co=7, size=(13, 24), pad=(1, 1)),  # what several blocks meet, copied at once, in pieces of an image
    Case(groups=2, ci=2, co=6, size=(17, 44), pad=(2, 1), stride=(2, 2), dil=(2, 1)),
    Case(n=2, ci=2, co=5, size=(3, 70), pad=(1, 2), sparse_w=1),  # a row in two blocks
    Case(n=2, ci=3, co=8, size=(9, 16), pad=(1, 1)),  # all terms in one block, whole rows and parts of some for a core
    Case(groups=2, ci=2, co=4, size=(9, 36), pad=(1, 1), wide=2),
    Case(ci=7, co=12, size=(18, 15), pad=(0, 1), more=(0, 1)),
    Case(ci=2, co=70, size=(7, 9), pad=(0, 2), stride=(2, 2), more=(1, 0), sparse_w=1),  # every block of all classes
    Case(n=2, ci=5, co=19, size=(5, 17), pad=(-1, 3), stride=(2, 2), more=(0, -1)),
    Case(n=2, ci=7, co=6, size=(11, 13), kernel=(1, 1)),  # blocks of few tiles, in one row or several of a row
    Case(ci=72, co=68, size=(7, 5), kernel=(1, 1), sparse_w=3),  # planes whose last pixels are a panel of their own
    Case(groups=3, ci=4, co=8, size=(3, 7), kernel=(1, 1)),
    Case(n=3, groups=2, ci=8, co=4, size=(2, 6), kernel=(1, 1)),
    Case(ci=4, co=132, size=(1, 4), kernel=(1, 1)),
    Case(ci=68, co=140, size=(3, 3), kernel=(1, 1), sparse_w=2),  # planes of whole threes of pixels
    Case(groups=2, ci=8, co=4, size=(2, 3), kernel=(1, 1), wide=1),
    Case(ci=1, co=20, size=(1, 3), kernel=(1, 1), wide=2),
    Case(n=2, groups=2, ci=8, co=4, size=(4, 9), kernel=(1, 1)),  # many fours of pixels, side by side
    Case(ci=72, co=12, size=(7, 11), kernel=(1, 1), sparse_w=3),  # ... of which the last ones are not whole
    Case(ci=65, co=8, size=(5, 13), kernel=(1, 1)),  # ... and the last block is one term
    Case(ci=4, co=130, size=(1, 49), kernel=(1, 1), wide=1),
    Case(groups=2, ci=2, co=3, size=(2, 150), kernel=(1, 2), sparse_w=1),
    Case(n=2, ci=1, co=9, size=(11, 10), kernel=(9, 8), pad=(4, 1), stride=(2, 1), sparse_w=3),
    Case(ci=23, co=24, size=(1, 31), kernel=(1, 3), dil=(1, 4)),  # few taps that meet all, some or none of four pixels
    Case(n=2, ci=7, co=22, size=(3, 13), kernel=(1, 3), pad=(0, 5), dil=(1, 5), wide=3),
    Case(ci=24, co=5, size=(5, 6), kernel=(3, 1), pad=(4, 0), dil=(4, 1)),
    Case(groups=2, ci=6, co=3, size=(2, 2), kernel=(1, 2), pad=(0, 4)),  # an image narrower than four pixels
    Case(ci=17, co=4, size=(4, 1), kernel=(2, 2), pad=(2, 5), dil=(1, 3), wide=1),
    Case(n=2, ci=1, co=9, size=(11, 14), pad=(1, 1), stride=(2, 2), sparse_w=2),  # one channel on a side
    Case(n=2, groups=2, ci=1, co=17, size=(5, 7), pad=(1, 0), wide=1),
    Case(n=3, ci=11, co=1, size=(9, 6), pad=(0, 1), sparse_w=1),
    Case(n=2, groups=2, ci=7, co=1, size=(8, 9), pad=(1, 1), stride=(2, 2), wide=2),
    Case(n=2, groups=2, ci=3, co=6, size=(9, 12), pad=(1, 1), stride=(2, 2), sparse_w=2),  # pairs and threes
    Case(n=3, ci=23, co=9, size=(7, 4), pad=(1, 1), stride=(1, 2), wide=2),
    Case(ci=11, co=4, size=(13, 14), kernel=(2, 3), pad=(1, 2), dil=(3, 2), stride=(3, 2), sparse_w=1),
    Case(n=2, ci=1, co=37, size=(7, 12), pad=(2, 2), stride=(2, 2), more=(0, 1), wide=1),
    Case(groups=2, ci=1, co=70, size=(8, 17), pad=(1, 1), stride=(2, 2)),
    Case(ci=8, co=8, size=(8, 8)),  # windows inside, in threes
    Case(n=2, groups=2, ci=4, co=12, size=(3, 11), wide=2),
    Case(n=2, ci=20, co=16, size=(7, 14), sparse_w=2),
    Case(ci=28, co=32, size=(5, 8), wide=1),
    Case(ci=12, co=29, size=(4, 17)),
    Case(ci=31, co=4, size=(7, 7), pad=(-1, -1), wide=1),
    Case(ci=24, co=23, size=(6, 8), pad=(2, 0)),
    Case(n=2, groups=2, ci=6, co=19, size=(9, 8), sparse_w=2),
    Case(ci=2, co=31, size=(3, 8), pad=(1, 0), wide=1),
    Case(ci=8, co=29, size=(6, 11), pad=(2, 0)),
    Case(ci=7, co=4, size=(9, 5), dil=(3, 1)),
    Case(n=2, groups=2, ci=3, co=6, size=(23, 16), pad=(-1, -1), wide=2),  # ... what blocks of outputs meet
    Case(ci=5, co=7, size=(17, 21), pad=(0, -2), stride=(2, 2), dil=(2, 1), wide=1),
    Case(n=2, ci=2, co=3, size=(4, 70), pad=(-1, 0), more=(1, 0)),
    Case(ci=3, co=5, size=(8, 8), more=(1, 0)),  # ... but for the last row, and the last column
    Case(ci=3, co=5, size=(7, 9), more=(0, 1)),
]


# Sums of halves over more than a block, in one piece or several, for planes and for packed pixels.
DEEP = [
    Case(ci=37, co=33, size=(9, 8), pad=(1, 1)),
    Case(ci=70, co=69, size=(5, 3), kernel=(1, 1)),
    Case(ci=35, co=34, size=(7, 9), kernel=(2, 5), stride=(2, 2), pad=(1, 2)),
    Case(ci=33, co=35, size=(10, 12), stride=(2, 2), pad=(1, 1)),
    Case(ci=9, co=11, size=(11, 14), stride=(2, 2), pad=(2, 0), more=(-1, 0), wide=1),  # classes begin apart
    Case(n=2, ci=1, co=11, size=(13, 9), kernel=(11, 7), pad=(3, 3)),
    Case(ci=1, co=75, size=(7, 6), kernel=(3, 4), stride=(2, 1), pad=(1, 2)),
    Case(n=2, ci=1, co=67, size=(11, 8), kernel=(11, 7), pad=(3, 3)),
    Case(n=2, ci=4, co=7, size=(18, 15), kernel=(4, 3), stride=(2, 2), dil=(2, 2)),  # all taps in one class
    Case(ci=5, co=13, size=(12, 15), kernel=(3, 4), dil=(2, 3), stride=(4, 2), pad=(2, 4)),
    Case(ci=3, co=9, size=(11, 14), kernel=(4, 4), dil=(3, 2), stride=(2, 3), pad=(1, 2)),
    Case(ci=13, co=300, size=(5, 7), kernel=(1, 1), stride=(2, 2)),  # pixels left out
    Case(n=2, groups=3, ci=5, co=7, size=(7, 11), kernel=(1, 1), stride=(2, 3), wide=1, sparse_w=1),
    Case(n=3, ci=2, co=3, size=(8, 5), kernel=(1, 1), stride=(3, 1), more=(-1, 0)),
    Case(groups=2, ci=4, co=2, size=(1, 9), kernel=(1, 1), stride=(1, 4), wide=2),
]


@dataclass(frozen=True)
class Data:
    x: torch.Tensor
    w: torch.Tensor
    bias: torch.Tensor
    dy: torch.Tensor


def convolve(c: Case, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """With the padding behind the image that the number of outputs implies; negative padding crops."""
    after = [(c.out[i] - 1) * c.stride[i] + (c.kernel[i] - 1) * c.dil[i] + 1 - c.pad[i] - c.size[i] for i in range(2)]
    return F.conv2d(F.pad(x, (c.pad[1], after[1], c.pad[0], after[0])), w, None, c.stride, 0, c.dil, c.groups)


def reference(c: Case, direction: str, x: torch.Tensor, w: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    x, w, dy = (t.double().requires_grad_() for t in (x, w, dy))
    y = convolve(c, x, w)
    if direction == "fw":
        return y.detach()
    return torch.autograd.grad(y, x if direction == "bw_x" else w, dy)[0]


def rounded(t: torch.Tensor, storage: DType) -> torch.Tensor:
    return t if storage is DType.F32 else (t.bfloat16() if storage is DType.BF16 else t.half()).float()


def data_of(c: Case, exact: bool, transposed_bias: bool) -> Data:
    wide = c.groups * (c.ci if transposed_bias else c.co)
    shapes = (
        (c.n, c.groups * c.ci, *c.size),
        (c.groups * c.co, c.ci, *c.kernel),
        (wide,),
        (c.n, c.groups * c.co, *c.out),
    )
    return Data(*(torch.from_numpy(random(s, i, exact)) for i, s in enumerate(shapes)))


MODES = ((True, "accumulate"), (True, "bias"), (False, "plain"), (False, "accumulate"), (False, "bias"))


def operands(
    c: Case, direction: str, exact: bool, mode: str, storage: DType = DType.F32
) -> tuple[Conv, list[Tensor], Tensor]:
    d = data_of(c, exact, direction == "bw_x")
    x = pitched(d.x.numpy(), 0, c.wide, c.wide, 0)
    y = pitched(d.dy.numpy(), 0, c.wide, c.wide // 2, 0)
    w = pitched(d.w.numpy(), 0, c.sparse_w, 0, 0)
    reads = [t.stored_as(storage) for t in {"fw": [x, w], "bw_x": [y, w], "bw_w": [x, y]}[direction]]
    biased = mode == "bias" and direction != "bw_w"
    shape = ConvShape(c.n, c.groups, c.ci, c.co, *c.size, *c.out, *c.kernel, c.stride, c.pad, c.dil)
    kind = Conv(direction, shape, biased, mode == "accumulate", storage=storage)
    return kind, reads + ([pitched(d.bias.numpy(), 0)] if biased else []), {"fw": y, "bw_x": x, "bw_w": w}[direction]


def expectation(kind: Conv, c: Case, exact: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The result in double precision, and the size of its terms."""
    d = data_of(c, exact, kind.direction == "bw_x")
    read = [rounded(t, kind.storage) for t in (d.x, d.w, d.dy)]
    expected = reference(c, kind.direction, *read)
    size = reference(c, kind.direction, *(t.abs() for t in read))
    if kind.accumulate:
        start = {"fw": d.dy, "bw_x": d.x, "bw_w": d.w}[kind.direction].double()
    elif kind.bias:
        start = d.bias.double()[None, :, None, None]
    else:
        return expected, size
    return expected + start, size + start.abs()


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize(("storage", "suffix"), STORAGES.items())
def test_convolution(lib: ctypes.CDLL, case: Case, direction: str, storage: DType, suffix: str) -> None:
    for exact, mode in MODES:
        kind, reads, write = operands(case, direction, exact, mode, storage)
        expected, size = expectation(kind, case, exact)
        terms = {"fw": case.ci, "bw_x": case.co, "bw_w": case.n}[direction] * np.prod(
            case.out if direction == "bw_w" else case.kernel
        )
        bound = np.zeros(expected.shape) if exact else (EPS * (terms * case.n + 2) * size).numpy()
        first = fitting(kind, reads, write, 1)[0]
        wanted = run(lib, first, kind, reads, write, 1, f"reference_conv2d_{direction}{suffix}")
        np.testing.assert_array_less(np.abs(wanted - expected.numpy()), bound + 1e-300)
        few = ALL_CORES if (exact, mode) == (False, "plain") else (1, 3, 8)
        for cores, team, rows in (*((n, 0, 0) for n in few), *LEANER):
            lean = replace(kind, team=team, most_rows=rows)
            for row in fitting(lean, reads, write, cores):
                found = run(lib, row, lean, reads, write, cores)
                np.testing.assert_array_equal(found.view(np.int32), wanted.view(np.int32), err_msg=row.symbol)


@pytest.mark.parametrize("direction", ["fw", "bw_x"])
@pytest.mark.parametrize("case", [*CASES[::3], *DEEP], ids=str)
def test_results_are_rounded_as_they_are_stored(lib: ctypes.CDLL, case: Case, direction: str) -> None:
    """Complete sums, also those that several blocks of terms add up to, and pixels that no tap reaches."""
    for mode in ("bias", "plain"):
        kind, reads, write = operands(case, direction, False, mode, DType.F16)
        storing, half = replace(kind, result=DType.F16), write.stored_as(DType.F16)
        wanted = run(lib, fitting(kind, reads, write, 1)[0], kind, reads, write, 1).astype(np.float16)
        for cores, team, rows, tiles in ((1, 0, 0, 0), (3, 0, 4, 1), (8, 2, 8, 3)):
            lean = replace(storing, team=team, most_rows=rows, most_tiles=tiles)
            for row in fitting(lean, reads, half, cores):
                found = run(lib, row, lean, reads, half, cores)
                np.testing.assert_array_equal(found.view(np.int16), wanted.view(np.int16), err_msg=row.symbol)


@pytest.mark.parametrize("direction", ["fw", "bw_x"])
def test_sums_of_halves_take_little_room(direction: str) -> None:
    """Fault: those of a whole image were put aside, and a convolution read from L2 needed 20 kB where one of floats
    needs 2."""
    shape = ConvShape(1, 1, 32, 32, 33, 33, 33, 33, 3, 3, (1, 1), (2, 2), (2, 2))
    *_, last = Conv(direction, shape, storage=DType.F16, result=DType.F16).leaner(1)
    assert last.scratch(1) < 4000
    costs = resolve("pulp-open").costs
    assert last.cycles(1, costs) > 1.2 * replace(last, most_tiles=0).cycles(1, costs)


@pytest.mark.parametrize("direction", ["fw", "bw_x"])
@pytest.mark.parametrize("case", [*CASES[::3], *DEEP], ids=str)
def test_weights_are_rounded_as_they_are_packed(lib: ctypes.CDLL, case: Case, direction: str) -> None:
    kind, reads, write = operands(case, direction, False, "bias", DType.F16)
    floats = operands(case, direction, False, "bias")[1]
    packing, given = replace(kind, rounds=True), [reads[0], floats[1], *reads[2:]]
    for cores, row in itertools.product((1, 3), fitting(kind, reads, write, 3)):
        wanted, found = run(lib, row, kind, reads, write, cores), run(lib, row, packing, given, write, cores)
        np.testing.assert_array_equal(found.view(np.int32), wanted.view(np.int32), err_msg=row.symbol)


def test_kernel_rows_that_meet_the_image() -> None:
    for h, ho, kh, stride, pad in itertools.product((1, 6, 7), (1, 5, 6), (1, 5, 7), (1, 2), (-2, 0, 3, 8)):
        shape = ConvShape(1, 3, 1, 1, h, 5, ho, 5, kh, 5, (stride, stride), (pad, 2), (1, 1))
        rows = [0 <= y * stride - pad + k < h for y in range(ho) for k in range(kh)]
        assert met(Conv("fw", shape)) == sum(rows) / len(rows)


def test_every_row_is_tested() -> None:
    seen = set()
    for case in CASES:
        for direction, storage in itertools.product(DIRECTIONS, STORAGES):
            kind, reads, write = operands(case, direction, True, "plain", storage)
            seen |= {r.symbol for cores in ALL_CORES for r in fitting(kind, reads, write, cores)}
    for case, direction in itertools.product(DEEP, ("fw", "bw_x")):
        kind, reads, write = operands(case, direction, False, "plain", DType.F16)
        storing, half = replace(kind, result=DType.F16), write.stored_as(DType.F16)
        seen |= {r.symbol for r in fitting(storing, reads, half, 3)}
    assert seen == {r.symbol for r in (*PLANES, *AROUND, *IN_A_BLOCK, *INSIDE, *CONV, *CONV_F16, *DEPTHWISE)}


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("storage", STORAGES)
def test_every_tile_has_a_kernel(direction: str, storage: DType) -> None:
    """Fault: a tile of one input channel and one output channel is depthwise, for which there was none of halves."""
    kind, reads, write = operands(Case(n=2, ci=5, co=5, pad=(1, 1)), direction, True, "plain", storage)
    given, made = (tuple(t.operand.view for t in tensors) for tensors in (reads, [write]))
    parts = [kind.part(cut, given, made) for cuts in kind.cuts() for cut in cuts]
    assert len({p.kind for p in parts}) > 8
    for part in parts:
        assert chosen(part.kind, part.reads, part.writes, 8), part.kind


@pytest.mark.parametrize("direction", ["fw", "bw_x"])
@pytest.mark.parametrize("case", [Case(ci=8, co=12, size=(3, 3)), Case(ci=12, co=8, size=(2, 3))], ids=str)
def test_scratch_for_planes_is_that_of_the_kernels_that_tiles_take(case: Case, direction: str) -> None:
    """Fault: planes that are read where they lie had scratch for the panels of kernels that pack."""
    case = replace(case, kernel=(1, 1))
    kind, reads, write = operands(case, direction, True, "plain")
    given, made = (tuple(t.operand.view for t in tensors) for tensors in (reads, [write]))
    assert known_dense(kind, given, made)
    dense = replace(kind, dense=True)
    assert dense.scratch(8) < kind.scratch(8)
    tiles = [dense.part(cut, given, made) for cuts in dense.cuts() for cut in cuts]
    rows = [chosen(t.kind, t.reads, t.writes, 8) for t in tiles]
    assert all(row and row.scratch(t.kind, 8) <= t.kind.scratch(8) for row, t in zip(rows, tiles, strict=True))
    apart = given[0]._replace(strides=(*given[0].strides[:2], case.size[1] + 1, 1))
    assert not known_dense(kind, (apart, *given[1:]), made)
