"""Pooling: rules and kernels together against PyTorch, on 1, 3 and 8 cores."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.unit.kernel_harness import struct
from tests.unit.pool_cases import MAX, TESTED, Memory, aten, carry_out, drawn, legal, lowered, sample, three_columns
from trainlib_deployer.kernels.pool import POOL
from trainlib_deployer.ops import pool
from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.registry import RULES
from trainlib_deployer.program.ir import DType, Program, View

Array = np.ndarray[Any, Any]


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
    x, arguments = three_columns(seed)
    check(
        lib,
        *MAX,
        x,
        arguments,
        arguments,
        lambda v: F.max_pool2d(v, *arguments),
        strided=seed % 5 == 0,
    )


@pytest.mark.parametrize("seed", range(16))
def test_gradients_of_maxima_add_up_in_the_order_of_windows(lib: ctypes.CDLL, seed: int) -> None:
    """To PyTorch's bits, by every row: an input that wins several windows gets what they give one after the other."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    x = sample(2, 3, rng.randint(5, 11), rng.randint(5, 13)).requires_grad_()
    kernel, stride = [rng.randint(3, 5), rng.randint(3, 5)], [rng.randint(1, 2), rng.randint(1, 2)]
    arguments = [kernel, stride, [rng.randint(0, 1), rng.randint(0, 1)], [1, 1], bool(seed & 1)]
    b, vx, _, vg, vgx = lowered(*MAX, x.detach(), arguments, arguments, strided=seed % 3 == 0)
    y = F.max_pool2d(x, *arguments)
    g = torch.randn(y.shape)
    y.backward(g)
    memory = Memory(b.program)
    memory.write(vx, x.detach().numpy())
    memory.write(vg, g.numpy())
    for op in b.program.ops:
        carry_out(lib, op, memory, 3)
    assert x.grad is not None and np.array_equal(memory.read(vgx), x.grad.numpy())


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
    for op, fw, bw in (("max", "", ""), ("max", "_rows", "_near"), ("avg", "", "")):
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
        # ... and columns 4..8 of these by output columns 2..4 only
        wanted, gx_part[:] = gx_part.copy(), 0
        wanted[:, :, :4] = 0
        for name, size in (("x", 4), ("y", 4), ("tap", 1)):
            cut[name] += size * (2 if name != "x" else 4)
        back |= {"wd": 5, "wo": 3, "count_w0": -4, "count_w1": w - 4}
        run(lib, f"tl_{op}pool2d_bw{bw}_f32", **cut, **(whole | back), **pitches)
        assert np.array_equal(wanted, gx_part)


def test_every_row_is_tested(lib: ctypes.CDLL) -> None:
    """A new one has its turn, if shapes that it takes are not rare."""
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
