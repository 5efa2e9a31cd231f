"""How a program of mixed precision is judged: by the PyTorch run that took the branches which it took.

A value that lies within a half's rounding of the corner of a ReLU, or of another half, goes one way in float64 and the
other way in float32, and with a norm behind it the gradients below move by a tenth. Runs of PyTorch that round to
halves at the same places, and err otherwise as sums of floats may, fall into groups then. In each step the program is
held against the run next to it, and may be four times as far off as such runs are from the ones next to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import nn

from golden import compare
from golden.half import HALF, Half
from golden.precision import as_real

Array = np.ndarray[Any, Any]
Key = tuple[int, str, str]  # step, kind, name
Run = Mapping[Key, Array]

FEW = 6  # pairs: where there are n of them, four times is 1 + 6/n times as far, as Student's distribution has it
LASTING = ("parameter", "state")
GENTLE = (torch.optim.SGD, torch.optim.ASGD)  # a small gradient is a small step; others divide it by its own size


@dataclass(frozen=True)
class Pairs:
    """What is known of two runs in a step: each pair is looked at once, however many families have both. Runs are told
    by what they are, so that they must not go before this does."""

    finite: dict[tuple[int, int, int], bool] = field(default_factory=dict)
    distance: dict[tuple[int, int, int], float] = field(default_factory=dict)

    def is_finite(self, one: Run, other: Run, step: int, keys: Sequence[Key]) -> bool:
        """The other one, wherever this one is."""
        pair = id(one), id(other), step
        if pair not in self.finite:
            self.finite[pair] = all(finite_where(one[k], other[k]) for k in keys)
        return self.finite[pair]

    def apart(self, one: Run, other: Run, step: int, keys: Sequence[Key]) -> float:
        pair = id(one), id(other), step
        if pair not in self.distance:
            self.distance[pair] = apart(one, other, keys)
        return self.distance[pair]


@dataclass(frozen=True)
class Family:
    """Runs of PyTorch that differ by rounding; those that differ `by_chance` are often equal where there is little to
    choose."""

    runs: Sequence[Run]
    by_chance: bool = False
    followed: bool = False  # each has gone on with what the program had in memory
    half: Half = HALF  # what they round to
    known: Pairs = field(default_factory=Pairs, compare=False, repr=False)

    @cached_property
    def pairs(self) -> dict[int, list[tuple[Run, Run]]]:
        """By step: each run and the one next to it, or, of those that differ by chance, any two."""
        steps = dict.fromkeys(k[0] for k in self.runs[0])
        if self.by_chance:
            return {step: list(combinations(self.runs, 2)) for step in steps}
        return {step: [(r, self.next_to(r, step)) for r in self.runs] for step in steps}

    def next_to(self, run: Run, step: int) -> Run:
        """In one step; of most gradients: a mistake in one of them shows in that one alone. If there are runs that are
        finite in all places where this one is, one of those: of what is no number nothing is compared."""
        keys = [k for k in self.runs[0] if k[0] == step and k in run and run[k].size == self.runs[0][k].size]
        telling = [k for k in keys if k[1] == "gradient"] or keys
        others = [r for r in self.runs if r is not run]
        finite = [r for r in others if self.known.is_finite(run, r, step, keys)]
        return min(finite or others, key=lambda r: self.known.apart(run, r, step, telling))

    def beside(self, computed: Run) -> dict[Key, Array]:
        """Step by step, the run next to the program. What has overflown may be infinite or no number."""
        near = {step: self.next_to(computed, step) for step in dict.fromkeys(k[0] for k in self.runs[0])}
        found = {k: near[k[0]][k] for k in self.runs[0]}
        return {k: np.where(np.isinf(v), np.nan, v) if np.isinf(v).any() else v for k, v in found.items()}

    def tolerances(self, least: Mapping[Key, float]) -> dict[Key, float]:
        """Four times how far the two of a pair in the middle are from each other."""
        out: dict[Key, float] = {}
        norms = compare.norm_floors(self.runs[0], [])
        for key in self.runs[0]:
            found = sorted(relative(one[key], other[key], norms[key[:2]]) for one, other in self.pairs[key[0]])
            out[key] = max(compare.SLACK * found[len(found) // 2], least.get(key, compare.FLOOR))
        return out

    def factors(self, computed: Run, near: Run) -> dict[str, tuple[float, float]]:
        """Of each gradient, in the mean over the steps: by what part of itself it is larger than in the run that is
        near, and four times the root mean square of what that is in pairs of runs, or more where there are few of
        them. Where branches move each element far, they move it up or down, otherwise in each step, and the size of
        the gradient hardly changes."""
        norms = compare.norm_floors(self.runs[0], [])
        there = [k for k in near if k[1] == "gradient" and k in computed and computed[k].size == near[k].size]
        there = [k for k in there if np.any(near[k])]
        found: dict[str, tuple[float, float]] = {}
        for name in dict.fromkeys(k[2] for k in there):
            keys = [k for k in there if k[2] == name]
            own = [larger(computed[k], near[k]) for k in keys]
            squares = [np.mean([larger(a[k], b[k]) ** 2 for a, b in self.pairs[k[0]]]) for k in keys]
            noise = float(np.sqrt(np.mean(squares) / len(keys)))
            slack = compare.SLACK * (1 + FEW / (len(keys) * len(self.runs) / 2))
            sizes = [compare.norm_where(near[k], compare.finite_everywhere(near[k], [])) for k in keys]
            small = max(norms[k[:2]] / max(size, 1e-30) for k, size in zip(keys, sizes, strict=True))
            granted = self.half.granted
            least = max(granted, (compare.FLOOR if self.followed else granted) * small)
            found[name] = float(np.mean(own)), max(slack * noise, least)
        return found


def larger(value: Array, reference: Array) -> float:
    """By what part of the reference's size; a product of the two would see noise in the reference as a factor."""
    where = compare.finite_everywhere(reference, [value])
    size = compare.norm_where(reference, where)
    return (compare.norm_where(value, where) - size) / max(size, 1e-30)


