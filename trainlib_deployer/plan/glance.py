"""What tiles take at a first look, by which those that are worked out in full are chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.machine.sizes import aligned
from trainlib_deployer.plan.tiles import LANE_BYTES, Room, is_inside, made_inside, updated
from trainlib_deployer.program.brought import comes_by_itself
from trainlib_deployer.program.ir import Part, Program, View
from trainlib_deployer.program.series import Series

Taken = Callable[[], tuple[float, float]]  # cycles of a tile's work, and how many of its size there are


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

    @cached_property
    def lanes(self) -> int:
        """Bytes of the records of transfers under way."""
        return aligned(len(self.streamed) * LANE_BYTES, self.machine.alignment)

    def least(self, part: Part) -> int:
        """What a tile needs at the least: one buffer for each streamed operand, its lane, and scratch."""
        views, alignment = (*part.reads, *part.writes), self.machine.alignment
        buffers = sum(aligned(s.nbytes(views[s.operand]), alignment) for s in self.streamed if not s.overlaid)
        return buffers + self.lanes + part.kind.scratch(self.machine.cores)

    def moving(self, parts: Sequence[Part]) -> tuple[float, int]:
        """Cycles of the transfers for a tile, and bytes of second buffers: of the operands that change from the first
        to the second. What is written over goes on its way from a third buffer, if there are three."""
        first, second, third = parts[0], parts[1], len(parts) > 2
        views, others = (*first.reads, *first.writes), (*second.reads, *second.writes)
        link, alignment = self.machine.link, self.machine.alignment
        again, transfer = 0, 0.0
        for s in self.streamed:
            view = views[s.operand]
            if view != others[s.operand]:
                size = s.nbytes(view)
                transfer += size / link.bytes_per_cycle + link.issue
                again += aligned(size, alignment) if third or not s.overlaid else 0
        return transfer, again


class Glance:
    """A tile at a first look: the bytes that it needs, and what it takes, which is worked out where there is so much
    room."""

    def __init__(self, look: Look, parts: Sequence[Part], taken: Taken) -> None:
        self.look, self.parts, self.taken = look, parts, taken
        self.least = look.least(parts[0])

    @property
    def twice(self) -> int:
        """Bytes with second buffers."""
        return self.least + self.moving[1]

    @cached_property
    def moving(self) -> tuple[float, int]:
        """Cycles of the transfers for a tile, and bytes of second buffers."""
        return self.look.moving(self.parts)

    @cached_property
    def cycles_of(self) -> tuple[float, float]:
        """With the next one's transfers behind the work, where there is room for second buffers, or one after the
        other."""
        (transfer, _), costs, (work, alike) = self.moving, self.look.machine.costs.tile, self.taken()
        hidden = max(transfer + costs.idle if transfer else 0.0, work + costs.tile)
        return hidden * alike, (transfer + work + costs.tile) * alike

    def cycles(self, capacity: int) -> float:
        hidden, bare = self.cycles_of
        return hidden if self.twice <= capacity else bare


def streams(program: Program, part: Part, room: Room) -> Iterator[Streamed]:
    """Operands that are read alike share one; the loops of a series share what they read of one tensor."""
    inner, overlaid, series = made_inside(part.kind, len(part.reads)), updated((part,)), isinstance(part.kind, Series)
    seen = set[object]()
    for i, view in enumerate((*part.reads, *part.writes)):
        same = view.tensor if series else view
        known = (i < len(part.reads) and same in seen) or comes_by_itself(part.kind, i)
        if i not in inner and not known and view.tensor not in room.resident and not is_inside(program, view):
            yield Streamed(i, program.tensors[view.tensor].dtype.size, i in overlaid)
            seen.add(same)
