"""Buffers of streams: every tile lies inside of what is planned for its stream, and is there when it is worked on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainlib_deployer.emit.listing import Home, Listing, Move, Stream

Bytes = tuple[int, int, int, int]  # of a tile in its tensor


def outside(listing: Listing, sizes: Mapping[str, int]) -> Iterator[str]:
    """Tiles that reach over the end of their buffers, in words; `sizes` by C name."""
    for at, operation in enumerate(listing.operations):
        for number, s in enumerate(operation.tiles.streams if operation.tiles else ()):
            if len(s.way.moves) != len(operation.calls):
                yield f"operation {at}, stream {number}: {len(s.way.moves)} moves for {len(operation.calls)} tiles"
            for tile, move in enumerate(s.way.moves):
                if not inside(s, move, sizes):
                    yield f"operation {at}, tile {tile} of stream {number}: outside of its buffers"


def inside(s: Stream, move: Move, sizes: Mapping[str, int]) -> bool:
    first, end, apart = s.buffer.name, move.nbytes, s.second
    if not isinstance(apart, Home):
        return end <= (apart or sizes[first]) and move.buffer * apart + end <= sizes[first]
    if apart.name != "second" + first.removeprefix("tile") or move.buffer > 1:
        return False
    return end <= sizes[apart.name if move.buffer else first]


def missing(listing: Listing) -> Iterator[str]:
    """Tiles that are read from a buffer in which there is something else, in words."""
    for at, operation in enumerate(listing.operations):
        for number, s in enumerate(operation.tiles.streams if operation.tiles else ()):
            held = dict(left_there(listing, at, s)) if s.found else {}
            for tile, m in enumerate(s.way.moves if s.home and not s.leaves else ()):
                if not m.moves and held.get(m.buffer) != same(m):
                    yield f"operation {at}, tile {tile} of stream {number}: its buffer holds something else"
                held[m.buffer] = same(m)


def left_there(listing: Listing, at: int, s: Stream) -> Iterator[tuple[int, Bytes]]:
    """What the buffer of a stream holds if the operation before, in the same function, took the same bytes of the same
    tensor away from there, each as one tile."""
    before = listing.operations[at - 1].tiles if any({at - 1, at} <= {*f} for f in listing.functions) else None
    made = [o for o in before.streams if o.leaves and o.home and o.buffer == s.buffer] if before else []
    moves = [m for o in (s, *made) for m in o.way.moves]
    pitches = {(o.way.pitch, o.way.plane_pitch) for o in (s, *made)}
    alike = len(moves) == 2 and len(pitches) == 1 and same(moves[0]) == same(moves[1])
    if alike and made[0].home == s.home and moves[1].moves:
        yield moves[0].buffer, same(moves[0])


def overtaken(listing: Listing) -> Iterator[str]:
    """Tiles that come into a buffer, or are written in one, in which another is still worked on or leaves, in words."""
    for at, operation in enumerate(listing.operations):
        tiles = operation.tiles
        for number, s in enumerate(tiles.streams if tiles else ()):
            assert tiles is not None
            later = [o for o in tiles.streams if o.leaves and o.buffer.name == s.buffer.name and o is not s]
            for tile, m in enumerate(s.way.moves if s.home else ()):
                since = max(tile - (min(tiles.ahead, 1) if s.leaves else tiles.ahead), 0)
                worked = s.way.moves[since:tile]
                leaving = [n for o in later for n in o.way.moves[max(since - 1, 0) : tile]] if tiles.ahead else []
                comes = m.moves or s.leaves
                if comes and any(n.buffer == m.buffer and same(n) != same(m) for n in worked):
                    yield f"operation {at}, tile {tile} of stream {number}: its buffer is still worked on"
                elif m.moves and not s.leaves and any(n.buffer == m.buffer for n in leaving):
                    yield f"operation {at}, tile {tile} of stream {number}: what its buffer holds has not left"


def same(move: Move) -> Bytes:
    """Two tiles have the same bytes if this is the same."""
    return move.offset, move.row_bytes, move.rows, move.planes
