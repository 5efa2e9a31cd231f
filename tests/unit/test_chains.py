"""Which loops may follow another operation's tiles, and what becomes of the tensor between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.plan import joints
from trainlib_deployer.plan.best_tiling import best_tiling
from trainlib_deployer.plan.chains import chained
from trainlib_deployer.plan.joints import UNLIKELY
from trainlib_deployer.plan.tiles import Room
from trainlib_deployer.plan.ways import Way
from trainlib_deployer.program.chain import Chain, place
from trainlib_deployer.program.expr import Instr
from trainlib_deployer.program.ir import DType, Op, Program, Role, Tensor, View
from trainlib_deployer.program.loop import Loop

M, K, N = 26, 70, 19
MACHINE = resolve(cores=3)


def tensor(name: str, shape: tuple[int, ...], role: Role = Role.ACTIVATION) -> Tensor:
    return Tensor(name, shape, DType.F32, role)


TENSORS = {
    t.name: t
    for t in (
        tensor("x", (1, M, K), Role.INPUT),
        tensor("w", (1, K, N), Role.PARAMETER),
        *(tensor(n, (1, M, N)) for n in ("y", "z", "other", "more")),
        tensor("loss", (1, M, N), Role.LOSS),
    )
}


def product(out: str = "y", phase: str = "forward") -> Op:
    views = [View.whole(TENSORS[n]) for n in ("x", "w", out)]
    return Op(f"make {out}", MatMul(1, M, N, K), tuple(views[:2]), (views[2],), phase, "layer")


def loop(reads: Sequence[str], write: str, phase: str = "forward") -> Op:
    """A sum of operands, as a coalesced loop over all elements."""
    views = [View(n, (M * N,), (1,)) for n in (*reads, write)]
    body = (Instr("add", (0, len(reads) - 1), DType.F32),)
    dtypes = (DType.F32,) * len(reads)
    kind = Loop((M * N,), 0, dtypes, body, (), (), (len(reads),), (DType.F32,))
    return Op(f"make {write}", kind, tuple(views[:-1]), (views[-1],), phase, "layer")


def joined(*ops: Op, alone: float = 1e9, **more: object) -> Program:
    return chained_beside([Way(op, None, alone) for op in ops], **more)


def chained_beside(ways: list[Way], room: int = 1 << 16, **more: object) -> Program:
    program = replace(Program("net", dict(TENSORS), [w.op for w in ways], loss="loss"), **more)  # type: ignore[arg-type]
    return chained(program, frozenset(), [room] * len(ways), MACHINE, ways)


def names(program: Program) -> list[str]:
    return [op.name + (" chain" if isinstance(op.kind, Chain) else "") for op in program.ops]


def test_what_only_the_follower_reads_stays_inside() -> None:
    found = joined(product(), loop(["y"], "z"), loop(["z"], "loss"))
    assert names(found) == ["make y chain", "make loss"]
    assert found.tensors["y"].role is Role.INSIDE
    kept = joined(product(), loop(["y"], "z"), loop(["z", "y"], "loss"))
    assert names(kept) == ["make y chain", "make loss"]
    assert kept.tensors["y"].role is Role.ACTIVATION


def test_nothing_is_joined_that_does_not_pay() -> None:
    ops = (product(), loop(["y"], "z"), loop(["z"], "loss"))
    assert joined(*ops, alone=1.0).ops == list(ops)


def test_what_takes_too_long_at_a_first_look_is_not_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no room for the whole operation, which is always worked out."""
    ways = [Way(op, None, 1e6) for op in (product(), loop(["y"], "z"), loop(["z"], "loss"))]
    for times, room, joins in ((UNLIKELY, 16000, True), (0.0, 16000, False), (0.0, 1 << 16, True)):
        monkeypatch.setattr(joints, "UNLIKELY", times)
        assert ("make y chain" in names(chained_beside(ways, room))) == joins, (times, room)


