"""How an operation runs beside what lives in L1: in tiles or reading L2, with scratch for all cores or for fewer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from trainlib_deployer.plan.best_tiling import REMEMBERED, Job, best_tiling, prospects
from trainlib_deployer.plan.cycles import untiled_cycles, work_cycles
from trainlib_deployer.plan.tiles import Room, Tiling
from trainlib_deployer.program.brought import Bringing, brought_bytes
from trainlib_deployer.program.ir import Frugal, Kind, Op, Part, Program
from trainlib_deployer.program.linked import Linked

AMPLE = 2  # times the scratch for all cores: with so much room it is no concern


@dataclass(frozen=True)
class Way:
    """An operation, perhaps with less scratch than it would like, and its tiles, if any."""

    op: Op
    tiling: Tiling | None
    cycles: float

    @property
    def moved(self) -> int:
        """Bytes."""
        return brought_bytes(self.op.kind) if self.tiling is None else self.tiling.moved


def fastest(program: Program, op: Op, room: Room) -> Way | None:
    """The way that takes the fewest cycles; None where none fits."""
    best = way(program, op, room)
    ample = best is not None and AMPLE * op.kind.scratch(room.cores) <= room.capacity
    for kind in (*(() if ample else leaner(op.kind, room.cores)), *bringing(op, room)):
        slim = replace(op, kind=kind)
        if best is None or work_cycles(Part(kind, op.reads, op.writes), room.machine) < best.cycles:
            found = way(program, slim, room)
            if found is not None and (best is None or found.cycles < best.cycles):
                best = found
    return best


def way(program: Program, op: Op, room: Room) -> Way | None:
    """With the scratch that this operation asks for."""
    tiling = best_tiling(program, op, room)
    if tiling is not None:
        return Way(op, tiling, tiling.cycles)
    if op.kind.scratch(room.cores) > room.capacity or isinstance(op.kind, Linked):
        return None
    far = [v for v in (*op.reads, *op.writes) if v.tensor not in room.resident]
    return Way(op, None, untiled_cycles(op, far, room.machine))


def may_fit(program: Program, op: Op, room: Room) -> bool:
    """False where no way does, found without looking at any in full."""
    return any(
        least(program, replace(op, kind=k), room) <= room.capacity for k in (op.kind, *leaner(op.kind, room.cores))
    )


def least(program: Program, op: Op, room: Room) -> int:
    """Bytes of a way, or fewer."""
    scratch = op.kind.scratch(room.cores)
    if scratch <= room.capacity and not isinstance(op.kind, Linked):
        return scratch
    return prospects(Job.of(program, op, room)).fewest


@lru_cache(maxsize=REMEMBERED)
def leaner(kind: Kind, cores: int) -> tuple[Kind, ...]:
    """Each setting asks for the same ones again."""
    return tuple(kind.leaner(cores)) if isinstance(kind, Frugal) and kind.scratch(cores) else ()


def bringing(op: Op, room: Room) -> Iterator[Kind]:
    """By kernels that bring what lives elsewhere themselves."""
    if isinstance(op.kind, Bringing):
        for kind in op.kind.bringing():
            if kind.brought is not None and op.reads[kind.brought.operand].tensor not in room.resident:
                yield kind


def leanest_way(op: Op, cores: int) -> Op:
    """With as little scratch as it can do with."""
    return slim_way(op, cores, 0)


def slim_way(op: Op, cores: int, room: int) -> Op:
    """With the most scratch for which there is room, or as little as it can do with."""
    kinds = [op.kind, *leaner(op.kind, cores)]
    return replace(op, kind=next((k for k in kinds if k.scratch(cores) <= room), kinds[-1]))