def relative(value: Array, reference: Array, least: float = 1e-30) -> float:
    """To the size of the reference, or one that is larger."""
    where = compare.finite_everywhere(reference, [value])
    return compare.distance(value, reference, max(compare.norm_where(reference, where), least), where)


def apart(one: Run, other: Run, keys: Sequence[Key]) -> float:
    """A run that has overflown elsewhere is not near: it has few elements with a distance, or none."""
    found = [relative(one[k], other[k]) if finite_alike(one[k], other[k]) else np.inf for k in keys]
    return float(np.median(found)) if found else 0.0


def finite_where(one: Array, other: Array) -> bool:
    """Whether the other one is finite in all places where this one is."""
    return bool((np.isfinite(other).reshape(-1) | ~np.isfinite(one).reshape(-1)).all())


def finite_alike(one: Array, other: Array) -> bool:
    return np.array_equal(np.isfinite(one).reshape(-1), np.isfinite(other).reshape(-1))


def floors(
    module: nn.Module,
    exact: Run,
    resumed: Run | None = None,
    gentle: bool = True,
    halves: Sequence[str] = (),
    followed: bool = False,
    half: Half = HALF,
) -> dict[Key, float]:
    """The least relative tolerance that is granted to each tensor: eight unit roundoffs. Of what lasts from step to
    step, of what has been added to it since `resumed`, or else to what `module` holds now. A resumed run updates by the
    program's own gradients: parameters and states of optimizers then do not hang on halves, and are off by what floats
    round, of what was there before where that is more. Any other run has gradients next to zero that rounding turns
    round, and unless the optimizer is `gentle` it makes a whole step of each: one element of a parameter may go the
    other way, and one in as many as eight unit roundoffs are of one. Of parameters that are `halves`, and are rounded
    up or down by chance, one element and one in 2^10 may differ by that: a float next to it decides. Where the
    reference has `followed` what the program had in memory, unit roundoffs of a gradient are those of its own size,
    however small that is."""
    norms = compare.norm_floors(exact, []) if followed else {}
    start = {("parameter", n): array(p) for n, p in module.named_parameters()}
    start |= (buffers := {("state", n): array(b) for n, b in module.named_buffers()})
    found = {}
    for (step, kind, name), value in exact.items():
        size = compare.size_of(value)
        if kind not in LASTING:
            found[step, kind, name] = half.granted
            if followed and kind == "gradient" and np.isfinite(size):
                found[step, kind, name] *= min(1.0, size / norms[step, kind])
        elif size and np.isfinite(size):
            before = (resumed or {}).get((step - 1, kind, name), start.get((kind, name), np.zeros(())))
            if resumed is None or (kind, name) in buffers:
                added = value.reshape(-1) - (before.reshape(-1) if before.size > 1 else before)
                moved = half.granted * compare.size_of(added)
                if kind == "parameter" and not gentle:
                    moved += 2 * float(np.abs(added).max()) * (1 + half.granted * value.size) ** 0.5
                found[step, kind, name] = moved / size
            elif (there := compare.size_of(before)) > size:
                found[step, kind, name] = compare.FLOOR * there / size
        if kind == "parameter" and name in halves and size and np.isfinite(size):
            apart = half.ulp * float(np.abs(value).max()) * (1 + half.ulp * value.size) ** 0.5
            found[step, kind, name] = found.get((step, kind, name), 0.0) + apart / size
    return found


def is_gentle(optimizer: str | type[torch.optim.Optimizer]) -> bool:
    if not optimizer:
        return True  # inference has none
    kind = getattr(torch.optim, optimizer) if isinstance(optimizer, str) else optimizer
    return issubclass(kind, GENTLE)


def array(value: Any) -> Array:
    return np.asarray(as_real(value).detach().numpy(force=True), np.float64)
