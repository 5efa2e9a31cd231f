"""Updates end where the rule puts them, found by looking at every operation on the way."""

from __future__ import annotations

import random

import pytest

from trainlib_deployer.passes.hoist_updates import hoist_updates
from trainlib_deployer.program.expr import Instr
from trainlib_deployer.program.ir import DType, Op, Program, Role, Tensor, View
from trainlib_deployer.program.loop import Loop

PHASES = ("forward", "forward", "backward", "update", "update")


def any_program(rng: random.Random, moving: str) -> Program:
    """Operations of all phases in any order; with few tensors most of them depend on each other, with many few."""
    names = [f"t{i}" for i in range(rng.choice((7, 17, 41)))]
    kind = Loop((3,), 0, (DType.F32, DType.F32), (Instr("add", (0, 1), DType.F32),), (), (), (2,), (DType.F32,))
    ops = []
    for i in range(61):
        phase = rng.choice(PHASES)
        a, b, out = (View(rng.choice(names), (3,), (1,)) for _ in range(3))
        ops.append(Op(f"op{i}", kind, (a, b), (out,), moving if phase == "update" else phase, "", ""))
    return Program("any", {n: Tensor(n, (3,), DType.F32, Role.ACTIVATION) for n in names}, ops)


def moved_one_by_one(program: Program, moving: str) -> list[str]:
    ops: list[Op] = []
    for op in program.ops:
        at = len(ops)
        while op.phase == moving and at and not conflict(ops[at - 1], op):
            at -= 1
        while at < len(ops) and ops[at].phase == "forward":
            at += 1
        ops.insert(at, op)
    return [op.name for op in ops]


def conflict(earlier: Op, op: Op) -> bool:
    reads, writes = {v.tensor for v in op.reads}, {v.tensor for v in op.writes}
    read, written = {v.tensor for v in earlier.reads}, {v.tensor for v in earlier.writes}
    return bool(written & (reads | writes) or read & writes)


@pytest.mark.parametrize("moving", ["update", "accumulate"])
@pytest.mark.parametrize("seed", range(20))
def test_each_update_stands_behind_the_last_that_must_come_before(seed: int, moving: str) -> None:
    program = any_program(random.Random(seed), moving)
    hoisted = [op.name for op in hoist_updates(program).ops]
    assert hoisted == moved_one_by_one(program, moving)
    assert hoisted != [op.name for op in program.ops]
