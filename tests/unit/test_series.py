"""Which loops go over the same lines, where each finds them, and what may lie in whose place."""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.plan.best_tiling import Job, prospects
from trainlib_deployer.plan.chains import chained
from trainlib_deployer.plan.glance import Look
from trainlib_deployer.plan.tiles import Room
from trainlib_deployer.plan.ways import Way
from trainlib_deployer.program.expr import Instr, Reduction
from trainlib_deployer.program.ir import DType, Op, Part, Program, Role, Tensor, View
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.series import Series, Stage, apart, led

B, C, P = 3, 70, 35  # images, channels, pixels
F = DType.F32
SHAPES = {"x": (B, C, P), "mean": (C,), "y": (B, C, P), "z": (B, C, P), "turned": (C, B, P), "loss": (B, C, P)}
TENSORS = {n: Tensor(n, s, F, Role.LOSS if n == "loss" else Role.ACTIVATION) for n, s in SHAPES.items()}
TENSORS["x"] = replace(TENSORS["x"], role=Role.INPUT)


def summed(name: str = "mean", of: str = "x") -> Op:
    """Over images and pixels, for each channel."""
    kind = Loop((C, B, P), 2, (F,), (), (Reduction("sum", 0, F),), (), (1,), (F,))
    return Op(name, kind, (View(of, (C, B, P), (P, C * P, 1)),), (View(name, (C,), (1,)),), "forward", "norm")


def centred(name: str, of: str = "x", by: str = "mean") -> Op:
    """Each element minus its channel's sum, image by image."""
    kind = Loop((B, C, P), 0, (F, F), (Instr("sub", (0, 1), F),), (), (), (2,), (F,))
    reads = (View(of, (B, C, P), (C * P, P, 1)), View(by, (B, C, P), (0, 1, 0)))
    return Op(name, kind, reads, (View(name, (B, C, P), (C * P, P, 1)),), "forward", "norm")


def negated(name: str, of: str) -> Op:
    """All elements in one row."""
    kind = Loop((B * C * P,), 0, (F,), (Instr("neg", (0,), F),), (), (), (1,), (F,))
    views = [View(n, (B * C * P,), (1,)) for n in (of, name)]
    return Op(name, kind, (views[0],), (views[1],), "forward", "act")


def by_images(name: str, of: str) -> Op:
    """Other lines."""
    kind = Loop((B, C * P), 1, (F,), (), (Reduction("sum", 0, F),), (), (1,), (F,))
    return Op(name, kind, (View(of, (B, C * P), (C * P, 1)),), (View(name, (B,), (1,)),), "forward", "norm")


def joined(*ops: Op, room: int = 1 << 16, alone: float = 1e9) -> Program:
    program = Program("net", dict(TENSORS), list(ops), loss="loss")
    ways = [Way(op, None, alone) for op in ops]
    return chained(program, frozenset(), [room] * len(ops), resolve(cores=3), ways)


def series_of(program: Program) -> Series:
    (kind,) = (op.kind for op in program.ops if isinstance(op.kind, Series))
    return kind


def test_a_normalisation_is_one_operation() -> None:
    """Its statistics, what is made with them, and a loop that knew nothing of channels."""
    found = joined(summed(), centred("y"), negated("loss", "y"))
    assert [op.name for op in found.ops] == ["loss"]
    assert [s.loop.extents for s in series_of(found).stages] == [(C, B, P), (C, B, 1, 1, P), (C, B, P)]
    assert {n for n, t in found.tensors.items() if t.role is Role.INSIDE} == {"mean", "y"}


def test_what_others_read_is_kept() -> None:
    found = joined(summed(), centred("y"), by_images("loss", "y"))
    assert found.tensors["y"].role is Role.ACTIVATION and found.tensors["mean"].role is Role.INSIDE


def test_nothing_joins_that_does_not_pay() -> None:
    ops = (summed(), centred("y"), negated("loss", "y"))
    assert joined(*ops, alone=1.0).ops == list(ops)