@pytest.mark.parametrize(("more", "joins"), [(1.0, True), (1 / 1.009, True), (1 / 1.011, False)])
def test_fewer_bytes_decide_where_cycles_are_alike(more: float, joins: bool) -> None:
    """The chain takes its own cycles, and each operation alone half as much, but for a little."""
    ops = (product(), loop(["y"], "z"))
    chain = joined(*ops).ops[0]
    program = Program("net", dict(TENSORS) | {"y": replace(TENSORS["y"], role=Role.INSIDE)})
    tiling = best_tiling(program, chain, Room(frozenset(), 1 << 16, MACHINE))
    assert tiling is not None
    whole = [best_tiling(Program("net", TENSORS), op, Room(frozenset(), 1 << 16, MACHINE)) for op in ops]
    ways = [Way(op, t, more * tiling.cycles / 2) for op, t in zip(ops, whole, strict=True)]
    assert sum(way.moved for way in ways) > tiling.moved
    assert names(chained_beside(ways)) == (["make y chain"] if joins else ["make y", "make z"])
    assert names(chained_beside([replace(way, tiling=None) for way in ways])) == ["make y", "make z"], "no fewer bytes"


def test_results_of_the_step_are_kept() -> None:
    found = joined(product(), loop(["y"], "z"), loop(["z"], "loss"), outputs=(("output", "y"),))
    assert found.tensors["y"].role is Role.ACTIVATION
    assert names(found) == ["make y", "make z", "make loss"], "what follows the last output belongs to the loss"
    both = joined(product(), loop(["y"], "z"), loop(["z"], "loss"), outputs=(("a", "y"), ("b", "z")))
    assert names(both) == ["make y chain", "make loss"]
    assert both.tensors["y"].role is Role.ACTIVATION


def test_a_loop_of_the_backward_pass_does_not_move_to_the_forward_pass() -> None:
    assert names(joined(product(), loop(["y"], "z", "backward"))) == ["make y", "make z"]


def test_operations_between_are_passed_only_if_order_does_not_matter() -> None:
    between = loop(["other"], "more")
    assert names(joined(product(), between, loop(["y"], "z"))) == ["make y chain", "make more"]
    needed = loop(["other"], "more")
    assert names(joined(product(), needed, loop(["y", "more"], "z"))) == ["make more", "make y chain"]
    stuck = loop(["y", "other"], "more")  # reads what the head makes: it cannot go down, nor the follower up
    assert names(joined(product(), loop(["more"], "other"), stuck, loop(["y", "more"], "z")))[-1] == "make z"


def test_a_follower_that_reads_in_another_order_is_left_alone() -> None:
    across = loop(["y"], "z")
    view = View("y", (N, M), (1, N))
    kind = replace(across.kind, extents=(N, M))  # type: ignore[type-var]
    turned = replace(across, kind=kind, reads=(view,), writes=(View("z", (N, M), (M, 1)),))
    assert names(joined(product(), turned)) == ["make y", "make z"]


def test_a_gradient_inside_is_recorded() -> None:
    update = loop(["y", "z"], "z", "update")
    found = joined(product(phase="backward"), update, gradients=(("w", "y"),))
    assert names(found) == ["make y chain"]
    assert found.tensors["y"].role is Role.RECORDED
    chain = found.ops[0].kind
    assert isinstance(chain, Chain) and chain.followers[0].loop.recorded == 1
    assert found.ops[0].writes[-1].tensor == "y"
    assert found.tensors[found.ops[0].writes[0].tensor].role is Role.INSIDE


def test_an_update_waits_for_the_sum_of_all_gradients() -> None:
    update = loop(["y", "z"], "z", "update")
    added = loop(["other"], "more", "accumulate")
    found = joined(product(phase="backward"), added, update, gradients=(("w", "y"),))
    assert names(found) == ["make y", "make more", "make z"]


def test_the_place_of_a_tile() -> None:
    whole = View.whole(tensor("t", (5, 1, 7, 6)))
    tile = whole.sliced(0, 2, 4).sliced(2, 3, 7).sliced(3, 1, 5)
    assert place(tile, whole) == ((2, 4), (0, 1), (3, 7), (1, 5))
