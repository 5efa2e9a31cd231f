"""Which updates become one operation, and where."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.plan.best_tiling import Job, prospects
from trainlib_deployer.plan.chains import chained
from trainlib_deployer.plan.cycles import untiled_cycles
from trainlib_deployer.plan.links import links
from trainlib_deployer.plan.tiles import Room
from trainlib_deployer.plan.together import PATIENCE, Members
from trainlib_deployer.plan.ways import Way
from trainlib_deployer.program.expr import Instr
from trainlib_deployer.program.ir import DType, Op, Program, Role, Tensor, View
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.together import Together

MACHINE = resolve(cores=3)
N = 37
F = DType.F32
LOSS = Tensor("loss", (5,), F, Role.LOSS)


def minus(writes: str, *reads: str, phase: str = "update") -> Op:
    kind = Loop((N,), 0, (F,) * len(reads), (Instr("sub", (0, len(reads) - 1), F),), (), (), (len(reads),), (F,))
    name = f"{writes} of {' and '.join(reads)}"
    return Op(name, kind, tuple(View(n, (N,), (1,)) for n in reads), (View(writes, (N,), (1,)),), phase, "layer", "sgd")


def made(name: str, of: str = "x") -> Op:
    return minus(name, of, phase="backward")


def update(name: str, by: str) -> Op:
    return minus(name, name, by)


def program(ops: Sequence[Op]) -> Program:
    names = dict.fromkeys(v.tensor for op in ops for v in (*op.reads, *op.writes))
    roles = {"p": Role.PARAMETER, "x": Role.INPUT, "g": Role.GRADIENT}
    tensors = {n: Tensor(n, (N,), F, roles[n[0]]) for n in names} | {"loss": LOSS}
    return Program("net", tensors, list(ops), loss="loss")


def together(*ops: Op, tiled: str = "", inside: str = "") -> list[str]:
    """Operations by what they do; `tiled` is a parameter whose update is in tiles, `inside` what lives in L1."""
    net = program(ops)
    ways = []
    for op in ops:
        known = prospects(Job.of(net, op, Room(frozenset(), 0, MACHINE)))
        ways.append(
            Way(op, known.tiling(-1, MACHINE.inner.size, 0) if tiled in [v.tensor for v in op.writes] else None, 1e9)
        )
    found = chained(net, frozenset(inside.split()), [1 << 16] * len(ops), MACHINE, ways)
    return [" + ".join(op.fused or (op.name,)) for op in found.ops]


def test_updates_go_up_to_the_first_one() -> None:
    """But not past what makes their gradients: none waits for another one."""
    ops = (made("g1"), made("g2"), update("p1", "g1"), made("g3"), update("p2", "g2"), update("p3", "g3"))
    first, second = "p1 of p1 and g1 + p2 of p2 and g2", "p3 of p3 and g3"
    assert together(*ops) == ["g1 of x", "g2 of x", first, "g3 of x", second]
    more = (*ops, made("g4", "g3"), minus("p4", "x"), update("p5", "g4"), update("p6", "g3"))
    found = together(*more)
    assert found == [*found[:2], f"{first} + p4 of x", "g3 of x", f"{second} + p6 of p6 and g3", "g4 of g3", found[-1]]
    assert found[-1] == "p5 of p5 and g4"


def test_those_inside_wait_for_the_last_of_them() -> None:
    """The one in the outer memory does not, and one whose old value is still read does not go past that."""
    ops = (made("g1"), update("p1", "g1"), update("p2", "x"), made("g3"), made("g4", "p2"), update("p3", "g3"))
    waiting = "p3 of p3 and g3 + p1 of p1 and g1"
    assert together(*ops, inside="g1 p1 g3 p3") == ["g1 of x", ops[2].name, "g3 of x", "g4 of p2", waiting]
    stays = [ops[0].name, "p2 of p2 and x", "g3 of x", "g4 of p2", waiting]
    assert together(*ops, inside="g1 p1 g3 p3 p2 x") == stays


def test_nothing_goes_past_what_reads_the_old_value() -> None:
    reading = minus("g1", "p2", phase="backward")
    for ops in ((minus("p1", "x"), reading, minus("p2", "x")), (minus("p1", "x"), made("p2"), minus("p2", "x"))):
        assert together(*ops) == [op.name for op in ops]


def test_each_loop_has_its_own_operands() -> None:
    ops = (minus("p1", "x1"), minus("p2", "p2", "x2"), minus("p3", "x3"))
    (op,) = chained(program(ops), frozenset(), [1 << 16] * 3, MACHINE, [Way(op, None, 1e9) for op in ops]).ops
    ((one, two, three),) = links(op, None, 3)
    for link, before in zip((one, two, three), ops, strict=True):
        assert (link.part.kind, link.part.reads, link.part.writes) == (before.kind, before.reads, before.writes)
        assert {*link.slots} == {None} and link.row is None
    assert op.function == "sgd" and isinstance(op.kind, Together)
    alone = [untiled_cycles(o, [*o.reads, *o.writes], MACHINE) for o in ops]
    assert untiled_cycles(op, [*op.reads, *op.writes], MACHINE) == sum(alone)


def test_what_needs_the_other_stays_apart() -> None:
    """It reads what the other writes, writes what the other reads, or writes the same; either may be the first one."""
    for one, other in ((minus("p1", "x1"), minus("p2", "p1")), (minus("p1", "p2"), minus("p2", "x1"))):
        assert together(one, other) == [one.name, other.name]
        assert together(other, one) == [other.name, one.name]
    twice = (minus("p1", "x1"), minus("p1", "x2"))
    assert together(*twice) == [op.name for op in twice]
    behind = (*twice, minus("p3", "x3"))
    assert together(*behind)[1:] == ["p1 of x2"] and len(together(*behind)) == 2


def test_other_phases_and_what_does_not_last_stay_apart() -> None:
    assert len(together(update("p1", "x1"), minus("p2", "x2", phase="accumulate"))) == 2
    assert len(together(update("p1", "x1"), minus("g3", "x2"))) == 2


def test_what_is_in_tiles_stays_there() -> None:
    ops = (minus("p1", "x"), minus("p2", "x"), minus("p3", "x"))
    assert together(*ops) == ["p1 of x + p2 of x + p3 of x"]
    assert sorted(together(*ops, tiled="p2")) == ["p1 of x + p3 of x", "p2 of x"]


def test_updates_far_behind_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: each update was held against all that follow, of which hardly any has its gradient by then."""
    asked = []

    def counted(members: Members, other: Op) -> bool:
        asked.append(other)
        return meddle(members, other)

    meddle = Members.meddle
    monkeypatch.setattr(Members, "meddle", counted)
    count = 3 * PATIENCE
    ops = [op for k in range(count) for op in (made(f"g{k}"), update(f"p{k}", f"g{k}"))]
    assert together(*ops) == [op.name for op in ops]
    assert len(asked) < count * (PATIENCE + 1) < count * count / 2.5