def test_what_pays_only_with_the_next_one_joins() -> None:
    """The head alone makes for others what it need not, if all of them join."""
    found = joined(negated("y", "x"), summed("mean", "y"), centred("loss", "y"))
    assert series_of(found).passing and len(found.ops) == 1


def test_what_the_first_reads_does_not_wait_where_memory_is_full() -> None:
    """z, for its sum to be made beside what is centred by it; but between the two comes y, which is as large."""
    ops = (summed("mean", "z"), negated("y", "x"), centred("loss", "y"))
    assert joined(*ops).ops == list(ops)


def test_lines_of_a_row() -> None:
    """Of B x C x P elements in one."""
    op = negated("y", "x")
    found = led(op, "x", P, C)
    assert found is not None
    assert [v.shape[:2] for v in found.views] == [(C, B), (C, B)] and found.views[0].strides[:2] == (P, C * P)
    assert led(op, "x", P + 1, C) is None and led(op, "x", P, C + 1) is None


def test_lines_have_elements_of_their_own() -> None:
    assert apart(View("x", (C, B, P), (P, C * P, 1)))
    assert not apart(View("x", (C, B, P + 1), (P, C * P, 1)))  # into the next line
    assert not apart(View("x", (C, B, P), (P, C * P, 1), P - 1))
    assert not apart(View("x", (C, B, P), (0, C * P, 1)))
    assert not apart(View("x", (C, P, C), (P, 1, 2 * P)))  # another line's


def test_a_loop_over_other_lines_stays_apart() -> None:
    ops = (summed(), by_images("loss", "x"))
    assert joined(*ops).ops == list(ops)


def test_results_lie_where_operands_were() -> None:
    """y in the place of x, which nobody reads any more, and the loss in that of y; not while others wait for it."""
    found = joined(summed(), centred("y"), negated("loss", "y"))
    (op,) = found.ops
    names = [v.tensor for v in op.writes]
    places = series_of(found).in_place_of(op.reads, op.writes)
    assert {names[w]: op.reads[r].tensor for w, r in places.items()} == {"y": "x", "loss": "x"}
    again = joined(summed(), centred("y"), centred("z"), negated("loss", "y"))
    (op,) = again.ops
    names = [v.tensor for v in op.writes]
    places = series_of(again).in_place_of(op.reads, op.writes)
    assert "y" not in {names[w] for w in places}, "x is read once more"


def test_a_loop_writes_over_what_it_reads_byte_by_byte() -> None:
    """Halves begin where floats of other elements lie, and so does a second look at the same tensor."""
    whole, turned = View("x", (C, B, P), (P, C * P, 1)), View("x", (C, B, P), (C * P, P, 1))
    result = View("y", (C, B, P), (P, C * P, 1))
    copied = Loop((C, B, P), 0, (F,), (), (), (), (0,), (F,))
    assert Stage(copied, (0,), (0,)).over(0, (whole,), (result,)) == [0]
    halved = replace(copied, body=(Instr("to_half", (0,), DType.F16),), results=(1,), outputs=(DType.F16,))
    assert Stage(halved, (0,), (0,)).over(0, (whole,), (result,)) == []
    twice = replace(copied, inputs=(F, F), body=(Instr("add", (0, 1), F),), results=(2,))
    assert Stage(twice, (0, 1), (0,)).over(0, (whole, turned), (result,)) == []


def test_what_several_loops_read_is_counted_once() -> None:
    """No way to cut is left out because it seems too large."""
    found = joined(summed(), centred("y"), negated("loss", "y"))
    (op,) = found.ops
    room = Room(frozenset(), 1 << 16, resolve(cores=3))
    whole = prospects(Job.of(found, op, room)).tiling(-1, room.machine.inner.size, ahead=1)
    part = Part(op.kind, op.reads, op.writes)
    assert whole is not None and Look.at(found, part, room).least(part) <= whole.nbytes
