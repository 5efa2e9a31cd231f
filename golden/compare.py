"""Judge a run against float64 PyTorch.

A tensor passes when |c - r| / |r| <= max(4 |f - r| / |r|, 1e-6) in the L2 norm, where c is what C computed, r the
float64 reference and f PyTorch's own float32 result. |r| counts as no less than 1e-3 of the largest norm of its kind
in that step. Where several results are given that rounding may make (golden.rounding), the one furthest from r counts.
States of an optimizer that are squares of gradients, or the larger one of two, may be off by what a gradient's own
tolerance makes of them.

Elements that are infinite or NaN in one of PyTorch's own float32 results, or in r, have no distance. There the
program may hold anything if PyTorch's float32 is not finite either; what float64 and float32 agree is infinite, it
must hold as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from golden.loss_scale import SCALING

Array = np.ndarray[Any, Any]
Key = tuple[int, str, str]  # step, kind, name

FLOOR = 1e-6  # fp32: differences below this are rounding
SLACK = 4.0  # how much worse than PyTorch's own float32 is still rounding
TRIFLE = 0.005  # half of a relative mistake that is to be seen: errors may make up for the other half
AMISS = 50.0  # so much less than rounding may do, PyTorch's own float32 run is off by chance
# What a gradient's error makes of an optimizer's state where shrunken errors do not show it: the larger one of two
# sizes, and squares.
PASSED_ON: dict[str, Callable[[float], float]] = {
    "exp_inf": lambda error: error,
    **dict.fromkeys(("exp_avg_sq", "max_exp_avg_sq", "square_avg", "sum"), lambda error: error**2),
}
LOST, MOST_OF_IT = 0.5, 0.25  # parts of a gradient: what is off in each run of halves, and in a program that keeps it
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
    compared: int = 1  # elements
    skipped: int = 0  # elements that no run of PyTorch says anything of
    diverged: int = 0  # those of them that are finite in float64, but not in PyTorch's own float32
    hides: float = 0.0  # the largest relative mistake that may pass for rounding; from 1 on, the tensor's own absence
    factor: float = 0.0  # by what part of itself a gradient is larger, in the mean over the steps
    scaled: float = float("inf")  # and what may pass for rounding of that

    @property
    def key(self) -> Key:
        return self.step, self.kind, self.name

    def failed_beside(self, reference: Mapping[Key, Array]) -> bool:
        """Whether it is a gradient that failed, all of whose elements can be held against this one."""
        return not self.passed and self.kind == "gradient" and self.key in reference and not self.skipped

    @property
    def is_scaled(self) -> bool:
        """In all steps alike, and more than rounding may do."""
        return abs(self.factor) > self.scaled

    @property
    def hides_factor(self) -> float:
        """The largest part of itself by which it may be larger in all steps."""
        return min(self.hides, self.scaled)

    @property
    def vague(self) -> bool:
        return self.hides >= TRIFLE


@dataclass(frozen=True)
class Verdict:
    """All tensors; `passed` only if something was compared and every tensor passed."""

    tensors: tuple[TensorVerdict, ...]
    missing: tuple[Key, ...]

    @property
    def passed(self) -> bool:
        compared = any(t.compared for t in self.tensors)
        return compared and not self.missing and all(t.passed for t in self.tensors)

    @property
    def divergence(self) -> str:
        """Where PyTorch's own float32 run leaves the numbers that float32 has, in words; empty if it does not."""
        found = [t for t in self.tensors if t.diverged]
        if not found:
            return ""
        first, lost = found[0], sum(not t.compared for t in found)
        return (
            f"PyTorch's own float32 run diverges here: first the {first.kind} '{first.name}' in step {first.step}; "
            f"tensors compared in part: {len(found) - lost}, not at all: {lost}"
        )

    @property
    def unjudged(self) -> str:
        """What PyTorch itself has no finite numbers for, whatever the program has; empty if there is nothing."""
        found = [t for t in self.tensors if t.skipped > t.diverged]
        if not found:
            return ""
        lost = sum(not t.compared for t in found)
        counts = [f"{lost} of {len(self.tensors)} tensors"] if lost else []
        counts += [f"parts of {len(found) - lost}"] if lost < len(found) else []
        first = found[0]
        return (
            f"not compared: {' and '.join(counts)}, which are infinite or no number in PyTorch, too: "
            f"first the {first.kind} '{first.name}' in step {first.step}"
        )

    @property
    def delicate(self) -> bool:
        """Is there a gradient of which more must be known, to tell a factor of 1.01 from rounding or to say that this
        is not possible?"""
        return any(t.kind == "gradient" and t.hides >= TRIFLE / AMISS for t in self.tensors)

    @property
    def rounding_only(self) -> list[TensorVerdict]:
        """What may be zeroed or negated unseen."""
        return [t for t in self.tensors if t.hides >= 1]

    @property
    def coarse(self) -> list[TensorVerdict]:
        """What may be scaled by 1.01 unseen, but not left out."""
        return [t for t in self.tensors if t.vague and t.hides < 1]

    def each(self, change: Callable[[TensorVerdict], TensorVerdict]) -> Verdict:
        return Verdict(tuple(map(change, self.tensors)), self.missing)

    def with_what_is_hidden_in(self, wider: Verdict) -> Verdict:
        """A mistake that fails here is held against wider tolerances then: what these do not see is not seen."""
        hides = {t.key: t.hides for t in wider.tensors}
        return self.each(lambda t: replace(t, hides=max(t.hides, hides.get(t.key, 0.0))))

    def with_factors(self, factors: Mapping[str, tuple[float, float]]) -> Verdict:
        """Of gradients, by name: by what part of itself one is larger in all steps, and the largest that may pass."""

        def told(t: TensorVerdict) -> TensorVerdict:
            if t.kind == "gradient" and t.name in factors:
                t = replace(t, factor=factors[t.name][0], scaled=factors[t.name][1])
            return replace(t, passed=t.passed and not t.is_scaled)

        return self.each(told)

    def or_as_near_as(self, own: Verdict, most: float) -> Verdict:
        """What failed may pass by another reference, if a mistake of more than `most` of the tensor shows there, in
        this step or in one where rounding does less; or if it is as near as floats have to be. Where four times what
        rounding does would let the tensor's own absence pass, it may be as far off as one of PyTorch's runs is."""
        others = {t.key: t for t in own.tensors}
        sharpest: dict[tuple[str, str], float] = {}
        for t in own.tensors:
            sharpest[t.key[1:]] = min(sharpest.get(t.key[1:], 1.0), t.hides)

        def held(t: TensorVerdict) -> TensorVerdict:
            other = others.get(t.key, t)
            limit = 1.0 if sharpest.get(t.key[1:], 1.0) <= most else most
            tolerance, hides = other.tolerance, other.hides
            if hides >= 1:
                tolerance, hides = tolerance / SLACK, hides / SLACK
            allowed = tolerance * limit / max(hides, limit)
            near = hides < 1 and other.rel_l2 <= allowed and (limit > most or abs(other.factor) <= most)
            if t.passed or not other.passed or not (near or other.rel_l2 <= FLOOR):
                return t
            hides = max(t.hides, min(hides, limit))
            return replace(other, tolerance=allowed, hides=hides, scaled=min(other.scaled, limit))

        return self.each(held)

    def or_kept(
        self, computed: Mapping[Key, Array], exact: Mapping[Key, Array], own: Sequence[Mapping[Key, Array]]
    ) -> Verdict:
        """A gradient of which all runs of PyTorch lose more than half, as it is smaller than the least half, passes
        where the program has most of it: what the others have in its place tells nothing."""

        def kept(t: TensorVerdict) -> TensorVerdict:
            if not t.failed_beside(exact):
                return t
            size = norm_where(exact[t.key], None)
            error, *others = (distance(v[t.key], exact[t.key], size or 1.0) for v in (computed, *own))
            passed = error <= MOST_OF_IT < LOST <= min(others)
            return replace(t, passed=True, rel_l2=error, tolerance=MOST_OF_IT, hides=MOST_OF_IT) if passed else t

        return self.each(kept)

    def or_among_gaps(
        self,
        computed: Mapping[Key, Array],
        reference: Mapping[Key, Array],
        gaps: float,
        own: Verdict | None = None,
    ) -> Verdict:
        """Next to zero, numbers lie as far apart as a little further from it, and so do the terms of a gradient that is
        as small: one passes that is off by a few gaps, however much of itself that is, and that passes in `own`."""
        others = None if own is None else {t.key for t in own.tensors if t.passed}

        def among(t: TensorVerdict) -> TensorVerdict:
            if not t.failed_beside(reference) or not (others is None or t.key in others):
                return t
            allowed = gaps * reference[t.key].size ** 0.5
            norm = max(norm_where(reference[t.key], None), allowed)
            error, hides = distance(computed[t.key], reference[t.key], norm), allowed / norm
            passed = error <= hides and abs(t.factor) <= max(t.scaled, hides)
            return replace(t, passed=True, rel_l2=error, tolerance=hides, hides=hides, scaled=np.inf) if passed else t

        return self.each(among)

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
            "rounding_only": [f"{t.step}/{t.kind}/{t.name}" for t in self.rounding_only],
            "coarse": [f"{t.step}/{t.kind}/{t.name}" for t in self.coarse],
        }


