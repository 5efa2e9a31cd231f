"""Tell products, and convolutions by one tap, how their operands lie: what a core packs, and so its scratch, follows
from that.

A tile keeps it: what is contiguous in a tensor is contiguous in a piece of it. So a product of known layouts has one
kernel, and no scratch for what another one would pack.
"""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.kernels.conv_plane import known_dense
from trainlib_deployer.kernels.matmul import known_layouts
from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.program.ir import Op, Program


def see_layouts(program: Program) -> Program:
    return program.with_ops([seen(op) for op in program.ops])


def seen(op: Op) -> Op:
    kind = op.kind
    if isinstance(kind, MatMul):
        return replace(op, kind=replace(kind, layouts=known_layouts(op.reads)))
    if isinstance(kind, Conv) and known_dense(kind, op.reads, op.writes):
        return replace(op, kind=replace(kind, dense=True))
    return op
