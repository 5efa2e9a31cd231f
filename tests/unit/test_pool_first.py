"""Maxima before a ReLU: the same bits, forward and backward, and only where nobody else asks for what is left out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.unit.small_programs import program_of
from tests.unit.test_passes import computed, places
from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.pool import MaxPool
from trainlib_deployer.ops.registry import RULES
from trainlib_deployer.passes import DEFAULT
from trainlib_deployer.passes.pool_first import pool_first
from trainlib_deployer.program.ir import Op, Program, View
from trainlib_deployer.program.loop import Loop

Array = np.ndarray[Any, Any]
aten = torch.ops.aten
ODD = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-45)
KERNEL, STRIDE, PAD = [3, 2], [2, 1], [1, 1]


def run(program: Program, given: dict[str, Array]) -> dict[str, Array]:
    """All tensors, as floats."""
    memory = {n: np.full(t.numel, 77, np.float32) for n, t in program.tensors.items()}
    memory |= {n: v.ravel() for n, v in given.items()}
    for op in program.ops:
        results = pooled(op, memory) if isinstance(op.kind, MaxPool) else computed(op, memory)
        for view, value in zip(op.writes, results, strict=True):
            memory[view.tensor][places(view)] = value
    return memory


def pooled(op: Op, memory: dict[str, Array]) -> list[Array]:
    """As the definition says: of equal ones the first wins, of NaNs the last."""
    assert isinstance(op.kind, MaxPool)
    s, reads = op.kind.shape, [memory[v.tensor][places(v)] for v in op.reads]
    y, tap = np.zeros((2, s.planes, s.ho, s.wo), np.float32)
    x = np.zeros((s.planes, s.h, s.w), np.float32)
    for p, oy, ox in np.ndindex(s.planes, s.ho, s.wo):
        top, left = oy * s.stride[0] - s.pad[0], ox * s.stride[1] - s.pad[1]
        if op.kind.direction == "bw":
            row, column = divmod(int(reads[1][p, oy, ox]), s.kernel[1])
            x[p, top + row, left + column] += reads[0][p, oy, ox]
            continue
        best, won = np.float32(-math.inf), -1
        for row, column in np.ndindex(*s.kernel):
            if 0 <= top + row < s.h and 0 <= left + column < s.w:
                v = reads[0][p, top + row, left + column]
                if won < 0 or v > best or math.isnan(v):
                    best, won = v, row * s.kernel[1] + column
        y[p, oy, ox], tap[p, oy, ox] = best, won
    return [y, tap] if op.kind.direction == "fw" else [x]


def built(threshold: float = 0.0, wanted: str = "") -> tuple[Program, View, View, View, View]:
    """A ReLU, maxima, and their gradients: the program, the ReLU's operand, y, dL/dy and dL/dx."""
    b = Builder(Program("test"))
    x = b.map(lambda v: v * 1.0, b.tensor((2, 3, 5, 6)))
    b.meta = image = torch.zeros(2, 3, 5, 6)
    r = RULES[aten.relu.default](b, x)
    fake = F.max_pool2d(image, KERNEL, STRIDE, PAD)
    b.meta = [fake]
    y, tap = RULES[aten.max_pool2d_with_indices.default](b, r, KERNEL, STRIDE, PAD)
    g = b.tensor(tuple(fake.shape))
    back = RULES[aten.max_pool2d_with_indices_backward.default]
    gr = back(b, g, r, KERNEL, STRIDE, PAD, [1, 1], False, tap)
    b.meta = image
    gx = RULES[aten.threshold_backward.default](b, gr, r, threshold)
    kept = [y.tensor, gx.tensor, *({"relu": [r.tensor], "passed": [gr.tensor]}.get(wanted, []))]
    if wanted == "twice":
        kept.append(b.map(lambda v: v + 1.0, r).tensor)
    if wanted == "passed twice":
        kept.append(b.map(lambda v: v + 1.0, gr).tensor)
    b.program.outputs = tuple((n, n) for n in kept)
    return b.program, x, y, g, gx


@pytest.mark.parametrize("seed", range(8))
def test_the_same_bits_of_every_number(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program, x, y, g, gx = built()
    first = program.ops[0].reads[0].tensor
    image = rng.integers(-3, 2, 180).astype(np.float32)
    image[rng.integers(0, 180, 25)] = rng.choice(np.array(ODD, np.float32), 25)
    given = {first: image, g.tensor: rng.standard_normal(program.tensors[g.tensor].numel).astype(np.float32)}
    with np.errstate(invalid="ignore"):
        before, after = run(program, dict(given)), run(pool_first(program), dict(given))
    assert x.tensor in after
    for name in (y.tensor, gx.tensor):
        assert np.array_equal(before[name].view(np.int32), after[name].view(np.int32)), name


def test_the_relu_works_on_maxima_alone() -> None:
    program = pool_first(built()[0])
    loops = [op for op in program.ops if isinstance(op.kind, Loop)]
    assert [op.writes[0].numel for op in loops[1:]] == [2 * 3 * 3 * 7] * 2
    assert len([op for op in program.ops if isinstance(op.kind, MaxPool)]) == 2


@pytest.mark.parametrize("wanted", ["relu", "passed", "twice", "passed twice"])
def test_what_somebody_else_asks_for_stays(wanted: str) -> None:
    program = built(wanted=wanted)[0]
    assert pool_first(program) is program


def test_another_threshold_stays() -> None:
    program = built(threshold=0.5)[0]
    assert pool_first(program) is program


def test_without_a_gradient_too() -> None:
    """Of a first layer's frozen maxima, as of a program that only runs forward."""
    layers = [nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 4)]
    module = nn.Sequential(*layers)
    module[0].requires_grad_(False)
    steps = DEFAULT[: DEFAULT.index(pool_first) + 1]
    program = program_of(module, (1, 2, 8, 8), steps)
    relus = [op for op in program.ops if "relu" in op.function]
    assert [op.writes[0].numel for op in relus] == [27]
