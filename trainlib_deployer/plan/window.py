"""What one transfer takes of a tensor: planes of rows of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

from trainlib_deployer.program.ir import Shape, View

MOST_ROWS = 32767  # `rows` and `planes` of a tl_part


class Window(NamedTuple):
    """A rectangular piece of a tensor, in bytes: planes x rows x row_bytes; `dense` are its strides once copied."""

    offset: int
    row_bytes: int
    rows: int
    pitch: int
    planes: int
    plane_pitch: int
    dense: Shape

    @property
    def nbytes(self) -> int:
        return self.planes * self.rows * self.row_bytes


def window(view: View, size: int) -> Window | None:
    """The transfer that brings a view, or None where it is too scattered for one."""
    if any(s < 0 for s in view.strides):
        return None
    order = sorted((d for d, e in enumerate(view.shape) if e > 1 and view.strides[d]), key=lambda d: -view.strides[d])
    dense, step = [0] * len(view.shape), 1
    runs: list[list[int]] = []  # innermost first: extent, stride
    for d in reversed(order):
        dense[d] = step
        step *= view.shape[d]
        if runs and view.strides[d] == runs[-1][0] * runs[-1][1]:
            runs[-1][0] *= view.shape[d]
        else:
            runs.append([view.shape[d], view.strides[d]])
    if not runs or runs[0][1] != 1:
        runs.insert(0, [1, 1])
    if len(runs) > 3:
        return spanned(view, size)
    runs += [[1, 0]] * (3 - len(runs))
    (run, _), (rows, pitch), (planes, plane_pitch) = runs
    if rows > MOST_ROWS or planes > MOST_ROWS:
        return None
    return Window(view.offset * size, run * size, rows, pitch * size, planes, plane_pitch * size, tuple(dense))


@lru_cache(maxsize=1 << 12)
def at_the_beginning(shape: Shape, strides: Shape, size: int) -> Window | None:
    """The window of a view that begins where its tensor does: ways to cut an operation have many in common."""
    return window(View("", shape, strides), size)


def spanned(view: View, size: int) -> Window | None:
    """All that lies between the first and the last element of a view that reads some more than once, as convolutions'
    windows do; None where there is more than it reads."""
    span = sum((e - 1) * s for e, s in zip(view.shape, view.strides, strict=True)) + 1
    if span > prod(e for e, s in zip(view.shape, view.strides, strict=True) if s):
        return None
    return Window(view.offset * size, span * size, 1, 0, 1, 0, view.strides)


def windows_of(views: Sequence[View], size: int) -> list[Window | None]:
    """Of each view; equal ones are one object, and only offsets differ between views of the same shape."""
    found: list[Window | None] = []
    known: dict[object, Window | None] = {}
    equal: dict[Window, Window] = {}
    for v in views:
        key = v.shape, v.strides, v.offset
        if key not in known:
            like = at_the_beginning(v.shape, v.strides, size)
            made = like if like is None else moved(like, v.offset * size)
            known[key] = made if made is None else equal.setdefault(made, made)
        found.append(known[key])
    return found


def moved(w: Window, offset: int) -> Window:
    return Window(offset, w.row_bytes, w.rows, w.pitch, w.planes, w.plane_pitch, w.dense)


def alike(windows: Sequence[Window | None]) -> list[Window] | None:
    """The same transfers with one pitch and one plane pitch for all, as a stream has them; None where there is no such
    pair. The last channel of an image has rows where others have planes."""
    known = [w for w in windows if w is not None]
    if len(known) < len(windows):
        return None
    deep = {(w.pitch, w.plane_pitch) for w in known if w.planes > 1 and w.rows > 1}
    pitches = list(dict.fromkeys((*(p for pair in deep for p in pair), *(w.pitch for w in known if w.rows > 1))))
    if len(deep) > 1 or len(pitches) > 2:
        return None
    if len(pitches) < 2:
        return known
    changed = {w: as_planes(w) if w.rows > 1 and w.pitch != pitches[0] else w for w in known}
    return [changed[w] for w in known]


def as_planes(w: Window) -> Window:
    """Rows far apart, taken as planes of one row."""
    return w._replace(rows=1, planes=w.rows, plane_pitch=w.pitch)


def same_layout(one: Sequence[Window | None], other: Sequence[Window | None]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(a is not None and b is not None and (a.dense, a.nbytes) == (b.dense, b.nbytes) for a, b in pairs)
