"""Matrix products.

c[b, m, n] = init + sum_k a[b, m, k] * b[b, k, n]; transposed or sliced operands are read where they lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from trainlib_deployer.ir import View
from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.call import Call, Operand, strides
from trainlib_deployer.ops.kernel_scratch import matmul_scratch
from trainlib_deployer.ops.registry import covers

aten = torch.ops.aten


@dataclass(frozen=True)
class MatMul:
    """Reads a [batch, m, k], b [batch, k, n] and perhaps init [batch, m, n]; writes c [batch, m, n]."""

    batch: int
    m: int
    n: int
    k: int
    init: bool = False

    name = "matmul"
    kernel = "tl_matmul_f32"
    headers = ("tl_conv.h",)

    def macs(self) -> int:
        return self.batch * self.m * self.n * self.k

    def scratch(self, cores: int) -> int:
        return matmul_scratch(self.batch, self.m, self.n, self.k, cores)

    def call(self, reads: list[Operand], writes: list[Operand], scratch: str) -> Call:
        a, b, *init = reads
        c = writes[0]
        fields: list[tuple[str, str | int]] = [("a", a.pointer), ("b", b.pointer), ("c", c.pointer)]
        fields += [("batch", self.batch), ("m", self.m), ("n", self.n), ("k", self.k)]
        fields += [*strides("a", "bmk", a.view), *strides("b", "bkn", b.view), *strides("c", "bmn", c.view)]
        if init:
            fields += [("init", init[0].pointer), *strides("i", "bmn", init[0].view)]
        return Call(self.kernel, "tl_matmul", (*fields, ("scratch", scratch)))


def product(b: Builder, left: View, right: View, init: View | None = None, suffix: str = "") -> View:
    """left [..., m, k] x right [..., k, n]; all leading dimensions already folded into one."""
    if len(left.shape) == 2:
        left, right = b.reshape(left, (1, *left.shape)), b.reshape(right, (1, *right.shape))
        out = product(b, left, right, init, suffix)
        return b.reshape(out, out.shape[1:])
    batch, m, k = left.shape
    n = right.shape[2]
    out = b.tensor((batch, m, n), suffix=suffix)
    reads = [left, right] + ([init.expanded((batch, m, n))] if init is not None else [])
    b.op(MatMul(batch, m, n, k, init is not None), reads, [out], suffix)
    return out


@covers(aten.mm.default)
def mm(b: Builder, left: View, right: View) -> View:
    return product(b, left, right)


@covers(aten.bmm.default)
def bmm(b: Builder, left: View, right: View) -> View:
    return product(b, left, right)


@covers(aten.addmm.default, aten.baddbmm.default)
def addmm(b: Builder, init: View, left: View, right: View, beta: float = 1, alpha: float = 1, **_: Any) -> View:
    if alpha == 1 and beta == 1:
        return product(b, left, right, init)
    scaled = product(b, left, right)
    return b.map(lambda p, i: p * float(alpha) + i * float(beta), scaled, init)


@covers(aten.mv.default)
def mv(b: Builder, matrix: View, vector: View) -> View:
    out = product(b, matrix, b.reshape(vector, (*vector.shape, 1)))
    return b.reshape(out, matrix.shape[:1])


@covers(aten.dot.default)
def dot(b: Builder, x: View, y: View) -> View:
    return b.reduce("sum", (), x, y, body=lambda x, y: x * y)


@covers(aten.linear.default)
def linear(b: Builder, x: View, weight: View, bias: View | None = None) -> View:
    rows = b.reshape(x, (x.numel // x.shape[-1], x.shape[-1]))
    out = product(b, rows, weight.permuted((1, 0)), bias)
    return b.reshape(out, (*x.shape[:-1], weight.shape[0]))
