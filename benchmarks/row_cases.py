"""What benchmarks/bench_rows.py times: operations of the shapes that networks for microcontrollers have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainlib_deployer.kernels import depthwise_f16
from trainlib_deployer.kernels.winograd import Winograd, most
from trainlib_deployer.kernels.winograd_f16 import WHOLE
from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.ops.conv_shape import ConvShape
from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.ops.pool import AvgPool, MaxPool, PoolShape
from trainlib_deployer.program.ir import DType, View


@dataclass(frozen=True)
class Case:
    title: str
    kind: Conv | MatMul | MaxPool | AvgPool
    reads: tuple[View, ...]
    writes: tuple[View, ...]

    @property
    def views(self) -> tuple[View, ...]:
        return (*self.reads, *self.writes)


def dense(*shape: int, order: Sequence[int] = ()) -> View:
    """Slowest axis first, in the order of the axes or another one."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(order or range(len(shape))):
        strides[axis] = step
        step *= shape[axis]
    return View("", shape, tuple(strides))


def convolutions(
    name: str, channels: tuple[int, int], size: tuple[int, int], kernel: int, stride: int, pad: int, groups: int = 1
) -> list[Case]:
    """All three directions."""
    (ci, co), (h, w) = channels, size
    ho, wo = ((n + 2 * pad - kernel) // stride + 1 for n in size)
    shape = ConvShape(1, groups, ci, co, h, w, ho, wo, kernel, kernel, (stride, stride), (pad, pad), (1, 1))
    x, y = dense(1, groups * ci, h, w), dense(1, groups * co, ho, wo)
    weight = dense(groups * co, ci, kernel, kernel)
    operands = {"fw": ((x, weight), (y,)), "bw_x": ((y, weight), (x,)), "bw_w": ((x, y), (weight,))}
    return [Case(f"{name}, {d}", Conv(d, shape), *operands[d]) for d in operands]


def depthwise(channels: int, size: tuple[int, int], kernel: int, stride: int, pad: int) -> list[Case]:
    name = f"depthwise {kernel}x{kernel} {channels} on {size[0]}x{size[1]}, stride {stride}, padding {pad}"
    return convolutions(name, (1, 1), size, kernel, stride, pad, channels)


def convolution(channels: tuple[int, int], size: tuple[int, int], kernel: int, stride: int, pad: int) -> list[Case]:
    name = f"{kernel}x{kernel} {channels[0]}->{channels[1]} on {size[0]}x{size[1]}, stride {stride}, padding {pad}"
    return convolutions(name, channels, size, kernel, stride, pad)


def winograd(channels: tuple[int, int], size: tuple[int, int], pad: int = 1, twos: bool = False) -> list[Case]:
    """Where L1 has room for it, by two rows of the transformed 4 x 4 at a time, too."""
    return [
        replace(c, title=f"{c.title}, Winograd", kind=replace(c.kind, winograd=most(c.kind) if twos else Winograd()))
        for c in convolution(channels, size, 3, 1, pad)
        if isinstance(c.kind, Conv)
    ]


def product(m: int, n: int, k: int, left: str = "mk", right: str = "kn", batch: int = 1) -> Case:
    """left and right name the axes as they lie, slowest first."""
    a = dense(batch, m, k, order=(0, 1, 2) if left == "mk" else (0, 2, 1))
    b = dense(batch, k, n, order=(0, 1, 2) if right == "kn" else (0, 2, 1))
    name = f"product {m}x{n}x{k}, {left} {right}" + (f", {batch} times" if batch > 1 else "")
    return Case(name, MatMul(batch, m, n, k), (a, b), (dense(batch, m, n),))


def pools(planes: int, size: int, kernel: int, stride: int, pad: int) -> list[Case]:
    """Maxima and averages, both directions."""
    out = (size + 2 * pad - kernel) // stride + 1
    shape = PoolShape(planes, size, size, out, out, (kernel, kernel), (stride, stride), (pad, pad))
    x, y = dense(planes, size, size), dense(planes, out, out)
    name = f"{kernel}x{kernel} of {planes} on {size}x{size}, stride {stride}, padding {pad}"
    return [
        Case(f"maxima {name}, fw", MaxPool("fw", shape, DType.U8), (x,), (y, y)),
        Case(f"maxima {name}, bw", MaxPool("bw", shape, DType.U8), (y, y), (x,)),
        Case(f"averages {name}, fw", AvgPool("fw", shape), (x,), (y,)),
        Case(f"averages {name}, bw", AvgPool("bw", shape), (y,), (x,)),
    ]


FLOATS: tuple[Case, ...] = (
    *depthwise(64, (25, 5), 3, 1, 1),
    *depthwise(16, (12, 12), 3, 1, 0),
    *depthwise(24, (16, 16), 3, 2, 1),
    *depthwise(8, (24, 24), 3, 1, 1),
    *depthwise(48, (8, 8), 3, 2, 1),
    *depthwise(3, (24, 24), 3, 2, 1),
    *depthwise(5, (17, 13), 3, 1, 1),
    *depthwise(24, (12, 12), 5, 1, 2),
    *depthwise(24, (12, 12), 5, 2, 2),
    *depthwise(24, (12, 12), 7, 1, 3),
    *depthwise(40, (8, 8), 7, 2, 3),
    *depthwise(40, (6, 6), 5, 1, 2),
    *depthwise(32, (12, 12), 7, 2, 3),
    *depthwise(2, (16, 16), 5, 1, 2),
    *convolution((16, 16), (16, 16), 3, 1, 1),
    *convolution((32, 32), (8, 8), 3, 1, 1),
    *convolution((8, 8), (8, 8), 3, 1, 0),
    *convolution((16, 32), (16, 16), 3, 2, 1),
    *convolution((8, 16), (12, 12), 3, 2, 1),
    *convolution((3, 16), (16, 16), 3, 1, 1),
    *convolution((64, 64), (25, 5), 1, 1, 0),
    *convolution((16, 16), (10, 10), 1, 1, 0),
    *convolution((8, 3), (24, 24), 1, 1, 0),
    *convolution((10, 16), (9, 9), 1, 1, 0),
    *convolution((64, 64), (3, 3), 1, 1, 0),
    *convolution((16, 32), (16, 16), 1, 2, 0),
    *pools(8, 16, 2, 2, 0),
    *pools(8, 16, 3, 2, 1),
    *pools(24, 9, 3, 1, 1),
    *pools(32, 8, 8, 1, 0),
    *winograd((16, 16), (16, 16)),
    *winograd((32, 32), (8, 8)),
    *winograd((8, 8), (8, 8), 0),
    *winograd((8, 8), (16, 16), twos=True),
    *winograd((8, 8), (24, 24)),
    *convolution((8, 8), (24, 24), 3, 1, 1),
    product(32, 32, 32),
    product(32, 32, 32, right="nk"),
    product(32, 32, 32, left="km"),
    product(64, 64, 64),
    product(64, 64, 64, right="nk"),
    product(64, 64, 64, left="km"),
    product(17, 16, 17, right="nk", batch=4),
    product(17, 17, 16, batch=4),
    product(1, 32, 256),
    product(1, 32, 256, right="nk"),
    product(256, 32, 1),
    product(128, 2, 64),
    product(8, 2, 640),
    product(12, 288, 2, left="km"),
    product(288, 12, 2, left="km"),
    product(8, 1, 640),
    product(1, 8, 640),
    *(product(6, 7, 320, left, right) for left in ("mk", "km") for right in ("kn", "nk")),
)


SCRATCH = 25_000  # beside the operands of such a case


def of_halves(case: Case) -> Case:
    assert not isinstance(case.kind, AvgPool)
    kind = replace(case.kind, storage=DType.F16)
    if isinstance(kind, Conv) and kind.winograd and kind.direction != "bw_w":
        kind = replace(kind, winograd=WHOLE, result=DType.F16)
        kind = next(k for k in (kind, *kind.leaner(8)) if k.scratch(8) <= SCRATCH)
    elif isinstance(kind, Conv) and depthwise_f16.pays(kind):
        kind = replace(kind, twos=True, result=DType.F32 if kind.direction == "bw_w" else DType.F16)
    elif isinstance(kind, Conv) and depthwise_f16.widens(kind):
        kind = replace(kind, widens=True, result=DType.F32 if kind.direction == "bw_w" else DType.F16)
    elif isinstance(kind, Conv) and kind.direction == "bw_x" and kind.shape.kh == 1 < kind.shape.stride[0]:
        kind = replace(kind, result=DType.F16)
    return replace(case, title=f"{case.title}, halves", kind=kind)


CASES = (*FLOATS, *(of_halves(c) for c in FLOATS if not isinstance(c.kind, AvgPool)))
