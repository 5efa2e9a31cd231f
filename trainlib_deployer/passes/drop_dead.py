"""Remove operations whose results nobody reads, or that have no elements."""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.passes.prune_loops import pruned
from trainlib_deployer.program.ir import Op, Program
from trainlib_deployer.program.loop import Loop


def drop_dead(program: Program) -> Program:
    live = {t.name for t in program.tensors.values() if t.role.persistent}
    live |= {*program.shown, *(t for _, t in program.gradients)}
    kept: list[Op] = []
    for op in reversed(program.ops):
        if not any(v.tensor in live and v.numel for v in op.writes):
            continue
        op = without_dead_results(op, live)
        live |= {v.tensor for v in op.reads}
        kept.append(op)
    return program.with_ops(kept[::-1])


def without_dead_results(op: Op, live: set[str]) -> Op:
    """A generated loop computes only what is wanted, from what that needs."""
    if not isinstance(op.kind, Loop) or all(v.tensor in live for v in op.writes):
        return op
    keep = [i for i, v in enumerate(op.writes) if v.tensor in live]
    kind = replace(
        op.kind,
        results=tuple(op.kind.results[i] for i in keep),
        outputs=tuple(op.kind.outputs[i] for i in keep),
    )
    return pruned(replace(op, kind=kind, writes=tuple(op.writes[i] for i in keep)))
