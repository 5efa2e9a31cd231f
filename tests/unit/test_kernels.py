"""The convolution kernels against torch in double precision, and their order of summation bit by bit."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
import torch.nn.functional as F

from trainlib_deployer.ops.kernel_scratch import conv_scratch

C_LIB = Path(__file__).parents[2] / "c_lib"
SOURCES = [
    "hal/host.c",
    *(f"kernels/{n}.c" for n in ("conv", "tile/tile", "conv_bw_w", "depthwise", "depthwise_bw_w")),
]
FLAGS = ["-std=gnu99", "-O2", "-ffp-contract=off", "-fno-math-errno", "-Wall", "-Wextra", "-Werror"]
CORES = (1, 3, 8)
LEANER = ((8, 3, 4), (5, 1, 8), (3, 2, 12), (4, 7, 4), (8, 8, 4))  # cores, team, packed rows
MOST_ROWS = 16
CANARY = np.float32(12345.678)
EPS = 2.0**-23
Array = npt.NDArray[np.float32]

# One element at a time, in the order that docs/kernels.md prescribes.
NAIVE = """
#include "tl_conv.h"
typedef struct { float total, chain; int terms; } sum;
static void add(sum *s, float a, float b)
{
    s->chain = __builtin_fmaf(a, b, s->chain);
    if (++s->terms % 64 == 0)
        s->total += s->chain, s->chain = 0;
}
static float end(const sum *s) { return s->total + s->chain; }
static float at(const float *image, tl_pitch p, int n, int c, int y, int x, int h, int w)
{
    return y < 0 || x < 0 || y >= h || x >= w ? 0 : image[n * p.n + c * p.c + y * p.h + x];
}
void naive_fw(const tl_conv2d *a)
{
    for (int n = 0; n < a->n; n++) for (int o = 0; o < a->groups * a->co; o++)
    for (int y = 0; y < a->ho; y++) for (int x = 0; x < a->wo; x++) {
        float *to = a->y + n * a->yp.n + o * a->yp.c + y * a->yp.h + x;
        sum s = {a->accumulate ? *to : a->bias ? a->bias[o] : 0, 0, 0};
        for (int c = 0; c < a->ci; c++) for (int i = 0; i < a->kh; i++) for (int j = 0; j < a->kw; j++)
            add(&s, a->w[o * a->w_co + c * a->w_ci + i * a->kw + j],
                at(a->x, a->xp, n, o / a->co * a->ci + c, y * a->stride_h - a->pad_h + i * a->dil_h,
                   x * a->stride_w - a->pad_w + j * a->dil_w, a->h, a->wd));
        *to = end(&s);
    }
}
void naive_bw_x(const tl_conv2d *a)
{
    for (int n = 0; n < a->n; n++) for (int c = 0; c < a->groups * a->ci; c++)
    for (int y = 0; y < a->h; y++) for (int x = 0; x < a->wd; x++) {
        float *to = a->x + n * a->xp.n + c * a->xp.c + y * a->xp.h + x;
        sum s = {a->accumulate ? *to : a->bias ? a->bias[c] : 0, 0, 0};
        for (int o = 0; o < a->co; o++) for (int i = 0; i < a->kh; i++) for (int j = 0; j < a->kw; j++) {
            int v = y + a->pad_h - i * a->dil_h, u = x + a->pad_w - j * a->dil_w, from = c / a->ci * a->co + o;
            if (v % a->stride_h == 0 && u % a->stride_w == 0)
                add(&s, a->w[from * a->w_co + c % a->ci * a->w_ci + i * a->kw + j],
                    at(a->y, a->yp, n, from, v / a->stride_h, u / a->stride_w, a->ho, a->wo));
        }
        *to = end(&s);
    }
}
void naive_bw_w(const tl_conv2d *a)
{
    for (int o = 0; o < a->groups * a->co; o++) for (int c = 0; c < a->ci; c++)
    for (int i = 0; i < a->kh; i++) for (int j = 0; j < a->kw; j++) {
        float *to = a->w + o * a->w_co + c * a->w_ci + i * a->kw + j;
        sum s = {a->accumulate ? *to : 0, 0, 0};
        for (int n = 0; n < a->n; n++) for (int y = 0; y < a->ho; y++) for (int x = 0; x < a->wo; x++)
            add(&s, a->y[n * a->yp.n + o * a->yp.c + y * a->yp.h + x],
                at(a->x, a->xp, n, o / a->co * a->ci + c, y * a->stride_h - a->pad_h + i * a->dil_h,
                   x * a->stride_w - a->pad_w + j * a->dil_w, a->h, a->wd));
        *to = end(&s);
    }
}
int conv_scratch(const tl_conv2d *a, int direction, int cores) { return tl_conv2d_scratch(a, direction, cores); }
"""

FLOATS = ctypes.c_void_p
INT = ctypes.c_int


class Pitch(ctypes.Structure):
    _fields_ = [(name, INT) for name in "nch"]


class Conv2d(ctypes.Structure):
    _fields_ = [
        *((name, FLOATS) for name in ("x", "w", "y", "bias")),
        *((name, INT) for name in ("n", "groups", "ci", "co", "h", "wd", "ho", "wo", "kh", "kw")),
        *((name, INT) for name in ("stride_h", "stride_w", "pad_h", "pad_w", "dil_h", "dil_w")),
        ("xp", Pitch),
        ("yp", Pitch),
        *((name, INT) for name in ("w_co", "w_ci", "accumulate", "team", "packed_rows")),
        ("scratch", FLOATS),
    ]


@pytest.fixture(scope="session")
def conv_lib(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "naive.c").write_text(NAIVE)
    files = [str(C_LIB / s) for s in SOURCES] + [str(folder / "naive.c")]
    machine = ["-mfma"] if " fma " in Path("/proc/cpuinfo").read_text() else []
    target = folder / "kernels.so"
    subprocess.run(
        [
            "gcc",
            *FLAGS,
            *machine,
            "-shared",
            "-fPIC",
            f"-I{C_LIB / 'include'}",
            f"-I{C_LIB / 'ukernels'}",
            *files,
            "-o",
            target,
            "-lpthread",
            "-lm",
        ],
        check=True,
    )
    return ctypes.CDLL(str(target))


@dataclass
class Tensor:
    """An array that lies with given element strides in a larger buffer full of canaries."""

    values: Array
    strides: tuple[int, ...]
    margin: int = 9
    buffer: Array = field(init=False)

    def __post_init__(self) -> None:
        span = sum((n - 1) * s for n, s in zip(self.values.shape, self.strides, strict=True)) + 1
        self.buffer = np.full(span + 2 * self.margin, CANARY, np.float32)
        self.view[...] = self.values

    @property
    def view(self) -> Array:
        return np.lib.stride_tricks.as_strided(
            self.buffer[self.margin :], self.values.shape, [4 * s for s in self.strides], writeable=True
        )

    @property
    def address(self) -> int:
        return int(self.buffer[self.margin :].ctypes.data)

    def fresh(self) -> Tensor:
        return Tensor(self.values, self.strides, self.margin)

    def surroundings_intact(self) -> bool:
        rest = self.buffer.copy()
        np.lib.stride_tricks.as_strided(rest[self.margin :], self.values.shape, [4 * s for s in self.strides])[...] = (
            CANARY
        )
        return bool((rest == CANARY).all())


def pitched(values: Array, *extra: int) -> Tensor:
    """Row-major, `extra` elements wider along each axis than dense."""
    strides, step = [], 1
    for size, more in zip(reversed(values.shape), reversed(extra), strict=True):
        strides.append(step)
        step = step * size + more
    return Tensor(values, tuple(reversed(strides)))


def random(shape: tuple[int, ...], seed: int, exact: bool) -> Array:
    generator = np.random.default_rng([seed, *shape])
    if exact:
        return generator.integers(-1, 2, shape).astype(np.float32)
    return generator.standard_normal(shape).astype(np.float32)


def run(
    lib: ctypes.CDLL,
    kernel: str,
    make: Callable[[int], tuple[ctypes.Structure, Tensor]],
    scratch: Callable[[int, int], int],
    cores: int,
    naive: str = "",
    team: int = 0,
    rows: int = 0,
) -> Array:
    """One call by `cores`; everything around the scratch, which may be for fewer, and the output keeps its canaries."""
    size = scratch(min(team or cores, cores), rows or MOST_ROWS) // 4
    room = np.full(size + 32, CANARY, np.float32)
    argument, out = make(int(room[16:].ctypes.data))
    argument.team = team
    if hasattr(argument, "packed_rows"):
        argument.packed_rows = rows
    function = ctypes.cast(getattr(lib, naive or kernel), ctypes.c_void_p)
    lib.tl_cluster_run(1 if naive else cores, function, ctypes.byref(argument), None, ctypes.c_size_t(0))
    assert out.surroundings_intact()
    assert (room[:16] == CANARY).all()
    assert (room[16 + size :] == CANARY).all()
    return out.view.copy()


def check(
    lib: ctypes.CDLL,
    kernel: str,
    naive: str,
    make: Callable[[int], tuple[ctypes.Structure, Tensor]],
    scratch: Callable[[int, int], int],
    expected: npt.NDArray[np.float64],
    bound: npt.NDArray[np.float64],
) -> None:
    results = [run(lib, kernel, make, scratch, cores) for cores in CORES]
    np.testing.assert_array_less(np.abs(results[0] - expected), bound + 1e-300, err_msg=kernel)
    np.testing.assert_array_equal(results[0], run(lib, kernel, make, scratch, 1, naive), err_msg="order of summation")
    results += [run(lib, kernel, make, scratch, cores, "", team, rows) for cores, team, rows in LEANER]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].view(np.int32), other.view(np.int32))


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


def data_of(c: Case, exact: bool, transposed_bias: bool) -> Data:
    wide = c.groups * (c.ci if transposed_bias else c.co)
    shapes = (
        (c.n, c.groups * c.ci, *c.size),
        (c.groups * c.co, c.ci, *c.kernel),
        (wide,),
        (c.n, c.groups * c.co, *c.out),
    )
    return Data(*(torch.from_numpy(random(s, i, exact)) for i, s in enumerate(shapes)))


def argument(c: Case, direction: str, d: Data, mode: str, scratch: int) -> tuple[Conv2d, Tensor, list[Tensor]]:
    x = pitched(d.x.numpy(), 0, c.wide, c.wide, 0)
    y = pitched(d.dy.numpy(), 0, c.wide, c.wide // 2, 0)
    w = pitched(d.w.numpy(), 0, c.sparse_w, 0, 0)
    bias = pitched(d.bias.numpy(), 0)
    pick = {"fw": y, "bw_x": x, "bw_w": w}[direction]
    pointer = bias.address if mode == "bias" and direction != "bw_w" else None
    extents = (c.n, c.groups, c.ci, c.co, *c.size, *c.out, *c.kernel, *c.stride, *c.pad, *c.dil)
    pitches = (Pitch(*x.strides[:3]), Pitch(*y.strides[:3]), *w.strides[:2])
    s = Conv2d(x.address, w.address, y.address, pointer, *extents, *pitches, int(mode == "accumulate"), 0, 0, scratch)
    return s, pick, [x, y, w, bias]


@pytest.mark.parametrize("direction", ["fw", "bw_x", "bw_w"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution(conv_lib: ctypes.CDLL, case: Case, direction: str) -> None:
    for exact, mode in ((True, "accumulate"), (True, "bias"), (False, "plain"), (False, "accumulate"), (False, "bias")):
        d = data_of(case, exact, direction == "bw_x")
        expected = reference(case, direction, d.x, d.w, d.dy)
        size = reference(case, direction, d.x.abs(), d.w.abs(), d.dy.abs())
        start = {"fw": d.dy, "bw_x": d.x, "bw_w": d.w}[direction].double()
        if mode == "bias" and direction != "bw_w":
            start = d.bias.double()[None, :, None, None].expand_as(expected)
        if mode == "accumulate" or (mode == "bias" and direction != "bw_w"):
            expected, size = expected + start, size + start.abs()
        terms = {"fw": case.ci, "bw_x": case.co, "bw_w": 1}[direction] * np.prod(
            case.out if direction == "bw_w" else case.kernel
        )
        keep: list[Tensor] = []

        def make(scratch: int, d: Data = d, mode: str = mode, keep: list[Tensor] = keep) -> tuple[Conv2d, Tensor]:
            s, out, others = argument(case, direction, d, mode, scratch)
            keep[:] = others
            return s, out

        def scratch(cores: int, rows: int) -> int:
            c = case
            extents = (c.n, c.groups, c.ci, c.co, *c.size, *c.out, *c.kernel)
            return conv_scratch(direction, *extents, c.stride, c.pad, c.dil, cores, rows)

        bound = np.zeros(expected.shape) if exact else (EPS * (terms * case.n + 2) * size).numpy()
        check(conv_lib, f"tl_conv2d_{direction}_f32", f"naive_{direction}", make, scratch, expected.numpy(), bound)
        number = ("fw", "bw_x", "bw_w").index(direction)
        for rows in (4, MOST_ROWS):
            example = make(0)[0]
            example.packed_rows = rows
            assert conv_lib.conv_scratch(ctypes.byref(example), number, 5) == scratch(5, rows)
