"""What tiles take at a first look, by which those that are worked out in full are chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.machine.sizes import aligned
from trainlib_deployer.plan.tiles import LANE_BYTES, Room, is_inside, made_inside, updated
from trainlib_deployer.program.ir import Part, Program, View
from trainlib_deployer.program.series import Series


class Glance(NamedTuple):
    """Cycles of a tile at a first look: one after the other, or with the next one's transfers behind the work, where
    there is room for second buffers."""

    bare: float
    hidden: float
    least: int  # bytes of a tile ...
    twice: int  # ... and of second buffers

    def cycles(self, capacity: int) -> float:
        return self.hidden if self.twice <= capacity else self.bare


class Streamed(NamedTuple):
    """An operand with a stream of its own: its number, the bytes of an element, and whether it lies in the place of
    another one."""

    operand: int
    element: int
    overlaid: bool

    def nbytes(self, view: View) -> int:
        size = self.element
        for extent, step in zip(view.shape, view.strides, strict=True):
            size *= extent if step else 1
        return size


@dataclass(frozen=True)
class Look:
    """How tiles of an operation are looked at: which operands are on their way is the same for all of them."""

    machine: Machine
    streamed: tuple[Streamed, ...]

    @staticmethod
    def at(program: Program, whole: Part, room: Room) -> Look:
        return Look(room.machine, tuple(streams(program, whole, room)))

    def least(self, part: Part) -> int:
        """What a tile needs at the least: one buffer for each streamed operand, its lane, and scratch."""
        views, alignment = (*part.reads, *part.writes), self.machine.alignment
        lanes = aligned(len(self.streamed) * LANE_BYTES, alignment)
        buffers = sum(aligned(s.nbytes(views[s.operand]), alignment) for s in self.streamed if not s.overlaid)
        return buffers + lanes + part.kind.scratch(self.machine.cores)

    def glance(self, parts: Sequence[Part], work: float, alike: float) -> Glance:
        """By the operands that change from the first to the second. `work` are the cycles of the first, and as many as
        `alike` there are of its size. What is written over goes on its way from a third buffer, if there are three."""
        first, second = parts[:2]
        views, others = (*first.reads, *first.writes), (*second.reads, *second.writes)
        link, alignment, tile = self.machine.link, self.machine.alignment, self.machine.costs.tile.tile
        moving = [s for s in self.streamed if views[s.operand] != others[s.operand]]
        sizes = [s.nbytes(views[s.operand]) for s in moving]
        transfer = sum(size / link.bytes_per_cycle + link.issue for size in sizes)
        third = len(parts) > 2
        buffers = sum(aligned(b, alignment) for s, b in zip(moving, sizes, strict=True) if third or not s.overlaid)
        bare, hidden = transfer + work + tile, max(transfer, work) + tile
        least = self.least(first)
        return Glance(bare * alike, hidden * alike, least, least + buffers)


def streams(program: Program, part: Part, room: Room) -> Iterator[Streamed]:
    """Operands that are read alike share one; the loops of a series share what they read of one tensor."""
    inner, overlaid, series = made_inside(part.kind, len(part.reads)), updated((part,)), isinstance(part.kind, Series)
    seen = set[object]()
    for i, view in enumerate((*part.reads, *part.writes)):
        same = view.tensor if series else view
        known = i < len(part.reads) and same in seen
        if i not in inner and not known and view.tensor not in room.resident and not is_inside(program, view):
            yield Streamed(i, program.tensors[view.tensor].dtype.size, i in overlaid)
            seen.add(same)
