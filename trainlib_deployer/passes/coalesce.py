"""Merge neighbouring dimensions of generated loops that step as one in every operand, and drop extents of one."""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.program.ir import Op, Program
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.merge import merged


def coalesce(program: Program) -> Program:
    return program.with_ops([coalesced(op) for op in program.ops])


def coalesced(op: Op) -> Op:
    if not isinstance(op.kind, Loop):
        return op
    kind, reads, writes = merged(op.kind, op.reads, op.writes)
    return replace(op, kind=kind, reads=reads, writes=writes)
