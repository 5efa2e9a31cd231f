"""Calls between which the cores do not meet: none of them touches what another one writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from trainlib_deployer.check.in_place import accesses, operands
from trainlib_deployer.emit.listing import Argument, Call, Listing, Operation, Pointer, Tile, Tiles
from trainlib_deployer.emit.shares import split_of
from trainlib_deployer.program.loop import Loop, many_rows

FAR = 1 << 40  # bytes from level to level
Numbers = np.ndarray[Any, np.dtype[np.int64]]


def unmet(listing: Listing) -> Iterator[str]:
    """Operations in which a core may come upon what another one has not done yet, in words."""
    for at, operation in enumerate(listing.operations):
        if not operation.meets:
            yield from (f"operation {at}: {words}" for words in meddling(operation))
        for calls in {id(calls): calls for calls in operation.calls}.values() if operation.apart else ():
            yield from (f"operation {at}: {words}" for words in early(operation, calls, listing))


def meddling(operation: Operation) -> Iterator[str]:
    """By their names: what bears another one lies elsewhere."""
    (calls,) = operation.calls if len(operation.calls) == 1 else ((),)
    if operation.tiles is not None or not calls or not all(map(is_known, calls)):
        yield "the cores do not meet, and nothing is known of what they do"
        return
    touched = Counter(name for call in calls for name in {a.name for a in accesses(call)})
    written = {a.name for call in calls for a in accesses(call) if a.written}
    yield from (f"the cores do not meet, but {name} is written" for name in sorted(written) if touched[name] > 1)


def is_known(call: Call) -> bool:
    """A generated loop, whose operands lie where they are."""
    lying = (isinstance(a, Pointer | int) for _, a in call.arguments)
    return call.loop is not None and all(lying)


def early(operation: Operation, calls: Sequence[Call], listing: Listing) -> Iterator[str]:
    """Calls of a tile that a core begins while others are at those before, byte by byte."""
    shares = [shares_of(call, operation.tiles, listing) for call in calls]
    since = 0
    for i in range(1, len(calls)):
        since = since if i in operation.apart else i
        for j in range(since, i):
            one, other = shares[j], shares[i]
            if one is None or other is None:
                yield f"the cores do not meet before call {i}, and nothing is known of what they do"
            elif one.meddle(other):
                yield f"the cores do not meet before call {i}, which has other bytes for a core than call {j}"


@dataclass(frozen=True)
class Bytes:
    """Of a level, and the core that touches each; places of different levels are far from each other."""

    places: Numbers
    cores: Numbers

    def others(self, touched: Bytes) -> bool:
        """Whether another core touches some of these."""
        order = np.argsort(self.places, kind="stable")
        known, owners = self.places[order], self.cores[order]
        at = np.minimum(np.searchsorted(known, touched.places), max(known.size - 1, 0))
        return bool(known.size) and bool(((known[at] == touched.places) & (owners[at] != touched.cores)).any())


@dataclass(frozen=True)
class Shares:
    """What the cores write and read in a call."""

    written: Bytes
    read: Bytes

    def meddle(self, behind: Shares) -> bool:
        """Whether a core touches what another one writes, or writes what another one has read."""
        w = self.written
        return w.others(behind.written) or w.others(behind.read) or behind.written.others(self.read)


def shares_of(call: Call, tiles: Tiles | None, listing: Listing) -> Shares | None:
    """Of a generated loop that goes row by row."""
    kind = call.loop.kind if call.loop is not None else None
    if not isinstance(kind, Loop) or len(kind.extents) < 2 or kind.recorded or many_rows(kind.extents):
        return None
    results = np.arange(prod(kind.parallel))
    owner = np.searchsorted(split_of(kind).bounds(listing.cores), results, side="right") - 1
    found = {True: [np.empty((2, 0), np.int64)], False: [np.empty((2, 0), np.int64)]}
    for written, view, size, given in operands(call):
        place = place_of(given, tiles, listing, size)
        if place is None:
            return None
        grid = np.array(place)
        for extent, stride in zip(view.shape, view.strides, strict=True):
            grid = grid[..., None] + np.arange(extent) * stride * size
        each = grid.reshape(results.size, -1, 1) + np.arange(size)
        found[written].append(np.stack([each, np.broadcast_to(owner[:, None, None], each.shape)]).reshape(2, -1))
    return Shares(*(Bytes(*np.concatenate(found[written], axis=1)) for written in (True, False)))


def place_of(given: Argument, tiles: Tiles | None, listing: Listing, size: int) -> int | None:
    """The byte that an argument points at."""
    if isinstance(given, Tile) and tiles is not None:
        name, past = tiles.streams[given.stream].buffer.name, given.past
    elif isinstance(given, Pointer):
        name, past = given.home.name, given.offset * size
    else:
        return None
    place = listing.places[name]
    return listing.levels.index(place.level) * FAR + place.offset + past
