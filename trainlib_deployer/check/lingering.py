"""Results that still leave when their operation ends: the next one, in the same function, awaits them before it writes
where they lie, and touches nothing of them in the outer level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainlib_deployer.check.early import written
from trainlib_deployer.emit.listing import Call, Listing, Operation, Stream, Tile, Tiles


def astray(listing: Listing, plan: Mapping[str, Any]) -> Iterator[str]:
    """Those of which that is not so, in words."""
    sizes = {t["c_name"]: int(t["bytes"]) for t in plan["tensors"].values()}
    for at, operation in enumerate(listing.operations):
        behind = listing.operations[at + 1] if at + 1 < len(listing.operations) else None
        number = None if operation.tiles is None else operation.tiles.lingers
        left = None if behind is None else behind.left
        awaited = None if left is None else (left.lanes, left.stream)
        if awaited != (None if operation.tiles is None or number is None else (operation.tiles.lanes, number)):
            yield f"operation {at}: what it leaves under way is not what the next one awaits"
        elif operation.tiles is not None and number is not None and behind is not None:
            s = operation.tiles.streams[number]
            if len(operation.calls) != 1 or not s.leaves or s.home is None:
                yield f"operation {at}: stream {number} cannot linger"
            elif not any({at, at + 1} <= {*f} for f in listing.functions):
                yield f"operation {at}: stream {number} lingers over the end of a function"
            elif s.home.name in written(plan, at + 1, s.home.name, listing, sizes) or reads(listing, behind, s):
                yield f"operation {at + 1} touches {s.home.name}, which is under way"
            elif over_it(behind, s):
                yield f"operation {at + 1} writes where {s.home.name} still leaves from"


def reads(listing: Listing, operation: Operation, s: Stream) -> bool:
    """From the outer level: by a tile of its own, by one that it brings early, or where it lies."""
    brought = (
        [t for t in operation.tiles.streams if not t.early and any(m.moves for m in t.way.moves)]
        if operation.tiles
        else []
    )
    brought += [t for name in operation.starts for t in listing.tiles_of(name).streams if t.early]
    pointed = [p.home for calls in operation.calls for c in calls for p in c.pointers]
    return s.home in [*(t.home for t in brought), *pointed]


def over_it(operation: Operation, s: Stream) -> bool:
    """Does a call write a tile in its buffer before it has been awaited, or is one brought there?"""
    assert operation.left is not None
    tiles = operation.tiles
    if tiles is None or len(operation.calls) != 1:
        return True
    before = operation.left.before
    calls = operation.calls[0][:before] if before is not None else operation.calls[0]
    coming = any(m.moves for t in tiles.streams if t.buffer == s.buffer and not t.leaves for m in t.way.moves)
    return coming or before == 0 or any(t.buffer == s.buffer for call in calls for t in results(call, tiles))


def results(call: Call, tiles: Tiles) -> Iterator[Stream]:
    """Streams of which a call may write the tile; of a kernel all that leave."""
    given = [a for _, a in call.arguments if isinstance(a, Tile)]
    if call.loop is not None:
        given = [a for _, a in call.arguments[: len(call.loop.writes)] if isinstance(a, Tile)]
    yield from (s for a in given if (s := tiles.streams[a.stream]).leaves or call.loop is not None)
