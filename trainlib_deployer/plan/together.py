"""Together: updates that read and write memory where it is join one before them as soon as what they need is there.

None of these waits for another one: a gradient is used up no later than on its own, and while an operation of a few
thousand cycles works on such updates the first tile of a larger one comes (plan/early.py). Those of which everything
lives in the inner level take a few hundred cycles, and wait for the last of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

from trainlib_deployer.plan.joints import Draft
from trainlib_deployer.program.ir import Op, Role
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.together import Together

PATIENCE = 100  # of those that follow, one after the other, may not join: what they need is made later


def put_together(draft: Draft) -> None:
    """Those of a function of the step that are still on their own, in order."""
    for begin, end in pairwise((*sorted(draft.borders), len(draft.ops))):
        alone = [at for at in range(begin, end) if is_alone(draft, at)]
        inside = [at for at in alone if is_inside(draft, at)]
        for waiting in (inside[::-1], [at for at in alone if at not in inside]):
            while waiting:
                waiting = apart_from(draft, *waiting)


def is_alone(draft: Draft, at: int) -> bool:
    """A loop that has joined nothing, is in no tiles, and of which nothing is left but what lasts."""
    op = draft.ops[at]
    if op is None or op is not draft.origin.ops[at] or not isinstance(op.kind, Loop) or op.kind.recorded:
        return False
    tensors = draft.now.tensors
    lasting = all(tensors[v.tensor].role.persistent for v in op.writes)
    copies = any(tensors[v.tensor].role is Role.COPY for v in (*op.reads, *op.writes))
    return lasting and not copies and draft.ways[at].tiling is None


def is_inside(draft: Draft, at: int) -> bool:
    op = draft.ops[at]
    return op is not None and all(v.tensor in draft.resident for v in (*op.reads, *op.writes))


def apart_from(draft: Draft, at: int, *others: int) -> list[int]:
    """Operations that could not join the first one, where that is."""
    first = draft.ops[at]
    assert first is not None
    members, last = Members([first]), 0
    left: list[int] = []
    for number, other_at in enumerate(others):
        if number - last > PATIENCE:
            left += others[number:]
            break
        other = draft.ops[other_at]
        assert other is not None
        if first.phase != other.phase or members.meddle(other) or draft.places.conflict(other, *sorted((at, other_at))):
            left.append(other_at)
            continue
        last = number
        members.add(other)
        draft.ops[other_at] = None
        draft.places.move(other, other_at, at)
    if len(members.ops) > 1:
        draft.ops[at] = members.joined
    return left


@dataclass
class Members:
    """Operations that are to be one, by the tensors that they read and write."""

    ops: list[Op]
    read: set[str] = field(init=False)
    written: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.read = {v.tensor for op in self.ops for v in op.reads}
        self.written = {v.tensor for op in self.ops for v in op.writes}

    def meddle(self, other: Op) -> bool:
        """Do they touch what the other one writes, or write what it touches?"""
        reads, writes = {v.tensor for v in other.reads}, {v.tensor for v in other.writes}
        return bool(writes & self.read or (reads | writes) & self.written)

    def add(self, other: Op) -> None:
        self.ops.append(other)
        self.read |= {v.tensor for v in other.reads}
        self.written |= {v.tensor for v in other.writes}

    @property
    def joined(self) -> Op:
        first, ops = self.ops[0], self.ops
        same = all(op.layer == first.layer for op in ops)
        return replace(
            first,
            kind=Together(tuple(op.kind for op in ops if isinstance(op.kind, Loop))),
            reads=tuple(v for op in ops for v in op.reads),
            writes=tuple(v for op in ops for v in op.writes),
            layer=first.layer if same else "",
            source=first.source if same else None,
            fused=tuple(name for op in ops for name in (op.fused or (op.name,))),
            function=" + ".join(dict.fromkeys(op.function for op in ops)),
        )
