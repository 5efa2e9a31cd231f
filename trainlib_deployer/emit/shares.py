"""How the cores share a generated loop, and between which loops none waits for another.

A norm's sums are made channel by channel, and what is made of a channel is that core's again where the channels are
shared evenly: then nobody has to wait for what others do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from trainlib_deployer.emit.listing import Argument, Call, Place, Pointer, Tile, Tiles
from trainlib_deployer.program.loop import LANES, Loop, many_rows, middle_of_rows

NOWHERE = Place("", 0, 0, 0, 0)


@dataclass(frozen=True)
class Split:
    """As tl_split does it: so many units, of which a core gets a multiple of the grain, each so many elements."""

    units: int
    grain: int = 1
    elements: int = 1

    def bounds(self, cores: int) -> list[int]:
        """Where each core's elements begin, and the last one's end."""
        blocks = -(-self.units // self.grain)
        each, more = divmod(blocks, cores)
        begins = (core * each + min(core, more) for core in range(cores + 1))
        return [min(b * self.grain, self.units) * self.elements for b in begins]


def split_of(kind: Loop) -> Split:
    """Of a loop in nested dimensions, or one that sums up: its results, in order."""
    if kind.reductions or not kind.extents:
        return Split(prod(kind.parallel))
    inner = kind.extents[-1]
    rows = prod(kind.extents[:-1])
    if rows == 1 or middle_of_rows(rows, inner):
        return Split(rows * inner, LANES)
    return Split(rows, 1, inner)


def apart(
    tiles: Sequence[Sequence[Call]], streams: Tiles | None, places: Mapping[str, Place], cores: int
) -> frozenset[int]:
    """Calls, by their numbers in each tile, that a core may begin when it has done its own part of those before."""
    different = {id(calls): calls for calls in tiles}.values()
    found = [apart_in(calls, streams, places, cores) for calls in different]
    return frozenset(set[int].intersection(*found))


def apart_in(calls: Sequence[Call], tiles: Tiles | None, places: Mapping[str, Place], cores: int) -> set[int]:
    seen = [touched(call, tiles, places) for call in calls]
    lines = [lines_of(call, cores) for call in calls]
    found, since = set[int](), 0
    for i in range(1, len(calls)):
        if lines[i] is not None and all(lines[j] == lines[i] and strangers(seen[j], seen[i]) for j in range(since, i)):
            found.add(i)
        else:
            since = i
    return found


def lines_of(call: Call, cores: int) -> list[int] | None:
    """Where each core's part of the first dimension begins; None where one ends within a line, or nothing is known."""
    kind = call.loop.kind if call.loop is not None else None
    if not isinstance(kind, Loop) or len(kind.extents) < 2 or not kind.parallel or kind.recorded:
        return None
    line = prod(kind.parallel[1:])
    bounds = split_of(kind).bounds(cores)
    return None if many_rows(kind.extents) or any(b % line for b in bounds) else [b // line for b in bounds]


@dataclass(frozen=True)
class Touched:
    """Bytes that a call reads or writes, in a level, and how far they are from line to line."""

    level: str
    begin: int
    end: int
    step: int
    written: bool

    def meddles(self, other: Touched) -> bool:
        """One of them writes what may be another line of the other."""
        near = self.level == other.level and self.begin < other.end and other.begin < self.end
        alike = self.begin == other.begin and self.step == other.step != 0
        return near and (self.written or other.written) and not alike


def strangers(ours: Sequence[Touched], theirs: Sequence[Touched]) -> bool:
    return not any(a.meddles(b) for a in ours for b in theirs)


def touched(call: Call, tiles: Tiles | None, places: Mapping[str, Place]) -> list[Touched]:
    part = call.loop
    if part is None or not isinstance(part.kind, Loop):
        return []
    found, types = list[Touched](), (*part.kind.outputs, *part.kind.inputs)
    for k, (view, dtype, (_, given)) in enumerate(
        zip((*part.writes, *part.reads), types, call.arguments, strict=False)
    ):
        place, past = where(given, tiles, dtype.size, places)
        begin = place.offset + past
        spans = [(e - 1) * s * dtype.size for e, s in zip(view.shape, view.strides, strict=True)]
        low, high = begin + sum(min(x, 0) for x in spans), begin + sum(max(x, 0) for x in spans) + dtype.size
        step = (*view.strides, 0)[0] * dtype.size
        found.append(Touched(place.level, low, high, step, k < len(part.writes)))
    return found


def where(given: Argument, tiles: Tiles | None, size: int, places: Mapping[str, Place]) -> tuple[Place, int]:
    """What an argument points into, and so many bytes behind its first one. What is only recorded has no place."""
    if isinstance(given, Tile) and tiles is not None:
        return places[tiles.streams[given.stream].buffer.name], given.past
    if isinstance(given, Pointer):
        return places[given.home.name], given.offset * size
    return NOWHERE, 0
