"""Move each parameter's update right behind the last operation that needs the old value or makes its gradient.

Then the gradient dies at once and its memory serves the next layer. Clipping by the norm of all gradients needs every
gradient first: the updates then stay behind it by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from trainlib_deployer.program.ir import Op, Program


def hoist_updates(program: Program) -> Program:
    """Where gradients are accumulated, it is the accumulation that moves: the updates run in some of the steps only."""
    moving = "accumulate" if any(op.phase == "accumulate" for op in program.ops) else "update"
    ops: list[Op] = []
    known = Known()
    for op in program.ops:
        if op.phase != moving:
            ops.append(op)
        else:
            fixed = known.before(op)
            at = len(ops)
            while at and id(ops[at - 1]) not in fixed:
                at -= 1
            while at < len(ops) and ops[at].phase == "forward":
                at += 1
            ops.insert(at, op)
        known.add(op)
    return program.with_ops(ops)


@dataclass(frozen=True)
class Known:
    """The operations so far, by identity, under what they read and write."""

    readers: dict[str, set[int]] = field(default_factory=dict)
    writers: dict[str, set[int]] = field(default_factory=dict)

    def add(self, op: Op) -> None:
        for views, users in ((op.reads, self.readers), (op.writes, self.writers)):
            for view in views:
                users.setdefault(view.tensor, set()).add(id(op))

    def before(self, op: Op) -> set[int]:
        """Those that must stay before `op`: they write what it touches, or read what it writes."""
        found: set[int] = set()
        for view in (*op.reads, *op.writes):
            found |= self.writers.get(view.tensor, set())
        for view in op.writes:
            found |= self.readers.get(view.tensor, set())
        return found
