"""Tell products how their operands lie: what a core packs, and so its scratch, follows from that.

A tile keeps it: what is contiguous in a tensor is contiguous in a piece of it. So a product of known layouts has one
kernel, and no scratch for what another one would pack.
"""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.kernels.matmul import known_layouts
from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.program.ir import Op, Program


def see_layouts(program: Program) -> Program:
    return program.with_ops([seen(op) for op in program.ops])


def seen(op: Op) -> Op:
    if not isinstance(op.kind, MatMul):
        return op
    return replace(op, kind=replace(op.kind, layouts=known_layouts(op.reads)))
