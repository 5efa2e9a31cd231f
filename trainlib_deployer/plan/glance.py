"""What tiles take at a first look, by which those that are worked out in full are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainlib_deployer.machine.sizes import aligned
from trainlib_deployer.plan.cycles import work_cycles
from trainlib_deployer.plan.tiles import LANE_BYTES, Room, is_inside, made_inside, updated
from trainlib_deployer.program.ir import Part, Program, View
from trainlib_deployer.program.series import Series


@dataclass(frozen=True, order=True)
class Glance:
    """Cycles of a tile at a first look: one after the other, or with the next one's transfers behind the work, where
    there is room for second buffers."""

    bare: float
    hidden: float
    second: int  # bytes
    least: int  # ... of a tile

    def cycles(self, capacity: int) -> float:
        return self.hidden if self.least + self.second <= capacity else self.bare

    def times(self, tiles: float) -> Glance:
        return Glance(self.bare * tiles, self.hidden * tiles, self.second, self.least)


def glance(program: Program, first: Part, second: Part, room: Room) -> Glance:
    """Judged by the operands that change from the first tile to the second."""
    others = (*second.reads, *second.writes)
    found = [(i, v, dense_bytes(program, v)) for i, v in streamed(program, first, room)]
    link, alignment = room.machine.link, room.machine.alignment
    sizes = [size for i, v, size in found if v != others[i]]
    transfer = sum(size / link.bytes_per_cycle + link.issue for size in sizes)
    work, tile = work_cycles(first, room.machine), room.machine.costs.tile.tile
    buffers = sum(aligned(size, alignment) for size in sizes)
    least = with_one_buffer(first, [(i, size) for i, _, size in found], room)
    return Glance(transfer + work + tile, max(transfer, work) + tile, buffers, least)


def streamed(program: Program, part: Part, room: Room) -> list[tuple[int, View]]:
    """Operands with a stream of their own, by number; the loops of a series share what they read of one tensor."""
    inner, seen, out = made_inside(part.kind, len(part.reads)), set[str](), []
    for i, view in enumerate((*part.reads, *part.writes)):
        known = isinstance(part.kind, Series) and i < len(part.reads) and view.tensor in seen
        if i not in inner and not known and view.tensor not in room.resident and not is_inside(program, view):
            out.append((i, view))
            seen.add(view.tensor)
    return out


def least_bytes(program: Program, part: Part, room: Room) -> int:
    """What a tile needs at the least: one buffer for each streamed operand, its lane, and scratch."""
    return with_one_buffer(part, [(i, dense_bytes(program, v)) for i, v in streamed(program, part, room)], room)


def with_one_buffer(part: Part, sizes: Sequence[tuple[int, int]], room: Room) -> int:
    """Of operands with a stream their number and bytes."""
    source, alignment = updated((part,)), room.machine.alignment
    lanes = aligned(len(sizes) * LANE_BYTES, alignment)
    buffers = sum(aligned(size, alignment) for i, size in sizes if i not in source)
    return buffers + lanes + part.kind.scratch(room.cores)


def dense_bytes(program: Program, view: View) -> int:
    size = program.tensors[view.tensor].dtype.size
    for extent, step in zip(view.shape, view.strides, strict=True):
        size *= extent if step else 1
    return size
