"""What lies behind the outer memory: which tensors leave, in which pieces, and when their copies move."""

from __future__ import annotations

from dataclasses import replace

import pytest
from torch import nn

from tests.unit.small_programs import program_of
from trainlib_deployer import meanwhile
from trainlib_deployer.errors import DoesNotFit
from trainlib_deployer.far.carried import carried, planned_far
from trainlib_deployer.far.choose import Board, chosen
from trainlib_deployer.far.pieces import Piece, Pieces, Step
from trainlib_deployer.far.stays import Resident, Use
from trainlib_deployer.far.timing import Timed, timed
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.machine.sizes import parse_size
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.passes.half_saved import half_saved, halves
from trainlib_deployer.plan.build import fitted, offer_halves, plan
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.strategies import best_layout
from trainlib_deployer.program.expr import Instr
from trainlib_deployer.program.ir import DType, Op, Program, Role, Tensor, View
from trainlib_deployer.program.loop import Loop

pytestmark = pytest.mark.slow

KB = 1024


def machine(l2: int, l3: int = 1 << 20) -> Machine:
    return resolve(cores=2, l1="24k", l2=str(l2), l3=str(l3))


def program(steps: str, **sizes: int) -> Program:
    """`a+b>c ...`: each operation adds two tensors of so many kB into a third, element by element. Small letters come
    and go, large ones persist."""
    tensors = {
        name: Tensor(name, (KB // 4 * size,), DType.F32, Role.PARAMETER if name.isupper() else Role.ACTIVATION)
        for name, size in sizes.items()
    }

    def op(text: str) -> Op:
        given, _, made = text.partition(">")
        views = [View.whole(tensors[name]) for name in (*given.split("+"), made)]
        shape = views[-1].shape
        add = Loop(shape, 0, (DType.F32,) * 2, (Instr("add", (0, 1), DType.F32),), (), (), (2,), (DType.F32,))
        return Op(text, add, (views[0], views[1]), (views[2],), "forward", "")

    ops = [op(text) for text in steps.split()]
    last = ops[-1].writes[0].tensor
    return Program("net", tensors, ops, outputs=((last, last),), learns=False)


CHAIN = program("A+A>b A+A>c c+c>d d+d>e b+e>f", A=4, b=4, c=4, d=4, e=4, f=4)


def board(p: Program, budget: int) -> Board:
    """Of operations that nobody has cut."""
    return chosen(p, [Step(op, {}) for op in p.ops], machine(budget), budget)


def gone(found: Board) -> set[str]:
    return {name for name, r in found.residents.items() if r.far}


# ---- which


def test_what_costs_the_least_leaves() -> None:
    """A is only read, before: it comes once a step, where b would go and come again."""
    assert gone(board(CHAIN, 16 * KB)) == set()
    found = board(CHAIN, 12 * KB)
    assert gone(found) == {"A"} and found.most == 12 * KB
    assert [r.moved for r in found.residents.values() if r.far] == [(1, 4 * KB)]


def test_as_few_bytes_as_can_be() -> None:
    """Where the budget is out of reach: the last operation uses three tensors."""
    found = board(CHAIN, 8 * KB)
    assert found.most == 12 * KB and gone(found) == {"A", "b"}
    assert board(program("a+a>b", a=0, b=0), 0).most == 0


@pytest.mark.parametrize("budget", [64 * KB, 12 * KB, 1 * KB])
def test_bytes_in_use_are_those_of_all_stays(budget: int) -> None:
    found = board(CHAIN, budget)
    used = [0] * len(found.used)
    for r in found.residents.values():
        for first, last, nbytes in r.nearby(len(used)):
            for at in range(first, last):
                used[at] += nbytes
    assert used == found.used.tolist()


# ---- in pieces


def test_only_what_is_too_large_is_cut() -> None:
    mixed = program("A+A>b C+C>d", A=64, b=64, C=2, d=2)
    found = Pieces(mixed, machine(32 * KB)).within(32 * KB)
    assert [s.op.name for s in found if s.op.name.startswith("C")] == ["C+C>d"]
    cut = [s for s in found if s.op.name.startswith("A")]
    assert len(cut) > 4 and all(2 * s.pieces["A"].nbytes <= 16 * KB for s in cut)
    assert sum(s.pieces["A"].nbytes for s in cut) == 64 * KB


def test_what_cannot_leave_counts_beside_the_operands() -> None:
    """An output of 12 kB is there to the end, so that 20 kB are left for pieces of the others."""
    p = program("X+X>o A+A>b b+b>b", X=12, o=12, A=64, b=64)
    p = replace(p, outputs=(("o", "o"),))
    pieces = Pieces(p, machine(32 * KB))
    assert pieces.always == [0, 12 * KB, 12 * KB]
    assert carried(pieces, 32 * KB).most <= 32 * KB


def test_pieces_of_columns_lie_apart() -> None:
    left, right = Piece(0, 16, 5, 64), Piece(16, 48, 5, 64)
    assert not left.overlaps(right) and not right.overlaps(left)
    assert left.overlaps(Piece(0, 64)) and not left.overlaps(Piece(320, 4))


def test_a_third_memory_that_is_too_small() -> None:
    """Is seen before tiles are chosen."""
    asked: list[Program] = []

    def planned(step: Program, target: Machine) -> object:
        asked.append(step)
        return best_layout(step, target)

    big = program("A+A>b B+B>c b+c>d", A=24, B=24, b=24, c=24, d=24)
    assert planned_far(big, machine(80 * KB, 16 * KB), planned) is None and not asked  # type: ignore[arg-type]
    assert planned_far(big, machine(80 * KB), planned) is not None and asked  # type: ignore[arg-type]


# ---- when


def times(p: Program, budget: int, cycles: float) -> list[Timed]:
    return timed(p, [cycles] * len(p.ops), board(p, budget), budget)


@pytest.mark.parametrize(("cycles", "starts", "exposed"), [(6000, 3, 0), (3000, 2, 0), (1000, 2, 3651)])
def test_a_copy_starts_as_early_as_hides_it(cycles: float, starts: int, exposed: int) -> None:
    """4 kB take 1,100 cycles and 0.9 bytes a cycle; there is room for them from the third operation on."""
    p = program("s+s>t t+t>u u+u>v v+v>w A+w>x", A=4, s=4, t=4, u=1, v=1, w=2, x=2)
    (comes,) = (t for t in times(p, 8 * KB, cycles) if t.stay.tensor == "A")
    assert (comes.stay.first, comes.starts, comes.exposed_in) == (4, starts, exposed)


def test_what_no_work_hides_is_waited_for() -> None:
    p = program("A+A>b b+b>c c+c>d", A=8, b=8, c=8, d=8)
    (comes,) = (t for t in times(p, 16 * KB, 10.0) if t.stay.tensor == "A")
    assert comes.starts == comes.stay.first == 0 and comes.exposed_in == round(1100 + 8 * KB / 0.9)


def test_more_copies_than_the_link_has_channels_are_never_under_way() -> None:
    p = program("A+A>a B+B>b C+C>c D+D>d a+b>e c+d>f e+f>g", **dict.fromkeys("ABCDabcdefg", 4))
    found = times(p, 16 * KB, 1000.0)
    link = machine(KB).links[1]
    flying = [sum(t.starts <= at < t.stay.first or t.stay.last < at < t.ends for t in found) for at in range(7)]
    assert max(flying) == link.channels == 2, flying


def test_a_resident_is_far_from_a_gap_on() -> None:
    t = Tensor("a", (256,), DType.F32, Role.ACTIVATION)
    whole = Piece(0, KB)
    uses = [Use(0, whole, False, True), Use(3, whole, True, False), Use(9, whole, True, False)]
    near = Resident(t, uses, False)
    assert near.moved == (0, 0) and near.nearby(12) == [(0, 10, KB)]
    split = near.without(1)
    assert [(s.first, s.last, s.brings, s.takes) for s in split.stays] == [(0, 3, False, True), (9, 9, True, False)]
    assert split.moved == (2, 2 * KB) and split.idle(6, 12) is None and near.idle(6, 12) == (5, 1)


# ---- what is said


def test_what_does_not_fit_names_the_need_with_a_third_memory() -> None:
    """An input of 64 kB stays; of what leaves, a piece is there at a time."""
    p = program("A+A>b b+b>b", A=32, b=32)
    p = replace(p, tensors=p.tensors | {"I": Tensor("I", (4, 4 * KB), DType.F32, Role.INPUT)}, outputs=())
    with pytest.raises(DoesNotFit, match=r"L3: needs 81,088 of 1,048,576 bytes") as refused:
        plan(p, machine(40 * KB))
    assert 24 * KB < refused.value.over["L2"] < 28 * KB
    (enough,) = (what for what in refused.value.helps if what.startswith("--l2"))
    assert planned_far(p, machine(parse_size(enough.removeprefix("--l2 "))), best_layout) is not None


LARGE = program("A+A>b b+B>c c+c>B C+C>d", A=3500, B=3500, b=3500, c=3500, C=1, d=1)


@pytest.mark.parametrize(("given", "said"), [(None, "--l3 16M"), ("8M", "--l3 14008k")])
def test_what_does_not_fit_names_a_third_memory_that_is_large_enough(given: str | None, said: str) -> None:
    """Boards have 8 MB; four tensors of 3.5 MB take 14, and orders 8 kB."""
    with pytest.raises(DoesNotFit) as refused:
        plan(LARGE, resolve(cores=2, l1="24k", l2="1M", l3=given))
    assert [what for what in refused.value.helps if "--l3" in what] == [said]
    enough = machine(1 << 20, parse_size(said.removeprefix("--l3 ")))
    assert planned_far(LARGE, enough, best_layout) is not None
    assert planned_far(LARGE, machine(1 << 20, 8 << 20), best_layout) is None


def test_a_third_memory_that_the_build_leaves_no_room_beside_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for in this process: what a copy of it is asked is not seen here."""
    monkeypatch.setattr(meanwhile, "may_be_copied", lambda: False)
    asked: list[Machine] = []
    with pytest.raises(DoesNotFit) as refused:
        plan(LARGE, resolve(cores=2, l1="24k", l2="1M"), lambda _, chip: asked.append(chip))
    assert not any("--l3" in what for what in refused.value.helps)
    assert asked[0].outer.size == 1 << 20 and "siracusa" in {chip.name for chip in asked}


def test_a_larger_chip_and_a_third_memory() -> None:
    def beside(step: Program, chip: Machine) -> Plan | None:
        return planned_far(step, chip, best_layout) if chip.name == "siracusa" else None

    with pytest.raises(DoesNotFit) as refused:
        plan(LARGE, resolve("pulp-open"), beside)
    assert "--target siracusa --l3 16M" in refused.value.helps


def test_what_cannot_leave_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is cut, nor copied, where that is known. Fault: 806 operations became 222,315 pieces."""
    held = replace(CHAIN, tensors=CHAIN.tensors | {"I": Tensor("I", (16 * KB,), DType.F32, Role.INPUT)})
    monkeypatch.setattr("trainlib_deployer.far.carried.nearest", lambda *_: pytest.fail("it was cut"))
    assert planned_far(held, machine(60 * KB), best_layout) is None


def test_pieces_that_save_nothing() -> None:
    """However little room is left, none is smaller than a 64th of it."""
    p = program("A+A>b", A=128, b=128)
    held = replace(p, tensors=p.tensors | {"I": Tensor("I", (16 * KB,), DType.F32, Role.INPUT)})
    for budget in (60 * KB, 64 * KB):
        assert len(Pieces(held, machine(budget)).within(budget)) < 1024


def test_a_build_that_fills_the_outer_memory_alone() -> None:
    """No copy helps, and nobody looks for one."""
    full = machine(80 * KB).with_memory(1, 80 * KB, reserved=80 * KB)
    assert planned_far(CHAIN, full, best_layout) is None
    with pytest.raises(DoesNotFit, match=r"L2: needs [0-9,]+, and the build 81,920, of 81,920 bytes") as refused:
        plan(program("A+A>b", A=64, b=64), full)
    assert "L3:" not in refused.value.message


def test_half_precision_is_offered_beside_what_is_chosen() -> None:
    """It changes results, so the plan that is taken knows nothing of it."""
    layers = (m for _ in range(4) for m in (nn.Linear(16, 16), nn.Tanh()))
    step, said = program_of(nn.Sequential(*layers, nn.Linear(16, 3)), (31, 16)), list[str]()
    taken = fitted(step, resolve(cores=2, l1="5k", l2="16k", l3="1M"), said.append)
    offer_halves(step, taken, said.append)
    assert taken.program.far and not halves(taken.program)
    assert [line.partition(" with ")[0] for line in said] == ["it fits", "so it does", "so it would"]
    assert "done twice" in said[1] and "--saved fp16, 11 bits of 2 tensors" in said[2]
    assert all(line.endswith(" cycles a step") for line in said)
    smaller = half_saved(step)
    offer_halves(smaller, replace(taken, program=smaller), lambda line: pytest.fail(f"there are some already: {line}"))
    roomy = fitted(step, resolve(cores=2, l1="5k", l2="64k", l3="1M"), said.append)
    offer_halves(step, roomy, lambda line: pytest.fail(f"nothing was changed: {line}"))
