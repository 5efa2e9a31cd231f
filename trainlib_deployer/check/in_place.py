"""Work in place: does an operation read each element of one tensor before it writes the same one of another?

A product adds to what it begins with, as it does to what is there already, element by element.

A generated loop reads what it needs of an element, or of a few neighbours, before it writes them, and goes on to
others: where both operands step alike, none is read that was written before. Of several loops in a row those before may
read the same elements, too, and none behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from trainlib_deployer.emit.listing import Argument, Call, Listing, Operation, Pointer, Tile, Tiles, Way
from trainlib_deployer.program.ir import View
from trainlib_deployer.program.loop import Loop


def in_place(operation: Operation, old: str, new: str) -> bool:
    """C names: the operation reads the last of `old` and writes the first of `new`, which has its place."""
    tiles = {id(calls): calls for calls in operation.calls}.values()
    if not all(adds(c) or (c.loop is not None and isinstance(c.loop.kind, Loop)) for calls in tiles for c in calls):
        return False
    if not operation.meets:
        return False
    if operation.tiles is not None and any(s.home and s.home.name in (old, new) for s in operation.tiles.streams):
        pointed = (p.home.name for calls in tiles for c in calls for p in c.pointers)
        return not {old, new} & {*pointed} and same_ways(operation.tiles, old, new)
    return all(goes_on(calls[0], old, new) if adds(calls[0]) else one_by_one(calls, old, new) for calls in tiles)


def adds(call: Call) -> bool:
    """A product, which begins with an operand."""
    return call.struct == "tl_matmul"


def goes_on(call: Call, old: str, new: str) -> bool:
    """It begins with `old` where it writes `new`, and that is all that it does with them."""
    fields = dict(call.arguments)
    found = {name: a for name, a in call.arguments if isinstance(a, Pointer) and a.home.name in (old, new)}
    if {name: a.home.name for name, a in found.items()} != {"init": old, "c": new}:
        return False
    steps = [(fields[f"i_{dim}"], fields[f"c_{dim}"]) for dim in "bmn"]
    return found["init"].offset == found["c"].offset and all(i == c for i, c in steps)


def same_ways(tiles: Tiles, old: str, new: str) -> bool:
    """Tile by tile all bytes that are read are among those written afterwards, and no tile has another's."""
    before = [s for s in tiles.streams if s.home and s.home.name == old]
    after = [s for s in tiles.streams if s.home and s.home.name == new]
    if len(after) != 1 or not before or not after[0].leaves or any(s.leaves for s in before):
        return False
    own = windows(after[0].way)
    return disjoint(own) and all(covered(windows(s.way), own) for s in before)


Tiled = Sequence[Sequence[tuple[int, int]]]  # of each tile: where its rows begin and end, in bytes


def covered(tiles: Tiled, others: Tiled) -> bool:
    """Each row lies in one of the other tile."""
    return len(tiles) == len(others) and all(
        tile == other or all(any(low <= begin and end <= high for low, high in other) for begin, end in tile)
        for tile, other in zip(tiles, others, strict=True)
    )


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


def overlaid(listing: Listing) -> Iterator[str]:
    """Tiles that are written where others lie that are still read, in words."""
    for at, operation in enumerate(listing.operations):
        buffers = [s.buffer.name for s in operation.tiles.streams] if operation.tiles else []
        different = {id(calls): calls for calls in operation.calls}.values()
        yield from (f"operation {at}: {words}" for calls in different for words in gone(calls, buffers))


def gone(calls: Sequence[Call], buffers: Sequence[str]) -> Iterator[str]:
    """Of a stream, or of several in the same buffer: one is read for the last time before the other is written, or by
    the same loop, each element where the same one is written."""
    holds: dict[str, int] = {}
    for call in calls:
        found = list(tiles_of(call))
        for s, _ in (f for f in found if not f[1].written and holds.get(buffers[f[0]], f[0]) != f[0]):
            yield f"stream {s} is read where stream {holds[buffers[s]]} has been written"
        for s, target in (f for f in found if f[1].written):
            own = [a for other, a in found if buffers[other] == buffers[s] and a is not target]
            if own and not (pointwise(call) and apart(target) and all(a.where == target.where for a in own)):
                yield f"stream {s} is written where tiles in the same buffer are still read"
            holds[buffers[s]] = s


def tiles_of(call: Call) -> Iterator[tuple[int, Access]]:
    """What a generated loop writes and reads of tiles; nothing is known of a kernel."""
    for written, view, size, given in operands(call) if call.loop is not None else ():
        if isinstance(given, Tile):
            yield given.stream, Access("", written, steps_of(view), size, given.past)


def pointwise(call: Call) -> bool:
    return call.loop is not None and isinstance(call.loop.kind, Loop) and not call.loop.kind.reductions


def accesses(call: Call) -> Iterator[Access]:
    """What a generated loop writes and reads where it lies."""
    for written, view, size, given in operands(call):
        if isinstance(given, Pointer):
            yield Access(given.home.name, written, steps_of(view), size, given.offset)


def operands(call: Call) -> Iterator[tuple[bool, View, int, Argument]]:
    """Of a generated loop: is it written, how it is seen, bytes of an element, and what stands for it."""
    loop = call.loop
    assert loop is not None and isinstance(loop.kind, Loop)
    types, views = (*loop.kind.outputs, *loop.kind.inputs), (*loop.writes, *loop.reads)
    for k, (dtype, view, (_, given)) in enumerate(zip(types, views, call.arguments, strict=False)):
        yield k < len(loop.writes), view, dtype.size, given


def steps_of(view: View) -> tuple[tuple[int, int], ...]:
    return tuple((e, s) for e, s in zip(view.shape, view.strides, strict=True) if e > 1)


def apart(access: Access) -> bool:
    """No two of its elements are one."""
    reach = 0
    for extent, stride in sorted(access.steps, key=lambda found: abs(found[1])):
        if abs(stride) <= reach:
            return False
        reach += (extent - 1) * abs(stride)
    return True
