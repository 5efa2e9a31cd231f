"""Another order of the backward pass: the same operations, every dependency kept, less memory at the fullest moment."""

from __future__ import annotations

import random

import pytest

from trainlib_deployer.passes.reorder import Scale, reorder, used_up_early
from trainlib_deployer.plan.layout import tensor_items
from trainlib_deployer.program.expr import Instr
from trainlib_deployer.program.ir import DType, Op, Program, Role, Tensor, View
from trainlib_deployer.program.lifetimes import Lifetime, lifetimes
from trainlib_deployer.program.loop import Loop

ADD = Instr("add", (0, 1), DType.F32)


def operation(name: str, program: Program, reads: list[str], write: str, phase: str) -> Op:
    """A loop over as many elements as all operands have (their sizes differ: only memory matters here)."""
    views = tuple(View.whole(program.tensors[r]) for r in reads)
    kind = Loop(program.tensors[write].shape, 0, (DType.F32,) * len(reads), (ADD,), (), (), (len(reads),), (DType.F32,))
    return Op(name, kind, views, (View.whole(program.tensors[write]),), phase, "")


def random_program(seed: int, largest: int = 399) -> Program:
    """A forward chain, then gradients of which each needs the one before it and an activation, and updates."""
    rng = random.Random(seed)
    program = Program("random")

    def tensor(name: str, role: Role) -> str:
        program.tensors[name] = Tensor(name, (rng.randint(4, largest),), DType.F32, role)
        return name

    tensor("x", Role.INPUT)
    length = rng.randrange(4, 9)
    names = ["x"]
    for i in range(length):
        names.append(tensor(f"a{i}", Role.ACTIVATION))
        program.ops.append(operation(f"forward{i}", program, names[-2:-1], names[-1], "forward"))
    program.loss = tensor("loss", Role.LOSS)
    program.ops.append(operation("loss", program, names[-1:], "loss", "forward"))
    gradient = tensor("g", Role.GRADIENT)
    program.ops.append(operation("backward", program, names[-1:], gradient, "backward"))
    for i in reversed(range(length)):
        weight, change = tensor(f"w{i}", Role.PARAMETER), tensor(f"w{i}.grad", Role.GRADIENT)
        below = tensor(f"g{i}", Role.GRADIENT)
        program.ops.append(operation(f"input{i}", program, [gradient, weight], below, "backward"))
        program.ops.append(operation(f"weight{i}", program, [gradient, names[i]], change, "backward"))
        program.ops.append(operation(f"update{i}", program, [weight, change], weight, "update"))
        gradient = below
    return program


def conflict(one: Op, other: Op) -> bool:
    """One writes what the other touches."""
    touched = [({v.tensor for v in op.writes}, {v.tensor for v in (*op.reads, *op.writes)}) for op in (one, other)]
    return bool(touched[0][0] & touched[1][1] or touched[1][0] & touched[0][1])


