"""Placement in one pass: buffers in a fixed order, each as low as it goes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
LAST = np.iinfo(np.int64).max


def live_bytes(size: Ints, birth: Ints, death: Ints) -> tuple[Ints, Ints]:
    """Positions where something is born or dies, and the bytes alive from each to the next."""
    times, index = np.unique(np.concatenate([birth, death]), return_inverse=True)
    change = np.zeros(len(times), dtype=np.int64)
    np.add.at(change, index, np.concatenate([size, -size]))
    return times, np.cumsum(change)


def fullest(size: Ints, birth: Ints, death: Ints) -> Ints:
    """Per interval the most bytes alive at once during it, from maxima over 2^k positions."""
    times, live = live_bytes(size, birth, death)
    first, last = np.searchsorted(times, birth), np.searchsorted(times, death)
    level = np.frexp(last - first)[1] - 1
    out = np.zeros(len(size), dtype=np.int64)
    for k in range(int(level.max()) + 1):
        here = level == k
        out[here] = np.maximum(live[first[here]], live[last[here] - (1 << k)])
        half = 1 << k
        live = np.concatenate([np.maximum(live[:-half], live[half:]), live[-half:]])
    return out


def orders(size: Ints, birth: Ints, death: Ints) -> Iterator[tuple[str, Ints]]:
    """The most promising first."""
    length = death - birth
    full = fullest(size, birth, death)
    yield "fullest, length", np.lexsort((birth, -size, -length, -full))
    yield "length", np.lexsort((birth, -size, -length))
    yield "area", np.lexsort((birth, -size * length))
    yield "fullest, size", np.lexsort((birth, -length, -size, -full))
    yield "size", np.lexsort((birth, -length, -size))
    yield "birth", np.lexsort((-size, -length, birth))
    yield "death", np.lexsort((-size, -length, -death))


def repaired(order: Ints, size: Ints, birth: Ints, death: Ints, goal: int) -> Iterator[Ints]:
    """Again and again, with whatever ended above the goal moved half way to the front."""
    turn = np.empty(len(order))
    turn[order] = np.arange(len(order))
    while True:
        offset = skyline(np.argsort(turn, kind="stable"), size, birth, death)
        yield offset
        turn[offset + size > goal] /= 2


def first_fit(order: Ints, size: Ints, birth: Ints, death: Ints) -> Ints:
    """Each in the lowest gap that takes it; the columns of `placed` ascend by offset."""
    offset = np.zeros(len(size), dtype=np.int64)
    placed = np.empty((4, len(size)), dtype=np.int64)  # birth, death, offset, end
    for count, i in enumerate(order.tolist()):
        born, dies, low, high = placed[:, :count]
        met = np.flatnonzero((born < death[i]) & (dies > birth[i]))
        floor = np.zeros(len(met) + 1, dtype=np.int64)
        np.maximum.accumulate(high[met], out=floor[1:])
        wide = low[met] - floor[:-1] >= size[i]
        gap = int(wide.argmax()) if len(met) else 0
        at = floor[gap] if len(met) and wide[gap] else floor[-1]
        column = int(low.searchsorted(at))
        placed[:, column + 1 : count + 1] = placed[:, column:count].copy()
        placed[:, column] = birth[i], death[i], at, at + size[i]
        offset[i] = at
    return offset


def skyline(order: Ints, size: Ints, birth: Ints, death: Ints) -> Ints:
    """Always the buffer that can lie lowest on what is there; the first in `order` of those."""
    n = len(size)
    rank = np.empty(n, dtype=np.int64)
    rank[order] = np.arange(n)
    floor, key = np.zeros(n, dtype=np.int64), rank.copy()
    for _ in range(n):
        i = int(key.argmin())
        key[i] = LAST
        met = np.flatnonzero((birth < death[i]) & (death > birth[i]) & (key < LAST))
        floor[met] = np.maximum(floor[met], floor[i] + size[i])
        key[met] = floor[met] * n + rank[met]
    return floor
