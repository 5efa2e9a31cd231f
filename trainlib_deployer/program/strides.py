"""How the elements of a view lie: strides in elements, outermost dimension first."""

from __future__ import annotations

from math import prod

Shape = tuple[int, ...]


def row_major(shape: Shape) -> Shape:
    """Strides of a contiguous array, in elements."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def split_strides(shape: Shape, strides: Shape, target: Shape) -> Shape | None:
    """Strides that show `shape`/`strides` as `target` (same element order), or None if no such strides exist."""
    if prod(shape) != prod(target):
        return None
    if prod(shape) == 0:
        return row_major(target)
    runs: list[list[int]] = []  # maximal runs of dimensions that step as one: [extent, innermost stride]
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 1:
            continue
        if runs and runs[-1][1] == stride * extent:
            runs[-1] = [runs[-1][0] * extent, stride]
        else:
            runs.append([extent, stride])
    out: list[int] = []
    left = runs.pop() if runs else [1, 1]
    for extent in reversed(target):
        if extent == 1:
            out.append(left[1] * left[0] if left else 1)
            continue
        if left[0] == 1 and runs:
            left = runs.pop()
        if left[0] % extent:
            return None
        out.append(left[1])
        left = [left[0] // extent, left[1] * extent]
    return tuple(reversed(out))
