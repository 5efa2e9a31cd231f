"""Pooling as its rules write it, carried out by every row that takes it; and images with windows to draw from."""

from __future__ import annotations

import ctypes
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from tests.unit.kernel_harness import execute
from trainlib_deployer.kernels.table import rows_for
from trainlib_deployer.ops import pool
from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.registry import RULES
from trainlib_deployer.program.call import Operand
from trainlib_deployer.program.ir import Op, Program, View

SENTINEL = -777
TESTED: set[str] = set()  # rows
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
        scratch = np.full(row.scratch(op.kind, cores) // 4 + 1, SENTINEL, np.float32)
        execute(lib, row, row.call(op.kind, *operands, str(scratch.ctypes.data)), 1 if reference else cores, reference)
        assert scratch[-1] == SENTINEL, row.symbol
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
    vy, indices = (made, None) if isinstance(made, View) else made
    vg = place(b, vy.shape, strided)
    gx = RULES[back](b, vg, vx, *backward, *([indices] if indices is not None else []))
    return b, vx, vy, vg, gx


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


def three_columns(seed: int) -> tuple[torch.Tensor, list[Any]]:
    """Overlapping windows of all widths of images, down to one column."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    pad = [rng.randint(0, 1), seed % 2]
    x = sample(rng.randint(1, 3), rng.randint(1, 3), rng.randint(3, 9), rng.randint(3 - 2 * pad[1], 12), window=seed)
    stride = [rng.randint(1, 3), 1 + seed // 2 % 2]
    return x, [[rng.randint(2, 3), 3], stride, pad, [1, 1], bool(seed & 4)]
