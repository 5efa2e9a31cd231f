"""Work in place: does an operation read each element of one tensor before it writes the same one of another?

A generated loop reads what it needs of an element, or of a few neighbours, before it writes them, and goes on to
others: where both operands step alike, none is read that was written before. Of several loops in a row those before may
read the same elements, too, and none behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from trainlib_deployer.emit.listing import Call, Operation, Pointer, Tiles, Way
from trainlib_deployer.program.loop import Loop


def in_place(operation: Operation, old: str, new: str) -> bool:
    """C names: the operation reads the last of `old` and writes the first of `new`, which has its place."""
    tiles = {id(calls): calls for calls in operation.calls}.values()
    if not all(c.loop is not None and isinstance(c.loop.kind, Loop) for calls in tiles for c in calls):
        return False
    if operation.tiles is not None and any(s.home and s.home.name in (old, new) for s in operation.tiles.streams):
        pointed = (p.home.name for calls in tiles for c in calls for p in c.pointers)
        return not {old, new} & {*pointed} and same_ways(operation.tiles, old, new)
    return all(one_by_one(calls, old, new) for calls in tiles)


def same_ways(tiles: Tiles, old: str, new: str) -> bool:
    """Tile by tile the bytes that are read are those that are written afterwards, and no tile has another's."""
    before = [s for s in tiles.streams if s.home and s.home.name == old]
    after = [s for s in tiles.streams if s.home and s.home.name == new]
    if len(after) != 1 or not before or not after[0].leaves or any(s.leaves for s in before):
        return False
    own = windows(after[0].way)
    return all(windows(s.way) == own for s in before) and disjoint(own)


def windows(way: Way) -> list[tuple[tuple[int, int], ...]]:
    """Of each tile: where its rows begin and end, in bytes."""
    return [
        tuple(
            (start, start + m.row_bytes)
            for plane in range(m.planes)
            for row in range(m.rows)
            for start in [m.offset + plane * way.plane_pitch + row * way.pitch]
        )
        for m in way.moves
    ]


def disjoint(tiles: list[tuple[tuple[int, int], ...]]) -> bool:
    """A tile that stays for the next one counts once."""
    rows = sorted(row for tile in dict.fromkeys(tiles) for row in tile)
    return all(end <= begin for (_, end), (begin, _) in pairwise(rows))


@dataclass(frozen=True)
class Access:
    """An operand of a call; `steps` are extents and strides, in elements of `size` bytes from the one at `offset`."""

    name: str
    written: bool
    steps: tuple[tuple[int, int], ...]
    size: int
    offset: int

    @property
    def where(self) -> object:
        return self.steps, self.size, self.offset

    @property
    def elements(self) -> object:
        """Whatever the order."""
        runs: list[tuple[int, int]] = []
        for extent, stride in sorted((s for s in self.steps if s[1]), key=lambda found: found[1]):
            inner = runs[-1] if runs else (1, 0)
            follows = bool(runs) and stride == inner[0] * inner[1]
            runs[len(runs) - follows :] = [(extent * inner[0], inner[1]) if follows else (extent, stride)]
        return tuple(runs), self.size, self.offset


def one_by_one(calls: Sequence[Call], old: str, new: str) -> bool:
    """One of them writes each element of `new` where it or one before reads that of `old`; none behind reads it."""
    found = [[a for a in accesses(call) if a.name in (old, new)] for call in calls]
    writing = [k for k, its in enumerate(found) if any(a.written for a in its)]
    if len(writing) != 1 or not pointwise(calls[writing[0]]):
        return False
    own, before, behind = found[writing[0]], found[: writing[0]], found[writing[0] + 1 :]
    target = next(a for a in own if a.written)
    if [a.name for a in own if a.written] != [new] or all(a.name != old for its in (own, *before) for a in its):
        return False
    if any(a.name == new for its in before for a in its) or any(a.name == old for its in behind for a in its):
        return False
    alike = all(a.where == target.where for a in own)
    return apart(target) and alike and all(a.elements == target.elements for its in before for a in its)


def pointwise(call: Call) -> bool:
    return call.loop is not None and isinstance(call.loop.kind, Loop) and not call.loop.kind.reductions


def accesses(call: Call) -> Iterator[Access]:
    """What a generated loop writes and reads where it lies."""
    loop = call.loop
    assert loop is not None and isinstance(loop.kind, Loop)
    types, views = (*loop.kind.outputs, *loop.kind.inputs), (*loop.writes, *loop.reads)
    for k, (dtype, view, (_, given)) in enumerate(zip(types, views, call.arguments, strict=False)):
        if isinstance(given, Pointer):
            steps = tuple((e, s) for e, s in zip(view.shape, view.strides, strict=True) if e > 1)
            yield Access(given.home.name, k < len(loop.writes), steps, dtype.size, given.offset)


def apart(access: Access) -> bool:
    """No two of its elements are one."""
    reach = 0
    for extent, stride in sorted(access.steps, key=lambda found: abs(found[1])):
        if abs(stride) <= reach:
            return False
        reach += (extent - 1) * abs(stride)
    return True