def compare(
    computed: Mapping[Key, Array],
    exact: Mapping[Key, Array],
    singles: Sequence[Mapping[Key, Array]],
    layers: Mapping[tuple[str, str], str],
    may_diverge: bool = True,
    least: Mapping[Key, float] | None = None,
) -> Verdict:
    """Every tensor of `exact` must be in `computed` and close to it.

    `layers` maps (kind, name) to a layer path, in the order in which the program computes them: so are the verdicts.
    No tolerance is below the one of `least`, which comes with updates by the program's own gradients: what these are
    off by has not been passed on. Unless it `may_diverge`, the program must be finite wherever float64 is,
    whatever the float32 results are.
    """
    floors = norm_floors(exact, singles)
    when = {k: i for i, k in enumerate(layers)}
    verdicts, missing = [], []
    reach: dict[str, float] = {}  # how far rounding may move a gradient, in any step so far
    for key in sorted(exact, key=lambda k: (k[0], when.get(k[1:], len(when)))):
        step, kind, name = key
        reference = exact[key]
        found = computed.get(key)
        if found is None or found.size != reference.size:
            missing.append(key)
            continue
        own = [s[key] for s in singles]
        where = finite_everywhere(reference, own)
        size = norm_where(reference, where)
        norm = max(size, floors[step, kind])
        error = distance(found, reference, norm, where)
        tolerance = max(tolerance_of([distance(o, reference, norm, where) for o in own]), (least or {}).get(key, 0.0))
        if kind == "gradient":
            reach[name] = max(reach.get(name, 0.0), tolerance * norm)
        elif kind == "state" and norm and least is None:
            of, _, label = name.rpartition(".")
            if of in reach and label in PASSED_ON:
                tolerance = max(tolerance, PASSED_ON[label](reach[of]) / norm)
        rest = beyond(found, reference, own, where)
        passed = error <= tolerance and np.isfinite(error) and rest.passed and (may_diverge or not rest.diverged)
        compared = reference.size - rest.skipped
        verdicts.append(
            TensorVerdict(
                name,
                layers.get((kind, name), ""),
                kind,
                step,
                error,
                tolerance,
                bool(passed),
                compared,
                rest.skipped,
                rest.diverged,
                hidden(tolerance, norm, size),
            )
        )
    return Verdict(tuple(verdicts), tuple(missing))


