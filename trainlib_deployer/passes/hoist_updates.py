"""Move each parameter's update right behind the last operation that needs the old value or makes its gradient.

Then the gradient dies at once and its memory serves the next layer. Clipping by the norm of all gradients needs every
gradient first: the updates then stay behind it by themselves.
"""

from __future__ import annotations

from trainlib_deployer.program.ir import Op, Program


def hoist_updates(program: Program) -> Program:
    """Where gradients are accumulated, it is the accumulation that moves: the updates run in some of the steps only."""
    moving = "accumulate" if any(op.phase == "accumulate" for op in program.ops) else "update"
    ops: list[Op] = []
    for op in program.ops:
        if op.phase != moving:
            ops.append(op)
            continue
        touched = {v.tensor for v in (*op.reads, *op.writes)}
        written = {v.tensor for v in op.writes}
        at = len(ops)
        while at and not conflicts(ops[at - 1], touched, written):
            at -= 1
        while at < len(ops) and ops[at].phase == "forward":
            at += 1
        ops.insert(at, op)
    return program.with_ops(ops)


def conflicts(earlier: Op, touched: set[str], written: set[str]) -> bool:
    """True when `earlier` must stay before an operation that touches and writes these tensors."""
    return any(v.tensor in touched for v in earlier.writes) or any(v.tensor in written for v in earlier.reads)
