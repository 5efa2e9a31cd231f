"""Pooling: rules and kernels together against PyTorch, on 1, 3 and 8 cores."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.unit.kernel_harness import execute, struct
from trainlib_deployer.kernels.pool import POOL
from trainlib_deployer.kernels.table import rows_for
from trainlib_deployer.ops import pool
from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.registry import RULES
from trainlib_deployer.program.call import Operand
from trainlib_deployer.program.ir import DType, Op, Program, View

SENTINEL = -777
TESTED: set[str] = set()
aten = torch.ops.aten
MAX = aten.max_pool2d_with_indices.default, aten.max_pool2d_with_indices_backward.default
Array = np.ndarray[Any, Any]


class Memory:
    """Tensors of a program as arrays; pointers in calls are their names."""

    def __init__(self, program: Program) -> None:
        self.arrays = {
            n: np.full(max(t.numel, 1), SENTINEL, np.int64).astype(t.dtype.numpy_name)
            for n, t in program.tensors.items()
        }

    def operand(self, view: View) -> Operand:
        array = self.arrays[view.tensor]
        return Operand(str(array.ctypes.data + view.offset * array.itemsize), view)

    def read(self, view: View) -> Array:
        array = self.arrays[view.tensor]
        strides = tuple(s * array.itemsize for s in view.strides)
        return np.lib.stride_tricks.as_strided(array[view.offset :], view.shape, strides)

    def write(self, view: View, values: Array) -> None:
        self.read(view)[...] = values


def carry_out(lib: ctypes.CDLL, op: Op, memory: Memory, cores: int, known: Memory | None = None) -> None:
    """By every row that takes it, which all give the bits of the reference, or what is known."""
    assert isinstance(op.kind, pool.MaxPool | pool.AvgPool)
    rows = rows_for(op.kind, cores)
    wanted = [] if known is None else [known.read(v).astype(memory.read(v).dtype) for v in op.writes]
    tried = [] if wanted else [(rows[0], f"reference_{op.kind.name}")]
    for row, reference in (*tried, *((r, "") for r in rows)):
        for view in op.writes:
            memory.write(view, np.full(view.shape, 77))
        operands = [[memory.operand(v) for v in views] for views in (op.reads, op.writes)]
        execute(lib, row, row.call(op.kind, *operands, "0"), 1 if reference else cores, reference)
        found = [memory.read(view).copy() for view in op.writes]
        wanted = wanted or found
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(found, wanted, strict=True)), row.symbol
        TESTED.add(row.symbol)


def sample(*shape: int, window: int = 0) -> torch.Tensor:
    """Few distinct values, so that windows have ties."""
    return torch.randint(-4, 5, shape).float() + (torch.randn(shape) if window % 2 else 0)


def place(b: Builder, shape: tuple[int, ...], strided: bool) -> View:
    if not strided:
        return b.tensor(shape)
    outer = b.tensor((*shape[:-2], shape[-2] + 1, shape[-1]))
    return outer.sliced(len(shape) - 2, 1, shape[-2] + 1)


def lowered(
    target: Any, back: Any, x: torch.Tensor, forward: list[Any], backward: list[Any], strided: bool
) -> tuple[Builder, View, View, View, View]:
    """A program of the forward rule and the backward rule: builder, x, y, dL/dy, dL/dx."""
    b = Builder(Program("test"))
    fake = target(x, *forward)
    b.meta = [SimpleNamespace(shape=t.shape) for t in fake] if isinstance(fake, tuple) else fake
    vx = place(b, tuple(x.shape), strided)
    made = RULES[target](b, vx, *forward)
    vy, indices = made if isinstance(made, tuple) else (made, None)
    vg = place(b, vy.shape, strided)
    gx = RULES[back](b, vg, vx, *backward, *([indices] if indices is not None else []))
    return b, vx, vy, vg, gx


def check(
    lib: ctypes.CDLL,
    target: Any,
    back: Any,
    x: torch.Tensor,
    forward: list[Any],
    backward: list[Any],
    reference: Callable[[torch.Tensor], torch.Tensor],
    strided: bool = False,
) -> Builder:
    b, vx, vy, vg, vgx = lowered(target, back, x, forward, backward, strided)
    wanted_x = x.double().requires_grad_()
    wanted_y = reference(wanted_x)
    g = torch.randn(wanted_y.shape)
    wanted_y.backward(g.double())
    first: dict[str, Array] = {}
    for cores in (1, 3, 8):
        memory = Memory(b.program)
        memory.write(vx, x.numpy())
        memory.write(vg, g.numpy())
        for op in b.program.ops:
            carry_out(lib, op, memory, cores)
        first = first or memory.arrays
        assert all(np.array_equal(memory.arrays[n], a, equal_nan=True) for n, a in first.items()), cores
    memory.arrays = first
    close(memory.read(vy), wanted_y)
    close(memory.read(vgx), wanted_x.grad)
    return b


def close(found: Array, wanted: torch.Tensor | None) -> None:
    assert wanted is not None and found.shape == tuple(wanted.shape)
    np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=2e-6, atol=4e-6)


def legal(kernel: list[int], x: torch.Tensor, pad: list[int], dilation: list[int]) -> bool:
    extents = x.shape[-2:]
    return all(d * (k - 1) + 1 <= e + 2 * p for k, e, p, d in zip(kernel, extents, pad, dilation, strict=True))


def drawn(seed: int) -> tuple[torch.Tensor, list[Any]]:
    """An image, and how windows lie on it."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    while True:
        lead = [rng.randint(1, 4) for _ in range(rng.choice((1, 2)))]
        x = sample(*lead, rng.randint(1, 13), rng.randint(1, 17), window=seed)
        kernel = [rng.randint(1, 5), rng.randint(1, 5)]
        stride = [rng.randint(1, 6), rng.randint(1, 6)] if seed % 3 else []
        pad = [rng.randint(0, k // 2) for k in kernel]
        dilation = [rng.randint(1, 3), rng.randint(1, 3)] if seed % 2 else [1, 1]
        if legal(kernel, x, pad, dilation) and all(p == 0 or d == 1 for p, d in zip(pad, dilation, strict=True)):
            return x, [kernel, stride, pad, dilation, bool(seed & 4)]


@pytest.mark.parametrize("seed", range(60))
def test_max_pool(lib: ctypes.CDLL, seed: int) -> None:
    x, arguments = drawn(seed)
    check(
        lib,
        *MAX,
        x,
        arguments,
        arguments,
        lambda v: F.max_pool2d(v, arguments[0], arguments[1] or None, *arguments[2:]),
        strided=seed % 5 == 0,
    )


@pytest.mark.parametrize("seed", range(24))
def test_max_pool_over_three_columns(lib: ctypes.CDLL, seed: int) -> None:
    """Overlapping windows of all widths of images, down to one column."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    pad = [rng.randint(0, 1), seed % 2]
    x = sample(rng.randint(1, 3), rng.randint(1, 3), rng.randint(3, 9), rng.randint(3 - 2 * pad[1], 12), window=seed)
    stride = [rng.randint(1, 3), 1 + seed // 2 % 2]
    arguments = [[rng.randint(2, 3), 3], stride, pad, [1, 1], bool(seed & 4)]
    check(
        lib,
        *MAX,
        x,
        arguments,
        arguments,
        lambda v: F.max_pool2d(v, *arguments),
        strided=seed % 5 == 0,
    )


@pytest.mark.parametrize("dilation", [2, 3])
def test_max_pool_dilated_and_padded(lib: ctypes.CDLL, dilation: int) -> None:
    torch.manual_seed(1)
    arguments = [[3, 3], [2, 1], [1, 1], [dilation, 2], False]
    check(
        lib,
        *MAX,
        sample(2, 3, 11, 9),
        arguments,
        arguments,
        lambda v: F.max_pool2d(v, [3, 3], [2, 1], [1, 1], [dilation, 2]),
    )


@pytest.mark.parametrize(("kernel", "tap"), [((15, 17), DType.U8), ((16, 16), DType.U16), ((1, 300), DType.U16)])
def test_tap_types(lib: ctypes.CDLL, kernel: tuple[int, int], tap: DType) -> None:
    torch.manual_seed(2)
    x = torch.randn(1, 2, kernel[0] + 3, kernel[1] + 5)
    arguments = [list(kernel), [2, 3], [0, 0], [1, 1], False]
    b = check(
        lib,
        *MAX,
        x,
        arguments,
        arguments,
        lambda v: F.max_pool2d(v, kernel, (2, 3)),
    )
    assert [t.dtype for n, t in b.program.tensors.items() if "tap" in n] == [tap]
    assert [t.shape[1:] for n, t in b.program.tensors.items() if "tap" in n] == [(2, 2)]


def test_wide_taps(lib: ctypes.CDLL) -> None:
    torch.manual_seed(3)
    x = torch.randn(2, 1, 257, 259)
    b = check(
        lib,
        aten.adaptive_max_pool2d.default,
        aten.adaptive_max_pool2d_backward.default,
        x,
        [[1, 1]],
        [],
        lambda v: F.adaptive_max_pool2d(v, 1),
    )
    assert b.dtype(b.program.ops[0].writes[1]) is DType.I32


@pytest.mark.parametrize("seed", range(60))
def test_avg_pool(lib: ctypes.CDLL, seed: int) -> None:
    rng = random.Random(seed)
    torch.manual_seed(seed)
    while True:
        lead = [rng.randint(1, 4) for _ in range(rng.choice((1, 2)))]
        x = torch.randn(*lead, rng.randint(1, 13), rng.randint(1, 17))
        kernel = [rng.randint(1, 5), rng.randint(1, 5)]
        stride = [rng.randint(1, 6), rng.randint(1, 6)] if seed % 3 else []
        pad = [rng.randint(0, k // 2) for k in kernel]
        if legal(kernel, x, pad, [1, 1]) and tuple(kernel) != tuple(x.shape[-2:]):
            break
    divisor = rng.choice((None, None, 1, 7, -3))
    arguments = [kernel, stride, pad, bool(seed & 4), bool(seed & 8), divisor]
    check(
        lib,
        aten.avg_pool2d.default,
        aten.avg_pool2d_backward.default,
        x,
        arguments,
        arguments,
        lambda v: F.avg_pool2d(v, kernel, stride or None, *arguments[2:]),
        strided=seed % 5 == 0,
    )


def test_long_windows(lib: ctypes.CDLL) -> None:
    torch.manual_seed(4)
    arguments = [[1, 151], [1, 1], [0, 75], False, False, None]
    check(
        lib,
        aten.avg_pool2d.default,
        aten.avg_pool2d_backward.default,
        torch.randn(3, 1, 200),
        arguments,
        arguments,
        lambda v: F.avg_pool2d(v, *arguments),
    )


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("seed", range(16))
def test_adaptive(lib: ctypes.CDLL, seed: int, largest: bool) -> None:
    rng = random.Random(seed)
    torch.manual_seed(seed)
    lead = [rng.randint(1, 4) for _ in range(rng.choice((1, 2)))]
    x = sample(*lead, rng.randint(2, 19), rng.randint(2, 23), window=seed)
    size = [rng.randint(1, 9), rng.randint(2, 9)]
    kinds = {
        True: (aten.adaptive_max_pool2d.default, aten.adaptive_max_pool2d_backward.default, F.adaptive_max_pool2d),
        False: (aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool2d_backward.default, F.adaptive_avg_pool2d),
    }
    target, back, reference = kinds[largest]
    check(lib, target, back, x, [size], [], lambda v: reference(v, size), strided=seed % 5 == 0)


def test_equal_windows_become_regular() -> None:
    b = Builder(Program("test"))
    assert not pool.adaptive(b, (2, 12, 15), (2, 4, 3)).adaptive
    assert pool.adaptive(b, (2, 12, 15), (2, 4, 3)).kernel == (3, 5)
    assert pool.adaptive(b, (2, 12, 15), (2, 4, 4)).adaptive
    assert pool.adaptive(b, (2, 12, 15), (2, 4, 4)).kernel == (3, 5)


def test_nan_and_infinity(lib: ctypes.CDLL) -> None:
    torch.manual_seed(5)
    x = sample(2, 3, 9, 8)
    x.view(-1)[torch.randperm(x.numel())[:30]] = float("nan")
    x[0, 0] = float("-inf")
    x[1, 2, 3] = float("inf")
    arguments = [[3, 2], [2, 1], [1, 1], [1, 1], True]
    check(
        lib,
        *MAX,
        x,
        arguments,
        arguments,
        lambda v: F.max_pool2d(v, *arguments),
    )


@pytest.mark.parametrize("target", [aten.avg_pool2d.default, aten._adaptive_avg_pool2d.default])
def test_global_average_is_a_loop(target: Any) -> None:
    x = torch.randn(2, 3, 5, 7)
    kernel = [5, 7] if target is aten.avg_pool2d.default else [1, 1]
    back = {
        aten.avg_pool2d.default: aten.avg_pool2d_backward.default,
        aten._adaptive_avg_pool2d.default: aten._adaptive_avg_pool2d_backward.default,
    }[target]
    backward = [kernel, [], [0, 0], False, True, None] if target is aten.avg_pool2d.default else []
    b, _, y, _, gx = lowered(target, back, x, [kernel], backward, strided=False)
    assert [op.kind.name for op in b.program.ops] == ["reduce", "map"]
    assert (y.shape, gx.shape) == ((2, 3, 1, 1), (2, 3, 5, 7))


def one_dimensional(target: Any, x: torch.Tensor, y: torch.Tensor, *arguments: Any) -> tuple[Builder, View, View]:
    b = Builder(Program("test"), meta=y)
    vx = b.tensor(x.shape)
    return b, vx, RULES[target](b, vx, *arguments)


@pytest.mark.parametrize("lead", [(3,), (2, 3)])
def test_signals(lib: ctypes.CDLL, lead: tuple[int, ...]) -> None:
    torch.manual_seed(6)
    x = torch.randn(*lead, 17)
    cases: list[tuple[Any, torch.Tensor, list[Any]]] = [
        (aten.avg_pool1d.default, F.avg_pool1d(x, 4, 3, 2, False, False), [[4], [3], [2], False, False]),
        (aten.avg_pool1d.default, F.avg_pool1d(x, 4), [[4]]),
        (aten.adaptive_avg_pool1d.default, F.adaptive_avg_pool1d(x, 5), [[5]]),
    ]
    for target, wanted, arguments in cases:
        b, vx, vy = one_dimensional(target, x, wanted, *arguments)
        memory = Memory(b.program)
        memory.write(vx, x.numpy())
        for op in b.program.ops:
            carry_out(lib, op, memory, 3)
        close(memory.read(vy), wanted)


def run(lib: ctypes.CDLL, function: str, **fields: Any) -> None:
    pointers = {n: v.ctypes.data if isinstance(v, np.ndarray) else v for n, v in fields.items()}
    arguments = struct("tl_pool.h", "tl_pool2d")(**pointers)
    lib.tl_cluster_run(3, getattr(lib, function), ctypes.byref(arguments), None, ctypes.c_size_t(0))


def test_tiles_give_the_same_bits(lib: ctypes.CDLL) -> None:
    """Output rows 2..4 and then their input rows, computed from the rows they need only."""
    rng = np.random.default_rng(7)
    h, w, ho, wo = 11, 9, 6, 5
    x = rng.standard_normal((2, h, w)).astype(np.float32)
    whole = {"planes": 2, "h": h, "wd": w, "ho": ho, "wo": wo, "kh": 3, "kw": 3, "dil_h": 1, "dil_w": 1}
    whole |= {"stride_h": 2, "stride_w": 2, "pad_h": 1, "pad_w": 1, "count_h1": h, "count_w1": w, "tap_bytes": 1}
    pitch = struct("tl_pool.h", "tl_pool_pitch")
    pitches = {"xp": pitch(h * w, w), "yp": pitch(ho * wo, wo), "tp": pitch(ho * wo, wo)}
    full, part = (np.zeros((2, ho, wo), np.float32) for _ in range(2))
    tap, tap_part = (np.zeros((2, ho, wo), np.uint8) for _ in range(2))
    gx, gx_part = (np.zeros((2, h, w), np.float32) for _ in range(2))
    rows = {"h": 8, "ho": 3, "pad_h": -1, "count_h0": -2, "count_h1": h - 2}  # input rows 2..9, output rows 2..4
    for op, fw, bw in (("max", "", ""), ("max", "_rows", "_three"), ("avg", "", "")):
        run(lib, f"tl_{op}pool2d_fw{fw}_f32", x=x, y=full, tap=tap, **whole, **pitches)
        cut = {"x": x.ctypes.data + 2 * w * 4, "y": part.ctypes.data + 2 * wo * 4, "tap": tap_part.ctypes.data + 2 * wo}
        run(lib, f"tl_{op}pool2d_fw{fw}_f32", **cut, **(whole | rows), **pitches)
        assert np.array_equal(full[:, 2:5], part[:, 2:5]) and np.array_equal(tap[:, 2:5], tap_part[:, 2:5])
        run(lib, f"tl_{op}pool2d_bw{bw}_f32", x=gx, y=full, tap=tap, **whole, **pitches)
        # input rows 4..8 are reached by output rows 2..4 only
        cut = {
            "x": gx_part.ctypes.data + 4 * w * 4,
            "y": full.ctypes.data + 2 * wo * 4,
            "tap": tap.ctypes.data + 2 * wo,
        }
        back = {"h": 5, "ho": 3, "pad_h": 1, "count_h0": -4, "count_h1": h - 4}
        run(lib, f"tl_{op}pool2d_bw{bw}_f32", **cut, **(whole | back), **pitches)
        assert np.array_equal(gx[:, 4:9], gx_part[:, 4:9])


def test_every_row_is_tested(lib: ctypes.CDLL) -> None:
    """One that is new has its turn among the random shapes, if those that it takes are not rare."""
    TESTED.clear()
    test_max_pool_over_three_columns(lib, 0)
    test_tap_types(lib, (16, 16), DType.U16)
    for largest in (False, True):
        test_adaptive(lib, 1, largest)
    wanted = {r.symbol for r in POOL if r.storage is DType.F32}
    for seed in range(60):
        if wanted != TESTED:
            test_max_pool(lib, seed)
            test_avg_pool(lib, seed)
    assert wanted == TESTED
