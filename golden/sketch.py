"""The reference in a few numbers, for a program that must judge itself where no PyTorch is.

A tensor becomes eight sums of its elements under random signs, in fixed point: exact, the same everywhere,
whatever the order. The
mean square of the eight differences between two sketches estimates the squared L2 distance of the tensors, so
that a program
can hold itself against a float64 reference without carrying it along. c_lib/kernels/check.c computes the same sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from golden import compare
from golden.record import Apart

Array = np.ndarray[Any, Any]
Key = tuple[int, str, str]

SUMS = 8
BITS = 28  # the largest element takes so many
AT_ONCE = 1 << 16  # elements
SLACK = 4.0  # an estimate from eight sums is that uncertain
VAGUE = 0.05  # a tolerance beyond which a sketch proves nothing
BEYOND = 2.0**128  # not a float32 any more


@dataclass(frozen=True)
class Sketch:
    """Eight sums of x * 2^exponent, and the largest sum of squared differences that passes (negative: not checked)."""

    sums: tuple[int, ...]
    exponent: int
    limit: float


UNCHECKED = Sketch((0,) * SUMS, 0, -1.0)


@lru_cache(4)  # most tensors have no more elements than the first of these
def signs(start: int = 0, count: int = AT_ONCE) -> Array:
    """[SUMS][count] of +1 and -1, from a hash of the element's number, which begins at `start`."""
    i = np.arange(start, start + count, dtype=np.uint32)
    with np.errstate(over="ignore"):
        h = (i ^ (i >> np.uint32(15))) * np.uint32(2654435769)
        h = (h ^ (h >> np.uint32(13))) * np.uint32(1274126177)
        h ^= h >> np.uint32(16)
    bits = (h >> np.arange(SUMS, dtype=np.uint32)[:, None]) & np.uint32(1)
    return 1.0 - 2.0 * bits


def signed_sums(values: Array, exponent: int, start: int) -> Array:
    """In fixed point, of the elements from `start` on, as many as fit a cache; below 2^53, floats are exact, and
    faster."""
    part = np.trunc(values[start : start + AT_ONCE] * 2.0**exponent)
    sums: Array = (part * signs(start)[:, : len(part)]).sum(1)
    return sums.astype(np.int64)


def sketch(exact: Array, tolerance: float, norm: float) -> Sketch:
    """Of one tensor. A program passes whose tensor lies within `tolerance` of `norm` of it."""
    flat = compare.flat(exact)
    largest = max(float(flat.max(initial=0.0)), -float(flat.min(initial=0.0)))
    if not largest < BEYOND:
        return UNCHECKED
    scale = max(largest, norm / max(len(flat), 1) ** 0.5, 1e-30)
    exponent = int(np.clip(BITS - np.ceil(np.log2(scale)), -100, 100))
    sums = sum((signed_sums(flat, exponent, at) for at in range(0, len(flat), AT_ONCE)), np.zeros(SUMS, np.int64))
    reach = SLACK * min(tolerance, VAGUE) * norm * 2.0**exponent + len(flat) ** 0.5
    limit = SUMS * reach**2 if tolerance <= VAGUE else -1.0
    return Sketch(tuple(int(s) for s in sums), exponent, limit)


def sketches(exact: Mapping[Key, Array], singles: Sequence[Mapping[Key, Array]]) -> dict[Key, Sketch]:
    """Of every floating-point tensor of a run, each with the tolerance that compare would grant. What is not finite
    throughout, in float64 or in PyTorch's own float32, a program does not judge."""
    return sketches_within(exact, [Apart.of(s, exact) for s in singles])


def sketches_within(
    exact: Mapping[Key, Array], others: Sequence[Apart], least: Mapping[Key, float] | None = None
) -> dict[Key, Sketch]:
    """The same where only distances are known of PyTorch's float32 runs."""
    norms, diverged = dict[Key, float](), set[Key]()
    for key, reference in exact.items():
        finite = [f for other in others if (f := other.finite[key]) is not None]
        norms[key] = compare.norm_where(reference, np.logical_and.reduce(finite) if finite else None)
        diverged |= {key} if finite else set()
    floors = compare.floors_of(norms)
    out: dict[Key, Sketch] = {}
    for key, reference in exact.items():
        if key in diverged:
            out[key] = UNCHECKED
            continue
        norm = max(norms[key], floors[key[0], key[1]])
        tolerance = compare.tolerance_of([o.distance[key] / norm for o in others])
        out[key] = sketch(reference, max(tolerance, (least or {}).get(key, 0.0)), norm)
    return out