def peak(program: Program) -> int:
    """By the rules of the planner."""
    items = tensor_items(program)
    ends = range(len(program.ops))
    return max(sum(-(-i.size // 16) * 16 for i in items if i.life.birth <= at < i.life.death) for at in ends)


@pytest.mark.parametrize("seed", range(12))
def test_same_operations_in_a_legal_order(seed: int) -> None:
    program = random_program(seed)
    ordered = reorder(program)
    names = [op.name for op in program.ops]
    assert sorted(names) == sorted(op.name for op in ordered.ops)
    position = {op.name: i for i, op in enumerate(ordered.ops)}
    for i, earlier in enumerate(program.ops):
        for later in program.ops[i + 1 :]:
            if conflict(earlier, later):
                assert position[earlier.name] < position[later.name]
    forward = [n for n in names if n.startswith(("forward", "loss"))]
    assert [op.name for op in ordered.ops[: len(forward)]] == forward
    assert peak(ordered) <= peak(program)


@pytest.mark.parametrize("seed", range(12))
def test_orders_are_weighed_as_they_are_planned(seed: int) -> None:
    """Also where all tensors are of one size, so that many lie where others lay."""
    given = random_program(seed), random_program(seed, largest=4)
    for origin, program in [(p, p) for p in given] + [(p, reorder(p)) for p in given]:
        lives, items = lifetimes(program), tensor_items(program)
        alive = [sum(-(-i.size // 16) * 16 for i in items if there(i.life, at)) for at in range(len(program.ops))]
        top, found = max(alive), Scale.of(origin).weigh(program.ops)
        assert (found.peak, found.count, found.position) == (top, alive.count(top), alive.index(top))
        kept = {i.name for i in items if there(i.life, found.position)}
        assert set(found.live) == kept | {n for n, life in lives.items() if there(life, found.position)}


def there(life: Lifetime, at: int) -> bool:
    return life.birth <= at < life.death


def test_it_helps() -> None:
    gains = [peak(random_program(seed)) - peak(reorder(random_program(seed))) for seed in range(40)]
    assert min(gains) >= 0 and sum(g > 0 for g in gains) > 10


def test_a_large_gradient_waits_until_there_is_room() -> None:
    """The weight gradient beside the most activations is the largest: it is made once some of them are gone."""
    program = Program("wait")
    for name, size in {"a": 1000, "b": 1000, "g": 4, "g1": 4, "g2": 4, "big": 900, "loss": 1, "out": 4}.items():
        role = Role.LOSS if name == "loss" else Role.ACTIVATION
        program.tensors[name] = Tensor(name, (size,), DType.F32, role)
    program.tensors["w"] = Tensor("w", (900,), DType.F32, Role.PARAMETER)
    program.tensors["x"] = Tensor("x", (1000,), DType.F32, Role.INPUT)
    program.loss = "loss"
    steps = [
        ("first", ["x"], "a", "forward"),
        ("second", ["a"], "b", "forward"),
        ("loss", ["b"], "loss", "forward"),
        ("begin", ["loss"], "g", "backward"),
        ("weight", ["g"], "big", "backward"),
        ("update", ["w", "big"], "w", "update"),
        ("through b", ["g", "b"], "g1", "backward"),
        ("through a", ["g1", "a"], "g2", "backward"),
        ("end", ["g2"], "out", "backward"),
    ]
    program.ops += [operation(name, program, reads, write, phase) for name, reads, write, phase in steps]
    assert peak(program) == 4 * 2900 + 16 * 2 + 0
    ordered = reorder(program)
    assert peak(ordered) < 4 * 2020 + 64
    names = [op.name for op in ordered.ops]
    assert names.index("weight") > names.index("through b")


def test_what_is_fullest_moves_with_the_update_that_uses_it_up() -> None:
    """Fault: the sum for a bias, which went on its own, would have waited for its update beside a larger gradient."""
    program = Program("early")
    for name in ("g", "through", "small"):
        program.tensors[name] = Tensor(name, (5,), DType.F32, Role.ACTIVATION)
    for name in ("w", "bias"):
        program.tensors[name] = Tensor(name, (5,), DType.F32, Role.PARAMETER)
    steps = [
        ("begin", ["bias"], "g", "backward"),
        ("input", ["g", "w"], "through", "backward"),
        ("weight", ["g", "w"], "w", "update"),
        ("sum", ["g"], "small", "backward"),
        ("update", ["bias", "small"], "bias", "update"),
        ("end", ["through"], "w", "update"),
    ]
    program.ops += [operation(name, program, reads, write, phase) for name, reads, write, phase in steps]
    (moved,) = used_up_early(program.ops, 3, 0)
    assert [op.name for op in moved] == ["begin", "sum", "update", "input", "weight", "end"]
    assert not any(any(used_up_early(program.ops, at, 0)) for at in (0, 1, 2, 4, 5))
