"""Judge a run against float64 PyTorch.

A tensor passes when |c - r| / |r| <= max(4 |f - r| / |r|, 1e-6) in the L2 norm, where c is what C computed, r
the float64
reference and f PyTorch's own float32 result. |r| counts as no less than 1e-3 of the largest norm of its kind in
that step.
Where several float32 results are given, which differ by rounding alone, the one furthest from r counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Key = tuple[int, str, str]  # step, kind, name

FLOOR = 1e-6  # fp32: differences below this are rounding
SLACK = 4.0  # how much worse than PyTorch's own float32 is still rounding
SMALL = 1e-3  # a norm below this part of the largest of its kind counts as this much


@dataclass(frozen=True)
class TensorVerdict:
    """One tensor of one step."""

    name: str
    layer: str
    kind: str
    step: int
    rel_l2: float
    tolerance: float
    passed: bool


@dataclass(frozen=True)
class Verdict:
    """All tensors; `passed` only if there were some and every one passed."""

    tensors: tuple[TensorVerdict, ...]
    missing: tuple[Key, ...]

    @property
    def passed(self) -> bool:
        return bool(self.tensors) and not self.missing and all(t.passed for t in self.tensors)

    @property
    def first_failure(self) -> TensorVerdict | None:
        return next((t for t in self.tensors if not t.passed), None)

    @property
    def worst(self) -> TensorVerdict | None:
        def badness(t: TensorVerdict) -> float:
            return t.rel_l2 / t.tolerance if np.isfinite(t.rel_l2) else float("inf")

        return max(self.tensors, key=badness, default=None)

    def as_json(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "tensors": [asdict(t) for t in self.tensors],
            "worst": asdict(self.worst) if self.worst else {},
            "missing": ["/".join(map(str, k)) for k in self.missing],
        }


def compare(
    computed: Mapping[Key, Array],
    exact: Mapping[Key, Array],
    singles: Sequence[Mapping[Key, Array]],
    layers: Mapping[tuple[str, str], str],
) -> Verdict:
    """Every tensor of `exact` must be in `computed` and close to it.

    `layers` maps (kind, name) to a layer path, in the order in which the program computes them: so are the verdicts.
    """
    floors = norm_floors(exact)
    when = {k: i for i, k in enumerate(layers)}
    verdicts, missing = [], []
    for key in sorted(exact, key=lambda k: (k[0], when.get(k[1:], len(when)))):
        step, kind, name = key
        reference = exact[key]
        found = computed.get(key)
        if found is None or found.size != reference.size:
            missing.append(key)
            continue
        norm = max(float(np.linalg.norm(flat(reference))), floors[step, kind])
        error = distance(found, reference, norm)
        tolerance = max(SLACK * max(distance(s[key], reference, norm) for s in singles), FLOOR)
        layer = layers.get((kind, name), "")
        passed = error <= tolerance and (np.isfinite(error) or not np.isfinite(flat(reference)).all())
        verdicts.append(TensorVerdict(name, layer, kind, step, error, tolerance, bool(passed)))
    return Verdict(tuple(verdicts), tuple(missing))


def flat(values: Array) -> Array:
    return np.asarray(values, dtype=np.float64).reshape(-1)


def norm_floors(exact: Mapping[Key, Array]) -> dict[tuple[int, str], float]:
    largest: dict[tuple[int, str], float] = {}
    for (step, kind, _), values in exact.items():
        largest[step, kind] = max(largest.get((step, kind), 0.0), float(np.linalg.norm(flat(values))))
    tiny = float(np.finfo(np.float32).tiny)
    return {key: max(SMALL * norm, tiny) for key, norm in largest.items()}


def distance(values: Array, reference: Array, norm: float) -> float:
    """NaN and infinity count as infinitely far."""
    with np.errstate(invalid="ignore"):
        error = float(np.linalg.norm(flat(values) - flat(reference)))
    return error / norm if np.isfinite(error) else float("inf")
