"""What tiles take at a first look, by which those that are worked out in full are chosen."""

from __future__ import annotations

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
    second: int

    def cycles(self, spare: int) -> float:
        return self.hidden if self.second <= spare else self.bare

    def times(self, tiles: float) -> Glance:
        return Glance(self.bare * tiles, self.hidden * tiles, self.second)


def glance(program: Program, first: Part, second: Part, room: Room) -> Glance:
    """Judged by the operands that change from the first tile to the second."""
    others = (*second.reads, *second.writes)
    moving = [v for i, v in streamed(program, first, room) if v != others[i]]
    link, alignment = room.machine.link, room.machine.alignment
    sizes = [dense_bytes(program, v) for v in moving]
    transfer = sum(size / link.bytes_per_cycle + link.issue for size in sizes)
    work, tile = work_cycles(first, room.machine), room.machine.costs.tile.tile
    buffers = sum(aligned(size, alignment) for size in sizes)
    return Glance(transfer + work + tile, max(transfer, work) + tile, buffers)


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
    source, views = updated((part,)), streamed(program, part, room)
    alignment = room.machine.alignment
    lanes = aligned(len(views) * LANE_BYTES, alignment)
    buffers = sum(aligned(dense_bytes(program, v), alignment) for i, v in views if i not in source)
    return buffers + lanes + part.kind.scratch(room.cores)


def dense_bytes(program: Program, view: View) -> int:
    size = program.tensors[view.tensor].dtype.size
    for extent, step in zip(view.shape, view.strides, strict=True):
        size *= extent if step else 1
    return size
