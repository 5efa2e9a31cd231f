"""The cheapest tiles of an operation.

Its cuts are worked out once: plans of variants of a network ask for the same again and again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from trainlib_deployer.plan.cycles import direct_cycles, is_chain
from trainlib_deployer.plan.tiles import Glance, Room, Tiling, glance, least_bytes, tiled
from trainlib_deployer.program.cuts import MOST_TILES
from trainlib_deployer.program.ir import Kind, Op, Part, Program, Splittable, Tensor, View

LOOK_AT = 5  # cuts of an operation that are worked out in full
REMEMBERED = 4096  # operations


@dataclass(frozen=True)
class Job:
    """An operation as far as its tiles are concerned, but for the bytes that they may take."""

    kind: Kind
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    tensors: tuple[Tensor, ...]
    room: Room  # of no capacity, with the operands that live in L1

    @staticmethod
    def of(program: Program, op: Op, room: Room) -> Job:
        names = dict.fromkeys(v.tensor for v in (*op.reads, *op.writes))
        bare = Room(room.resident.intersection(names), 0, room.machine)
        return Job(op.kind, op.reads, op.writes, tuple(program.tensors[n] for n in names), bare)


class Prospects:
    """The ways to cut an operation, whatever the room."""

    def __init__(self, job: Job) -> None:
        self.program = Program("", {t.name: t for t in job.tensors})
        self.job = job
        self.whole = Part(job.kind, job.reads, job.writes)
        self.least = least_bytes(self.program, self.whole, job.room)
        self.cuts = list(self.glances())  # least bytes, a guess of the cycles, the cuts
        self.known: dict[tuple[int, bool], Tiling | None] = {}
        self.made: dict[int, tuple[Part, ...]] = {}

    def glances(self) -> Iterator[tuple[int, Glance, Sequence[Any]]]:
        """Judged by the first two tiles."""
        if not hasattr(self.job.kind, "cuts"):
            return
        kind = cast(Splittable, self.job.kind)
        for cuts in kind.cuts():
            if 1 < len(cuts) <= MOST_TILES:
                first, second = (kind.part(c, self.job.reads, self.job.writes) for c in cuts[:2])
                guess = glance(self.program, first, second, self.job.room).times(tiles_like(first, self.whole))
                yield least_bytes(self.program, first, self.job.room), guess, cuts

    def candidates(self, capacity: int) -> Iterator[int]:
        """The whole operation (-1), or the cuts that look best, of those that may fit."""
        if self.least <= capacity:
            yield -1
        fitting = ((i, least, guess) for i, (least, guess, _) in enumerate(self.cuts) if least <= capacity)
        promising = [(guess.cycles(capacity - least), i) for i, least, guess in fitting]
        yield from (i for _, i in sorted(promising)[:LOOK_AT])

    def tiling(self, index: int, ahead: bool) -> Tiling | None:
        if (index, ahead) not in self.known:
            self.known[index, ahead] = tiled(self.program, self.parts(index), self.job.room, ahead)
        return self.known[index, ahead]

    def parts(self, index: int) -> tuple[Part, ...]:
        if index < 0:
            return (self.whole,)
        if index not in self.made:
            kind = cast(Splittable, self.job.kind)
            self.made[index] = tuple(kind.part(c, self.job.reads, self.job.writes) for c in self.cuts[index][2])
        return self.made[index]


def tiles_like(first: Part, whole: Part) -> float:
    """How many tiles like the first one there are; the last ones may be smaller. Sums are cut by their terms, other
    work by its results: tiles with halos do more than their share of it."""
    written, total = (sum(v.numel for v in p.writes) for p in (first, whole))
    return max(whole.kind.macs() / max(first.kind.macs(), 1), total / max(written, 1))


prospects = lru_cache(maxsize=REMEMBERED)(Prospects)


def best_tiling(program: Program, op: Op, room: Room) -> Tiling | None:
    """The cheapest way to run `op` out of L1; None where it better reads L2 directly, or must.

    Where the scratch of the whole does not fit, there is no way but tiles; nor is there for a chain."""
    streamed = [v for v in (*op.reads, *op.writes) if v.tensor not in room.resident]
    if not streamed:
        return None
    best: Tiling | None = None
    known = prospects(Job.of(program, op, room))
    for index in known.candidates(room.capacity):
        for ahead in (True, False):
            found = known.tiling(index, ahead)
            if found is None or found.nbytes > room.capacity:
                continue
            if best is None or found.cycles < best.cycles:
                best = found
            break
    if best is None or is_chain(op.kind) or op.kind.scratch(room.cores) > room.capacity:
        return best
    return best if best.cycles < direct_cycles(op, streamed, room.machine) else None
