"""Series: loops over the same lines join where a tensor that several of them read, or that one makes for another, is in
L1 already.

The mean of a normalisation, its variance, and what is made of a channel with them; backward the mask of an activation,
the sums and the gradient. The lines are the first dimension of what a loop sums up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from trainlib_deployer.plan.joints import Attempt, Draft, Joint
from trainlib_deployer.program.ir import Op, Role, Tensor, View
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.series import Led, Series, Stage, apart, by_reduction, led

AHEAD = 24  # operations behind another one that are looked at
PATIENCE = 1  # of them may join without a gain


@dataclass(frozen=True)
class Group:
    """Operations in one series: their positions, the loops, and how each tensor steps from line to line."""

    ops: dict[int, Op]
    loops: tuple[Led, ...]
    steps: dict[str, int]
    lines: int

    @property
    def written(self) -> dict[str, View]:
        return {v.tensor: v for loop in self.loops for v in loop.writes}

    @property
    def touched(self) -> set[str]:
        return {v.tensor for loop in self.loops for v in loop.views}


def put_in_series(draft: Draft) -> None:
    """Wherever that pays."""
    for start, head in enumerate(draft.origin.ops):
        if draft.ops[start] is head and isinstance(head.kind, Loop) and not stays(draft, head):
            lengthened(draft, start, head)


def lengthened(draft: Draft, start: int, head: Op) -> None:
    """What follows an operation joins it, one after the other; what does not pay may with the next one."""
    run, group = draft.alone(start), begun(start, head)
    unpaid: list[Attempt] = []
    for at in followers(draft, start):
        other = draft.ops[at]
        if at <= run.at or other is None or not isinstance(other.kind, Loop) or other.phase != head.phase:
            continue
        wider = begun(start, head, other, at) if group is None else with_one(group, at, other)
        if wider is None or len(wider.ops) == 1:
            continue
        found = draft.attempt(run, at, joint_of(draft, wider))
        if found is None:
            continue
        unpaid = [] if found.pays else [*unpaid, found]
        run, group = found.run, wider
        if len(unpaid) > PATIENCE:
            break
    for attempt in reversed(unpaid):
        draft.undo(attempt)


def stays(draft: Draft, op: Op) -> bool:
    """Nothing of it is on its way."""
    return all(v.tensor in draft.resident for v in op.reads)


def followers(draft: Draft, start: int) -> Iterator[int]:
    """Positions behind it, up to the next border, that may share something with what has joined by then."""
    end = min([b for b in draft.borders if b > start], default=len(draft.ops))
    yield from range(start + 1, min(end, start + AHEAD))


def begun(start: int, head: Op, other: Op | None = None, at: int = 0) -> Group | None:
    """One whose sums say what the lines are: those of the first operation, or else of the second."""
    found = grown(Group({}, (), {}, 0), start, head, by_reduction(head))
    if found is not None or other is None:
        return found
    second = by_reduction(other)
    if second is None:
        return None
    lines = second.loop.extents[0]
    alone = grown(Group({}, (), {}, 0), at, other, second)
    first = None if alone is None else seen(head, alone.steps, lines)
    group = None if first is None else grown(Group({}, (), {}, lines), start, head, first)
    return None if group is None else with_one(group, at, other)


def with_one(group: Group, at: int, op: Op) -> Group | None:
    return grown(group, at, op, seen(op, group.steps, group.lines))


def seen(op: Op, steps: dict[str, int], lines: int) -> Led | None:
    """The loop over these lines of any tensor that has them."""
    shared = (n for n in dict.fromkeys(v.tensor for v in (*op.reads, *op.writes)) if steps.get(n))
    found = (led(op, name, steps[name], lines) for name in shared)
    return next((f for f in found if f is not None), None)


def grown(group: Group, at: int, op: Op, loop: Led | None) -> Group | None:
    """With one loop more; None where it steps otherwise, or needs lines of what others in it write beside its own."""
    own = None if loop is None else loop.steps()
    if loop is None or own is None or any(group.steps.get(n, s) != s for n, s in own.items()):
        return None
    writes = {v.tensor for v in loop.writes}
    if writes & ({*group.steps} | {v.tensor for v in loop.reads}) or len(writes) < len(loop.writes):
        return None
    inside = [v for v in loop.reads if v.tensor in group.written]
    if not all(apart(v) for v in (*loop.writes, *inside)):
        return None
    lines = group.lines or loop.loop.extents[0]
    return Group({**group.ops, at: op}, (*group.loops, loop), {**group.steps, **own}, lines)


def joint_of(draft: Draft, group: Group) -> Joint:
    reads = list(dict.fromkeys(v for loop in group.loops for v in loop.reads))
    writes = [v for loop in group.loops for v in loop.writes]
    result = {v.tensor: k for k, v in enumerate(writes)}
    stages = tuple(
        Stage(loop.loop, tuple(map(reads.index, loop.reads)), tuple(map(writes.index, loop.writes)))
        for loop in group.loops
    )
    tensors = {name: t for name in result if (t := inside(draft, group, name)) is not None}
    made = tuple(result.get(v.tensor) for v in reads)
    kind = Series(stages, made, frozenset(result[name] for name in tensors))
    ops = [group.ops[at] for at in sorted(group.ops)]
    main = next(op for op in ops if isinstance(op.kind, Loop) and op.kind.reductions)
    joint = replace(
        main,
        name=ops[-1].name,
        kind=kind,
        reads=tuple(reads),
        writes=tuple(writes),
        fused=tuple(dict.fromkeys(name for op in ops for name in (op.fused or (op.name,)))),
        function=" + ".join(dict.fromkeys(op.function for op in ops)),
    )
    return Joint(joint, tensors)


def inside(draft: Draft, group: Group, name: str) -> Tensor | None:
    """What only the series itself writes and reads is never whole in memory."""
    tensor, results = draft.now.tensors[name], draft.results
    others = not {*draft.read_at.get(name, []), *draft.written_at[name]} <= {*group.ops}
    if others or tensor.role.persistent or name in results.shown or name in results.gradients:
        return None
    return replace(tensor, role=Role.INSIDE)
