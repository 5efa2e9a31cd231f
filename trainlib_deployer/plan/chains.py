"""Chains: a loop joins the operation before it where the tile that it reads is in L1 already.

Two patterns. A pointwise loop that reads a result follows the operation that makes it: an activation or a normalisation
with fixed statistics behind a convolution, the mask of a layer behind the input gradient of the next one, an update
behind a weight gradient. And an update follows the product that reads the same weight, which then crosses once each
way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeGuard

from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.plan.fuller import Before
from trainlib_deployer.plan.joints import Draft, Joint, Results
from trainlib_deployer.plan.series import put_in_series
from trainlib_deployer.plan.together import put_together
from trainlib_deployer.plan.ways import Way
from trainlib_deployer.program.chain import chain_of, followed, in_shape, recording
from trainlib_deployer.program.ir import Leading, Op, Program, Role, Tensor, renamed
from trainlib_deployer.program.loop import Loop

TRIES = 6  # to join what fills the outer level no more than it was


def chained(program: Program, resident: frozenset[str], left: list[int], machine: Machine, alone: list[Way]) -> Program:
    """With series and chains wherever they are estimated to take fewer cycles, or hardly more and fewer bytes, and what
    is left of updates together; `left` is the room in L1 at each operation, `alone` how it runs on its own. The outer
    level gets no fuller, unless that is not reached after some tries."""
    before, apart = Before(program, resident), frozenset[int]()
    for _ in range(TRIES):
        draft = Draft.of(program, resident, left, machine, alone, apart)
        join(draft)
        put_together(draft)
        full = before.meetings_that_fill(draft.program, draft.left_over)
        if full <= apart:
            break
        apart |= full
    return draft.program


def join(draft: Draft) -> None:
    program, resident = draft.origin, draft.resident
    put_in_series(draft)
    borders = draft.borders
    for start, head in enumerate(program.ops):
        if not can_lead(head, resident):
            continue
        run = draft.alone(start)
        for follower_at in candidates(program, head, start, draft.read_at):
            first, follower = draft.ops[run.at], draft.ops[follower_at]
            if first is None or not pointwise(follower) or any(run.at < b <= follower_at for b in borders):
                continue
            joint = joined(draft.now, draft.results, first, follower, draft.read_at)
            run = draft.tried(run, follower_at, joint) or run


def can_lead(op: Op, resident: frozenset[str]) -> bool:
    leads = isinstance(op.kind, Leading) and not op.kind.accumulate and len(op.writes) == 1
    return leads and not op.kind.over_itself and any(v.tensor not in resident for v in op.reads)


def candidates(program: Program, head: Op, at: int, read_at: dict[str, list[int]]) -> Iterator[int]:
    """Loops behind `at` that read what the head makes, or change what it reads."""
    name = head.writes[0].tensor
    found = [i for i in read_at.get(name, []) if i > at][:1]
    for view in head.reads:
        if program.tensors[view.tensor].role is Role.PARAMETER:
            found += [i for i in read_at[view.tensor] if i > at and program.ops[i].phase == "update"]
    yield from dict.fromkeys(found)


def pointwise(op: Op | None) -> TypeGuard[Op]:
    return op is not None and isinstance(op.kind, Loop) and not op.kind.reductions


def joined(program: Program, results: Results, op: Op, follower: Op, read_at: dict[str, list[int]]) -> Joint | None:
    result = op.writes[0]
    if any(v.tensor == result.tensor for v in follower.reads):
        return behind_result(program, results, op, follower, len(read_at[result.tensor]) == 1)
    return sharing_weight(program, op, follower)


def behind_result(program: Program, results: Results, op: Op, follower: Op, only_reader: bool) -> Joint | None:
    """The follower reads what the head makes. If nobody else does, that is never whole in memory."""
    result = op.writes[0]
    made = program.tensors[result.tensor]
    others = {v.tensor for v in op.writes[1:]}
    taken = others | {v.tensor for v in op.reads}
    if made.role.persistent or not result.covers(made) or any(v.tensor in taken for v in follower.writes):
        return None
    if any(v.tensor in others for v in follower.reads):
        return None
    shown = in_shape(follower, result)
    if shown is None or any(v != result for v in shown.reads if v.tensor == made.name):
        return None
    tensors: dict[str, Tensor] = {}
    if only_reader and made.name not in results.shown:
        if made.name in results.gradients:
            tile = replace(made, name=f"{made.name} in tiles", role=Role.INSIDE)
            tensors = {made.name: replace(made, role=Role.RECORDED), tile.name: tile}
            shown = recording(shown, result)
            names = {made.name: tile.name}
            op = replace(op, reads=renamed(op.reads, names), writes=renamed(op.writes, names))
            shown = replace(shown, reads=renamed(shown.reads, names))
        else:
            tensors = {made.name: replace(made, role=Role.INSIDE)}
    return Joint(followed(op, shown, -1), tensors)


def sharing_weight(program: Program, op: Op, follower: Op) -> Joint | None:
    """The follower changes a weight that the head reads; each element of it must be in one tile alone."""
    chain = chain_of(op)
    head = chain.head
    if not isinstance(head, MatMul) or head.batch != 1 or 1 not in (head.m, head.n):
        return None
    written = {v.tensor for v in follower.writes}
    anchors = [i for i, v in enumerate(op.reads[: chain.inputs]) if v.tensor in written]
    if len(anchors) != 1:
        return None
    weight = op.reads[anchors[0]]
    rest = {v.tensor for i, v in enumerate(op.reads) if i != anchors[0]}
    if not weight.covers(program.tensors[weight.tensor]) or rest & written:
        return None
    touched = {v.tensor for v in (*follower.reads, *follower.writes)}
    if touched & {v.tensor for v in op.writes}:
        return None
    shown = in_shape(follower, weight)
    if shown is None or any(v != weight for v in (*shown.reads, *shown.writes) if v.tensor == weight.tensor):
        return None
    return Joint(followed(op, shown, anchors[0]), {})
