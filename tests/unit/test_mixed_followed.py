"""The reference of mixed precision goes on with what the program had in memory, and with no mistake of it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from golden import nearest, reference
from golden.doubt import Doubt, Kinks
from golden.half import HALF, Half
from golden.halves import Halves
from golden.memory import EMPTY, NEAR, Array, Found, Memory, Same
from golden.mode import Mode
from golden.rounding import Rounding
from golden.task import Task
from trainlib_deployer.check.judge import judged_in_halves
from trainlib_deployer.run.witness import witness_text, witnesses


class Scaled(nn.Module):
    """Passes its gradient on with a factor."""

    factor = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.requires_grad and self.factor != 1.0:
            x.register_hook(lambda g: g * self.factor)  # type: ignore[no-untyped-call]
        return x


@dataclass(frozen=True)
class Taken(Found):
    """Takes down what is made, as halves."""

    made: Any = None

    def follow(self, made: Any) -> None:
        if isinstance(made, torch.Tensor) and made.is_floating_point() and made.numel() > 1:
            self.made.append(made.detach().numpy().astype(np.float16))


@dataclass(frozen=True)
class Watched(Memory):
    made: Any = None

    def of(self, step: int | None, half: Half = HALF) -> Found:
        return Taken(made=self.made)


def task_of() -> Task:
    """One sum is next to the corner of its ReLU, and carries a good part of the gradient."""
    torch.manual_seed(11)
    net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), Scaled(), nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    x = torch.randn(3, 6)
    with torch.no_grad():
        net[0].bias[2] -= net[0](x)[1, 2] - 1e-4
    names = [n for n, _ in net.named_parameters()]
    return Task(net, nn.MSELoss(), [((x,), torch.randn(3, 3))], "SGD", [({"lr": 0.1}, names)], dtype="mixed")


def program_of(task: Task, doubt: Doubt, factor: float = 1.0) -> tuple[dict[tuple[int, str, str], Array], Memory]:
    """A run of PyTorch in place of a program: what it computes, and what it has had."""
    made: list[Array] = []
    task.module[2].factor = factor
    found = reference.run(replace(task, doubt=doubt, memory=Watched(made=made)), 1, torch.float32)
    task.module[2].factor = 1.0
    return found, Memory({0: made})


def other_side(task: Task) -> Doubt:
    kinks = Kinks()
    reference.run(replace(task, doubt=Doubt(kinks)), 1, torch.float64)
    return Doubt(turned=next(kinks.turned()))


def test_a_branch_of_the_program_is_taken_at_once() -> None:
    """Fault: which branch a program took was guessed, in up to 25 runs."""
    task = task_of()
    computed, memory = program_of(task, other_side(task))
    plain = reference.run(task, 1, torch.float64)
    key = (0, "gradient", "0.weight")
    assert nearest.relative(computed[key], plain[key]) > 0.02
    judged = judged_in_halves(replace(task, memory=memory), computed, 1, {})
    assert judged.verdict.passed and not judged.runs
    assert all(t.hides_factor < 0.01 for t in judged.verdict.tensors if t.kind == "gradient")


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.05, 0.95])
def test_a_factor_between_two_layers_is_no_branch(factor: float) -> None:
    """What is above it is right, what is below is not."""
    task = task_of()
    computed, memory = program_of(task, other_side(task), factor)
    found = judged_in_halves(replace(task, memory=memory), computed, 1, {}).verdict
    wrong = {t.name for t in found.tensors if not t.passed and t.kind == "gradient"}
    assert wrong == {"0.weight", "0.bias"}


@pytest.mark.slow
def test_a_loop_adds_up_floats_of_which_memory_has_halves() -> None:
    """Fault: all runs went on with these halves. Of a bias in front of a norm, whose gradient is nothing, each made the
    same of their roundings, and the program, whose loop has the floats, was held to that."""
    torch.manual_seed(4)
    net = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), Scaled(), nn.Tanh(), nn.Linear(5, 3))
    names = [n for n, _ in net.named_parameters()]
    samples = [((torch.randn(7, 6),), torch.randn(7, 3))]
    task = Task(net, nn.MSELoss(), samples, "SGD", [({"lr": 0.1}, names)], dtype="mixed")
    computed, memory = program_of(task, Doubt())
    bias = 0, "gradient", "0.bias"
    rounded = float(np.abs(computed[bias]).max())
    assert rounded > 1e-6
    computed[0, "parameter", "0.bias"] += np.float32(0.0999) * computed[bias]  # as it moves with the gradient below
    computed[bias] = computed[bias] * np.float32(1e-3)
    task = replace(task, memory=memory)
    assert judged_in_halves(task, computed, 1, {}).verdict.passed
    for key, factor in ((bias, 1e5), ((0, "gradient", "0.weight"), 1.05), ((0, "gradient", "1.weight"), 0.95)):
        wrong = {**computed, key: computed[key] * np.float32(factor)}
        found = judged_in_halves(task, wrong, 1, {}).verdict
        assert {t.name for t in found.tensors if not t.passed and t.kind == "gradient"} == {key[2]}


def followed(value: torch.Tensor, *had: torch.Tensor) -> torch.Tensor:
    made = value.clone()
    Memory({3: [t.numpy() for t in had]}).of(3).follow(made)
    return made


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_points_the_same_way_is_gone_on_with_in_its_own_size(dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    value = torch.randn(5, 31, dtype=dtype)
    half, further = value.half(), (value * (1 + NEAR / 2 * torch.randn(5, 31))).float()
    assert torch.equal(followed(value, torch.randn(5, 31), further, half), half.to(dtype))  # its own halves
    for factor in (1.001, 1.05, 0.5, 8.0):
        found = followed(value, torch.randn(5, 31), further, half * factor)
        assert not torch.equal(found, value) and torch.allclose(found, value, rtol=2.0**-9)
        assert abs(float((found.double() * value).sum() / value.square().sum()) - 1) < 1e-6


def test_zeros_are_alike_in_any_size() -> None:
    """Fault: of a gradient of one token, scaled, 97 of 100 elements were the halves that it had before, namely zero,
    and so it was taken for that: the factor was lost."""
    had = torch.zeros(40, 24)
    had[0] = torch.randn(24, generator=torch.Generator().manual_seed(5))
    had = had.half().float()
    made = had.double() * 0.54
    Memory({3: [had.numpy()]}).of(3).follow(made)
    torch.testing.assert_close(made, had.double() * 0.54)


def test_what_is_not_the_same_is_left() -> None:
    torch.manual_seed(3)
    value = torch.randn(4, 7)
    apart = value + 3 * NEAR * value.norm() * nn.functional.normalize(torch.randn(28), dim=0).reshape(4, 7)
    for had in (apart, -value, value * torch.inf, torch.zeros(4, 7), torch.cat([value, value]), value * torch.nan):
        assert torch.equal(followed(value, had), value)
    assert torch.equal(followed(torch.zeros(4, 7), value), torch.zeros(4, 7))
    spread = value[:, :1].expand(4, 7)
    Memory({3: [spread.numpy()]}).of(3).follow(spread)
    assert not EMPTY.of(0).tensors and not Memory({3: [value.numpy()]}).of(None).tensors
    assert not list(Same([value.numpy()]).near(torch.randn(28)))


def test_two_numbers_have_the_direction_of_others_by_chance() -> None:
    """Fault: in a network of many tensors of two numbers (seed 40330) the reference went on with what pointed the same
    way but for 2^-10. In sums that cancel it was further from float64 than the program, which it called wrong."""
    for value in (torch.tensor([0.5, -0.3]), torch.tensor([0.0, 0.5, 0.0, -0.3])):
        near = (value * (1 + NEAR / 4 * value.sign())).half()
        assert nearest.relative(near.numpy(), value.numpy()) < NEAR / 2
        assert not torch.equal(followed(value, near), value)
        assert torch.equal(followed(value, near * 4), value)
    value = torch.tensor([0.5, -0.3, 0.2])
    assert not torch.equal(followed(value, (value * 4).half()), value)


def test_what_stays_inside_of_a_loop_is_not_taken_for_its_result() -> None:
    """Fault: of sigmoid(x) * 0.999 + 0.0005 the sigmoid was, and 1 - p of another one is another gradient."""
    torch.manual_seed(5)
    p = torch.sigmoid(4 * torch.randn(5, 3))
    result = (p * 0.999 + 0.0005).half()
    assert nearest.relative(result.numpy(), p.numpy()) < NEAR / 2
    assert torch.equal(followed(p, result), p)
    assert not torch.equal(followed(p, p.half()), p)


def test_what_autograd_keeps_inside_of_a_loop_is_not_rounded() -> None:
    """Fault: a tensor that autograd keeps is a new one to Python, without the mark of what made it."""
    x, w = torch.randn(6, 7).double().requires_grad_(), torch.randn(6, 7).double()
    found = []
    for mode in (contextlib.nullcontext(), *(Halves(torch.float64, [x, w], chains) for chains in (False, True))):
        with mode:
            (torch.sigmoid(torch.tanh(x)) * w).backward(w)
        assert x.grad is not None
        found.append(x.grad)
        x.grad = None
    plain, apart, looped = found
    assert torch.allclose(looped, plain, rtol=1e-12) and not torch.allclose(apart, plain, rtol=1e-5)


def test_an_evaluation_follows_nothing() -> None:
    """It begins with other weights than the step in which it is."""
    task = task_of()
    _, memory = program_of(task, Doubt())
    sample = task.samples[0]
    found = [reference.evaluated(t, sample, torch.float32, 1)[0] for t in (task, replace(task, memory=memory))]
    assert torch.equal(*found)


def plan(dtype: str = "mixed") -> dict[str, Any]:
    """Of a forward tensor in two pieces, which the gradient of it takes the place of, and the gradient of a weight."""
    tensors = {
        "x": ("F16", "activation", 24),
        "x.grad": ("F16", "gradient", 24),
        "w.grad": ("F32", "gradient", 48),
        "one": ("F32", "activation", 4),
        "sign": ("U8", "activation", 12),
        "y": ("F32", "output", 12),
        "far": ("F16", "activation", 24),
    }
    ops = [
        ("forward", [], ["x"]),
        ("forward", [], ["x", "sign", "one", "far"]),
        ("forward", ["x"], ["y"]),
        ("backward", ["x"], ["x.grad", "w.grad"]),
        ("update", ["w.grad"], []),
    ]
    buffers = [("x", "L2", ["x.grad"]), *((n, "L1", []) for n in ("w.grad", "one", "sign", "y")), ("far", "L3", [])]
    return {
        "dtype": dtype,
        "trace": [{"id": i} for i in range(5)],
        "levels": {"L1": {"persistent": 0}, "L2": {"persistent": 64}, "L3": {"persistent": 0}},
        "tensors": {n: {"dtype": d, "role": r, "bytes": b, "shape": [3]} for n, (d, r, b) in tensors.items()},
        "ops": [{"index": i, "phase": p, "reads": r, "writes": w} for i, (p, r, w) in enumerate(ops)],
        "buffers": [{"name": n, "level": v, "offset": 160, "aliases": a} for n, v, a in buffers],
    }


def test_witnesses_see_what_comes_and_goes_when_it_is_whole() -> None:
    found = witnesses(plan())
    assert [(w.id, w.tensor, w.after, w.place) for w in found] == [
        (5, "x", 1, "arena_l2 + 96"),
        (6, "x.grad", 3, "arena_l2 + 96"),
    ]
    assert "    case 3:\n        net_trace(6, arena_l2 + 96, 24);\n        break;\n" in witness_text(found)
    assert not witnesses(plan("fp32"))


def test_witnesses_see_what_an_update_reads_if_the_forward_pass_went_on_with_it() -> None:
    """Fault: the norms of a weight norm's two vectors were read by the update, which makes the lengths' gradient.
    The reference went on with two other numbers that point the same way but for two roundings, and called a gradient
    that is zero too small."""
    given = plan()
    for op in (given["ops"][2], given["ops"][4]):
        op["reads"].append("norms")
    given["ops"][0]["writes"].append("norms")
    given["tensors"]["norms"] = {"dtype": "F32", "role": "activation", "bytes": 8, "shape": [2]}
    given["buffers"].append({"name": "norms", "level": "L1", "offset": 160, "aliases": []})
    assert [(w.tensor, w.after) for w in witnesses(given)] == [("x", 1), ("x.grad", 3), ("norms", 0)]


def test_what_is_looked_for_is_made_ready_once() -> None:
    """Fault: each run of the reference turned all tensors of a step into directions, each operation some into doubles;
    networks of many small operations spent most of their verification there."""
    one, other = (np.random.default_rng(i).standard_normal(35).astype(np.float32) for i in range(2))
    memory = Memory({0: [one, one.copy(), other, one[:1]], 1: [other]})
    found = memory.of(0)
    assert len(found.tensors[35].arrays) == 2
    made = torch.from_numpy(one * np.float32(1.7 + 1e-4))
    made[3] *= 1.0001
    found.follow(made)
    assert torch.allclose(made / made.norm(), torch.from_numpy(one / np.linalg.norm(one)), rtol=1e-6)
    again = memory.of(0)
    assert again.tensors[35] is found.tensors[35] and again.tensors[35].doubles
    assert memory.of(1).tensors[35] is not found.tensors[35]
    single = torch.tensor([0.3])
    found.follow(single)
    assert single.tolist() == torch.tensor([0.3]).tolist()


class Seen(Mode):
    """Takes down what is called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func._schema.name)
        return func(*args, **(kwargs or {}))


def test_no_mode_around_sees_what_the_reference_calculates_for_itself() -> None:
    """It rounds to halves, is off by roundings, and looks for what the program had. In which size it goes on with that
    is off by roundings where the run is."""
    had = torch.randn(37, dtype=torch.float64).half().numpy()
    made = torch.from_numpy(had.astype(np.float64)) * (1 + 1e-5)
    between, memory = torch.randn(37, dtype=torch.float64), Memory({0: [had]}).of(0)
    halves, noise = Halves(torch.float64, [], chains=False), Rounding(3, torch.float64)
    with Seen() as seen:
        rounded, noisy = halves.half(between), noise.noisy(between, 5)
    with Seen() as looked:
        assert memory.follow(made)
    assert made.numpy().tolist() == had.astype(np.float64).tolist()
    assert "aten::dot" in looked.names and "aten::mv" in looked.names and "aten::stack" not in looked.names
    assert torch.equal(rounded, between.half().double()) and 0 < (noisy - between).abs().max() < 1e-3
    assert not seen.names
