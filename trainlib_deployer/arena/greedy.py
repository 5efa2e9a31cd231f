"""Placement in one pass: buffers in a fixed order, each as low as it goes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
LAST = np.iinfo(np.int64).max
FEW = 512  # buffers that are looked at all at once
OCTAVES = 5  # of lengths in one group


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
    line, groups = by_length(birth, death)
    rank, birth, death = rank[line], birth[line], death[line]
    windows = [(group, *met_in(group, birth, death)) for group in groups]
    waiting = np.array([group.stop - group.start for group in groups])
    place, born, high = line.tolist(), birth.tolist(), size[line].tolist()
    floor, key = np.zeros(n, dtype=np.int64), rank.copy()  # of those that wait, floor * n + rank
    for _ in range(n):
        i = int(key.argmin())
        at = int(key[i]) // n
        floor[place[i]], key[i] = at, LAST
        top = (at + high[i]) * n
        for number, (group, first, behind) in enumerate(windows):
            waiting[number] -= group.start <= i < group.stop
            if waiting[number]:
                met = slice(first[i], behind[i])
                np.maximum(key[met], rank[met] + top, out=key[met], where=death[met] > born[i])
    return floor


def by_length(birth: Ints, death: Ints) -> tuple[Ints, list[slice]]:
    """An order in groups of about the same length, each by birth: those of a group that are alive at a time lie close
    together."""
    few = len(birth) <= FEW
    length = np.zeros(len(birth), dtype=np.int64) if few else np.frexp(death - birth)[1] // OCTAVES
    line = np.lexsort((birth, length))
    first = np.unique(length[line], return_index=True)[1].tolist()
    return line, [slice(a, b) for a, b in pairwise((*first, len(birth)))]


def met_in(group: slice, birth: Ints, death: Ints) -> tuple[list[int], list[int]]:
    """For each buffer where those of a group begin and end of which all are that are alive with it, and none that are
    born behind it."""
    births = birth[group]
    longest = (death[group] - births).max()
    first = np.searchsorted(births, birth - longest, side="right")
    return (group.start + first).tolist(), (group.start + np.searchsorted(births, death)).tolist()
