"""Together: updates that read and write memory where it is join one before them as soon as what they need is there.

None waits for another one: a gradient is used up no later than on its own, and while an operation of a few thousand
cycles works on such updates the first tile of a larger one comes (plan/early.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from trainlib_deployer.plan.joints import Draft
from trainlib_deployer.program.ir import Op, Role
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.together import Together


def put_together(draft: Draft) -> None:
    """Those of a function of the step that are still on their own, in order."""
    for begin, end in pairwise((*sorted(draft.borders), len(draft.ops))):
        alone = [at for at in range(begin, end) if is_alone(draft, at)]
        while alone:
            alone = list(apart_from(draft, *alone))


def is_alone(draft: Draft, at: int) -> bool:
    """A loop that has joined nothing, is in no tiles, and of which nothing is left but what lasts."""
    op = draft.ops[at]
    if op is None or op is not draft.origin.ops[at] or not isinstance(op.kind, Loop) or op.kind.recorded:
        return False
    tensors = draft.now.tensors
    lasting = all(tensors[v.tensor].role.persistent for v in op.writes)
    copies = any(tensors[v.tensor].role is Role.COPY for v in (*op.reads, *op.writes))
    return lasting and not copies and draft.ways[at].tiling is None


def apart_from(draft: Draft, at: int, *others: int) -> Iterator[int]:
    """Operations that could not join the first one, where that is."""
    for other_at in others:
        first, other = draft.ops[at], draft.ops[other_at]
        assert first is not None and other is not None
        if first.phase != other.phase or meddle(first, other) or draft.places.conflict(other, at, other_at):
            yield other_at
            continue
        draft.ops[at], draft.ops[other_at] = joined(first, other), None
        draft.places.move(other, other_at, at)


def meddle(one: Op, other: Op) -> bool:
    """Does either touch what the other writes?"""
    return any(
        v.tensor == w.tensor for a, b in ((one, other), (other, one)) for w in a.writes for v in (*b.reads, *b.writes)
    )


def joined(first: Op, other: Op) -> Op:
    loops = first.kind.loops if isinstance(first.kind, Together) else (first.kind,)
    assert isinstance(other.kind, Loop)
    functions = dict.fromkeys((*first.function.split(" + "), other.function))
    same = other.layer == first.layer
    return replace(
        first,
        kind=Together((*(loop for loop in loops if isinstance(loop, Loop)), other.kind)),
        reads=(*first.reads, *other.reads),
        writes=(*first.writes, *other.writes),
        layer=first.layer if same else "",
        source=first.source if same else None,
        fused=(*(first.fused or (first.name,)), *(other.fused or (other.name,))),
        function=" + ".join(functions),
    )
