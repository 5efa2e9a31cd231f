"""Whether what a program computed is what PyTorch computes: run after run of the reference, until that is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from golden import compare, nearest, reference, rounding
from golden.doubt import CERTAIN, Doubt, Kinks
from golden.memory import EMPTY
from golden.task import Task

Say = Callable[[str], None]
Array = np.ndarray[Any, Any]
Key = tuple[int, str, str]
FIRST_ORDER_RUNS = 2
FLOAT32_RUNS = 8  # at most; the furthest may be one in which a branch flips
HALF_RUNS = 8  # at most, of mixed precision: one in a few takes another branch somewhere
SHAKEN = 1 / 16  # of the gap between two halves: what elements may be off by before they are rounded
GAPS = 16  # between the least halves: what elements may be off by from float64
SHARP = 0.03  # relative: what a gradient may be off by


@dataclass(frozen=True)
class Judged:
    """A verdict and the reference runs that it rests on."""

    verdict: compare.Verdict
    exact: dict[Key, Array]
    singles: list[dict[Key, Array]]
    least: dict[Key, float] = field(default_factory=dict)  # tolerances that no tensor is below
    runs: int = 0  # runs with errors of rounding that were needed


def judge(
    task: Task,
    computed: dict[Key, Array],
    steps: int,
    trace: Sequence[dict[str, Any]],
    say: Say = lambda line: None,
) -> Judged:
    """The whole run against float64 and float32; failing that, step by step (docs/decisions/tolerance.md)."""
    layers = {(t["kind"], t["name"]): t["layer"] for t in trace}
    if task.dtype != "fp32":
        say("running the golden model in half precision")
        return judged_in_halves(task, computed, steps, layers)
    may_diverge = task.saved == "fp32"  # what overflows because it is kept in half precision is no fault of PyTorch's
    exact = reference.run(task, steps, torch.float64)
    singles = [reference.run(task, steps, torch.float32)]
    verdict = compare.compare(computed, exact, singles, layers, may_diverge)
    if verdict.missing or (verdict.passed and not verdict.delicate):
        return Judged(verdict, exact, singles)
    say("some of this hangs on rounding; judging step by step")
    resumed, wider = within_rounding(task, computed, steps)
    second = compare.compare(computed, resumed, wider, layers, may_diverge)
    if verdict.passed:
        return Judged(verdict.with_what_is_hidden_in(second), exact, singles)
    while not second.passed and len(wider) <= FIRST_ORDER_RUNS + FLOAT32_RUNS:
        wider.append(reference.run(task, steps, torch.float32, noise=len(wider), resume=computed))
        second = compare.compare(computed, resumed, wider, layers, may_diverge)
    return Judged(second, resumed, wider)


def judged_in_halves(task: Task, computed: dict[Key, Array], steps: int, layers: dict[tuple[str, str], str]) -> Judged:
    """Each step from where the program was, by the run of PyTorch that is next to it. There are more of them as long as
    the program fails or they could not tell a gradient from one that is a few percent larger. Then, elements next to a
    corner are turned; in the end, all elements are off by a part of a rounding."""
    kinks, pairs = Kinks(), nearest.Pairs()

    def run(dtype: torch.dtype, noise: int = 0, doubt: Doubt = CERTAIN, of: Task = task) -> dict[Key, Array]:
        return reference.run(replace(of, doubt=doubt), steps, dtype, noise, computed)

    def shaken(of: Task = task) -> list[dict[Key, Array]]:
        return [run(torch.float64, i, Doubt(shaken=SHAKEN, seed=i), of) for i in range(HALF_RUNS)]

    runs = [run(torch.float64, doubt=Doubt(kinks))]
    followed = bool(task.memory.steps)
    floors = nearest.floors(task.module, runs[0], computed, halves=task.halves, followed=followed, half=task.half)

    def judged(*others: dict[Key, Array]) -> Judged:
        all_runs = nearest.Family([*runs, *others], followed=followed, half=task.half, known=pairs)
        family = nearest.Family([runs[0], *others], by_chance=True, half=task.half) if others else all_runs
        near, least = all_runs.beside(computed), family.tolerances(floors)
        verdict = compare.compare(computed, near, [near], layers, least=least)
        verdict = verdict.with_factors(all_runs.factors(computed, near))
        return Judged(verdict, near, [near], least, len(runs) - 2)

    for _ in range(1 + HALF_RUNS):
        runs.append(run(torch.float32, len(runs) - 1))
        found = judged()
        sharp = all(t.hides <= SHARP for t in found.verdict.tensors if t.kind == "gradient" and t.compared)
        if found.verdict.missing or (found.verdict.passed and sharp):
            return found
    for turned in kinks.turned():
        if found.verdict.passed:
            return found
        runs.append(run(torch.float64, doubt=Doubt(turned=turned)))
        found = judged()
    if found.verdict.passed:
        return found
    followers = shaken()
    found = judged(*followers)
    if found.verdict.passed:
        return found
    alone = replace(task, memory=EMPTY)
    own = [run(torch.float64, of=alone), run(torch.float32, 1, of=alone), *shaken(alone)]
    runs += own  # a maximum of a program's halves may be another one than those took
    found = judged(*followers)
    if found.verdict.passed:
        return found
    return by_the_contract(found, alone, computed, steps, own, layers)


def by_the_contract(
    found: Judged,
    task: Task,
    computed: dict[Key, Array],
    steps: int,
    own: list[dict[Key, Array]],
    layers: dict[tuple[str, str], str],
) -> Judged:
    """What failed, step by step from where the program was, in float64 without a half: how far the program is from
    that, and how far PyTorch's own runs of halves are, which know nothing of the program. Of what lasts this tells
    nothing: updates are made of gradients."""
    exact = reference.run(replace(task, dtype="fp32"), steps, torch.float64, resume=computed)
    exact = {k: v for k, v in exact.items() if k[1] not in nearest.LASTING}
    family = nearest.Family([exact, *own], by_chance=True, half=task.half)
    verdict = compare.compare(computed, exact, own, layers, may_diverge=False)
    verdict = verdict.with_factors(family.factors(computed, exact))
    gap = 2.0**task.half.least
    near = found.verdict.or_among_gaps(computed, found.exact, gap)
    near = near.or_as_near_as(verdict, SHARP).or_kept(computed, exact, own)
    return replace(found, verdict=near.or_among_gaps(computed, exact, GAPS * gap, verdict))


def within_rounding(
    task: Task, computed: dict[Key, Array], steps: int
) -> tuple[dict[Key, Array], list[dict[Key, Array]]]:
    """Every step from where the program was: in float64, and what rounding may make of that to first order."""
    exact = reference.run(task, steps, torch.float64, resume=computed)
    singles = [reference.run(task, steps, torch.float32, resume=computed)]
    for seed in range(1, FIRST_ORDER_RUNS + 1):
        shaken = reference.run(task, steps, torch.float64, noise=seed, resume=computed)
        singles.append(rounding.first_order(exact, shaken))
    return exact, singles