def tolerance_of(distances: Sequence[float]) -> float:
    """From how far off PyTorch's own float32 result is, and others that rounding may make."""
    return max(SLACK * max(distances), FLOOR)


def hidden(tolerance: float, norm: float, size: float) -> float:
    """The tolerance as a part of the tensor itself. A tensor that is zero, and must be, hides nothing."""
    if size == 0.0:
        return float(tolerance > FLOOR)
    return tolerance * norm / size


def finite_everywhere(reference: Array, own: Sequence[Array]) -> Array | None:
    """The elements that have a distance; None for all."""
    finite = [np.isfinite(v).reshape(-1) for v in (reference, *own)]
    return None if all(f.all() for f in finite) else np.logical_and.reduce(finite)


@dataclass(frozen=True)
class Beyond:
    """What the elements without a distance show."""

    passed: bool
    skipped: int  # of which nothing is known
    diverged: int


def beyond(found: Array, reference: Array, own: Sequence[Array], where: Array | None) -> Beyond:
    """The program must be finite where PyTorch's float32 is, and infinite where that and float64 agree on it."""
    if where is None:
        return Beyond(True, 0, 0)
    c, r = flat(found)[~where], flat(reference)[~where]
    results = np.stack([flat(v)[~where] for v in own])
    finite = np.isfinite(results).all(axis=0)
    infinite = np.isinf(r) & (results == r).all(axis=0)
    passed = (np.isfinite(c) | ~finite).all() and (c == r)[infinite].all()
    diverged = np.isfinite(r) & ~finite
    return Beyond(bool(passed), int((~finite & ~infinite).sum()), int(diverged.sum()))


def flat(values: Array) -> Array:
    return np.asarray(values, dtype=np.float64).reshape(-1)


def norm_where(values: Array, where: Array | None) -> float:
    picked = flat(values)
    return size_of(picked if where is None else picked[where])


def size_of(values: Array) -> float:
    """In the L2 norm, by no other thread: libraries of linear algebra take all processors for it."""
    with np.errstate(over="ignore"):
        return float(np.sqrt(np.square(values).sum()))


def norm_floors(exact: Mapping[Key, Array], singles: Sequence[Mapping[Key, Array]]) -> dict[tuple[int, str], float]:
    return floors_of({k: norm_where(v, finite_everywhere(v, [s[k] for s in singles])) for k, v in exact.items()})


def floors_of(norms: Mapping[Key, float]) -> dict[tuple[int, str], float]:
    """What the norm of a tensor of each kind and step counts as at the least. A loss scale of 65536 says nothing of how
    large the states of an optimizer are."""
    largest: dict[tuple[int, str], float] = {}
    for (step, kind, name), norm in norms.items():
        largest[step, kind] = max(largest.get((step, kind), 0.0), 0.0 if name.startswith(SCALING) else norm)
    tiny = float(np.finfo(np.float32).tiny)
    return {key: max(SMALL * norm, tiny) for key, norm in largest.items()}


def distance(values: Array, reference: Array, norm: float, where: Array | None = None) -> float:
    """Of the elements `where` (None: of all). NaN and infinity count as infinitely far."""
    with np.errstate(invalid="ignore", over="ignore"):
        apart = flat(values) - flat(reference)
        error = size_of(apart if where is None else apart[where])
    return error / norm if np.isfinite(error) else float("inf")
