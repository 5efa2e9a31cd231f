"""How a program of mixed precision is judged: which run of PyTorch it is held against, and how near it must be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from golden import compare, nearest, reference
from golden.task import Task

Array = np.ndarray[Any, Any]


def family(count: int = 4) -> list[dict[tuple[int, str, str], Array]]:
    """Two groups of runs, 10 % apart, whose members differ by 1e-3."""
    g = np.random.default_rng(7)
    centres = {n: g.standard_normal(50) for n in "abcde"}
    branch = {n: v + 0.1 * g.standard_normal(50) for n, v in centres.items()}
    return [
        {(0, "gradient", n): (branch if i % 2 else centres)[n] * (1 + 1e-3 * g.standard_normal(50)) for n in "abcde"}
        for i in range(count)
    ]


def verdict(computed: Any, runs: Any, widest: bool = False) -> compare.Verdict:
    them = nearest.Family(runs)
    near = them.beside(computed)
    return compare.compare(computed, near, [near], {}, least=them.tolerances({}, widest))


def test_a_program_is_held_against_the_run_that_took_its_branches() -> None:
    *runs, program = family(7)
    assert verdict(program, runs).passed
    assert all(t.hides < 0.01 for t in verdict(program, runs).tensors)


@pytest.mark.parametrize(("factor", "widest"), [(0.0, False), (-1.0, False), (1.05, False), (0.0, True), (-1.0, True)])
def test_one_wrong_gradient_does_not_choose_the_run(factor: float, widest: bool) -> None:
    *runs, program = family(7)
    for key in program:
        found = verdict({**program, key: program[key] * factor}, runs, widest)
        assert [t.name for t in found.tensors if not t.passed] == [key[2]]


def test_updates_are_judged_by_the_gradients_that_the_program_has() -> None:
    """Adam makes a whole step of a gradient however small: with another sign it would go the other way."""
    torch.manual_seed(6)
    module = nn.Linear(5, 3)
    samples = [((torch.randn(4, 5),), torch.randn(4, 3))]
    names = [n for n, _ in module.named_parameters()]
    task = Task(module, nn.MSELoss(), samples, "Adam", [({"lr": 0.1}, names)], dtype="mixed")
    before = module.weight.detach().numpy().copy()
    given: dict[tuple[int, str, str], Array] = {(0, "gradient", "weight"): np.full((3, 5), -1e-6, np.float32)}
    found = reference.run(task, 1, torch.float64, resume=given)
    assert np.allclose(found[0, "parameter", "weight"] - before, 0.1, rtol=0.02)
    floors = nearest.floors(module, found, given)
    assert (0, "parameter", "weight") not in floors and floors[0, "gradient", "weight"] == nearest.LEAST


@pytest.mark.parametrize(("optimizer", "granted"), [("Adam", True), ("Rprop", True), ("SGD", False)])
def test_a_program_that_checks_itself_may_turn_few_steps_round(optimizer: str, granted: bool) -> None:
    """Fault: of a gradient next to zero Adam makes a whole step either way, and the project's own check failed."""
    torch.manual_seed(7)
    module = nn.Linear(31, 17)
    names = [n for n, _ in module.named_parameters()]
    samples = [((torch.randn(5, 31),), torch.randn(5, 17))]
    task = Task(module, nn.MSELoss(), samples, optimizer, [({"lr": 0.01}, names)], dtype="mixed")
    key = (0, "parameter", "weight")
    exact = reference.run(task, 1, torch.float64)[key]
    added = exact - module.weight.detach().numpy()
    few = exact.copy()
    few.flat[[3, 500]] -= 2 * added.flat[[3, 500]]
    limit = nearest.floors(module, {key: exact}, gentle=nearest.is_gentle(optimizer))[key]
    assert (nearest.relative(few, exact) < limit) == granted
    assert nearest.relative(exact - 0.25 * added, exact) > limit


def test_a_loss_scale_hides_no_states() -> None:
    """Fault: 65536 counted as the size of states, and gradients of that size as what squares of them may be off by."""
    g = np.random.default_rng(8)
    values = {
        ("gradient", "w"): 65536 * g.standard_normal(9),
        ("state", "w.exp_avg_sq"): 1e-4 * g.random(9),
        ("state", "loss_scale.scale"): np.array(65536.0),
    }
    run = {(0, *key): value for key, value in values.items()}
    wrong = {**run, (0, "state", "w.exp_avg_sq"): run[0, "state", "w.exp_avg_sq"] * 1.05}
    least = {(0, "gradient", "w"): nearest.LEAST}
    found = compare.compare(wrong, run, [run], {}, least=least)
    assert [t.name for t in found.tensors if not t.passed] == ["w.exp_avg_sq"]


def test_what_has_overflown_elsewhere_is_not_near() -> None:
    """Fault: a run of which nothing is finite had no distance, and was held against."""
    *runs, program = family(4)
    lost = {key: np.full_like(value, np.nan) for key, value in program.items()}
    assert nearest.Family([lost, *runs]).next_to(program, 0) is not lost
    assert nearest.Family([*runs, lost]).next_to(lost | {}, 0) is lost
