"""Work in place: does an operation read each element of one tensor before it writes the same one of another?

A generated loop reads what it needs of an element, or of a few neighbours, before it writes them, and goes on to
others: where both operands step alike, none is read that was written before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from trainlib_deployer.emit.listing import Call, Operation, Pointer, Tiles, Way
from trainlib_deployer.program.loop import Loop


def in_place(operation: Operation, old: str, new: str) -> bool:
    """C names: the operation reads the last of `old` and writes the first of `new`, which has its place."""
    calls = {id(c): c for tile in operation.calls for c in tile}.values()
    if not all(c.loop is not None and isinstance(c.loop.kind, Loop) and not c.loop.kind.reductions for c in calls):
        return False
    if operation.tiles is not None and any(s.home and s.home.name in (old, new) for s in operation.tiles.streams):
        return len(operation.calls[0]) == 1 and same_ways(operation.tiles, old, new)
    return all(element_by_element(c, old, new) for c in calls)


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


def element_by_element(call: Call, old: str, new: str) -> bool:
    found = [a for a in accesses(call) if a.name in (old, new)]
    written = [a for a in found if a.written]
    if [a.name for a in written] != [new] or all(a.name != old for a in found):
        return False
    target = written[0]
    return apart(target) and all(a.where == target.where for a in found)


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
