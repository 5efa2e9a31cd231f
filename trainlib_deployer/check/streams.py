"""Buffers of streams, checked in the text of net.c: every tile lies inside of what is planned for its stream."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

STREAMS = re.compile(r" tl_stream streams\[\d+\] = \{(.*?)\};")
STREAM = re.compile(r"TILE\((\d+), (\d+)\), (SECOND\(\d+, \d+\)|\d+), \d+, \d+, [01]\}")
PARTS = re.compile(r" tl_part parts\[\d+\]\[\d+\] = \{(.*?)\};")
ROW = re.compile(r"\{(\{[-\d, ]*\}(?:, \{[-\d, ]*\})*)\}")
MOVE = re.compile(r"\{([-\d, ]*)\}")


def outside(statements: Sequence[str], sizes: Mapping[str, int]) -> Iterator[str]:
    """Tiles that reach over the end of their buffers, in words; `sizes` by C name."""
    for at, statement in enumerate(statements):
        text = " ".join(statement.split())
        for streams, parts in zip(STREAMS.findall(text), PARTS.findall(text), strict=True):
            homes = STREAM.findall(streams)
            for tile, row in enumerate(ROW.findall(parts)):
                moves = [[int(n) for n in m.split(",")] for m in MOVE.findall(row)]
                if len(moves) != len(homes):
                    yield f"operation {at}, tile {tile}: {len(moves)} moves for {len(homes)} streams"
                    continue
                for (position, number, second), move in zip(homes, moves, strict=True):
                    if not inside(f"{position}_{number}", second, move, sizes):
                        yield f"operation {at}, tile {tile} of stream {number}: outside of its buffers"


def inside(name: str, second: str, move: list[int], sizes: Mapping[str, int]) -> bool:
    _, row_bytes, rows, planes, buffer, _ = move
    end = row_bytes * rows * planes
    if not second.startswith("SECOND"):
        return buffer * int(second) + end <= sizes[f"tile_{name}"] and (buffer == 0 or int(second) >= end)
    numbers = "_".join(re.findall(r"\d+", second))
    return numbers == name and buffer <= 1 and end <= sizes[f"{('tile', 'second')[buffer]}_{name}"]
