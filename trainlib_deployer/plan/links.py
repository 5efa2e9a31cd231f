"""What an operation calls, tile by tile: which kernel or generated loop, on which views."""

from __future__ import annotations

from dataclasses import dataclass

from trainlib_deployer.kernels.row import Row
from trainlib_deployer.kernels.table import chosen
from trainlib_deployer.plan.tiles import Tiling
from trainlib_deployer.program.ir import Kind, Op, Part
from trainlib_deployer.program.linked import Linked
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.merge import in_few_rows, merged
from trainlib_deployer.program.together import Together

Slots = tuple[int | None, ...]


@dataclass(frozen=True)
class Link:
    """One call. Operand i, of reads and then writes, is stream `slots[i]`, or stays where it is (None)."""

    part: Part
    slots: Slots
    row: Row[Kind] | None  # of the table of kernels; None: a generated loop


def links(op: Op, tiling: Tiling | None, cores: int) -> list[tuple[Link, ...]]:
    """Of each tile; all cores meet between two of them, but of loops together. What is not tiled is one tile."""
    if tiling is None and isinstance(op.kind, Together):
        return [tuple(Link(p, (None,) * len((*p.reads, *p.writes)), None) for p in op.kind.parts(op.reads, op.writes))]
    if tiling is None:
        whole = Part(op.kind, op.reads, op.writes)
        return [(Link(whole, (None,) * (len(op.reads) + len(op.writes)), row_of(whole, cores)),)]
    parts, known = tiling.parts, dict[Part, tuple[Link, ...]]()
    for part in parts:
        if part not in known:
            calls = separate(part, tiling.of_operand)
            known[part] = tuple(local(p, slots, cores, tiling.row) for p, slots in calls)
    return [known[part] for part in parts]


def separate(part: Part, slots: Slots) -> list[tuple[Part, Slots]]:
    """The operations of a chain."""
    if not isinstance(part.kind, Linked):
        return [(part, slots)]
    reads = len(part.reads)
    views = part.kind.links(part.reads, part.writes)
    streams = part.kind.links(slots[:reads], slots[reads:])
    return [(Part(kind, r, w), (*from_, *to)) for (kind, r, w), (_, from_, to) in zip(views, streams, strict=True)]


def local(part: Part, slots: Slots, cores: int, rather: str) -> Link:
    """In L1 the dimensions of a tile may step as one that do not in L2."""
    if isinstance(part.kind, Loop):
        kind, reads, writes = merged(*in_few_rows(part.kind, part.reads, part.writes), fold=False)
        return Link(Part(kind, reads, writes), slots, None)
    return Link(part, slots, row_of(part, cores, rather))


def row_of(part: Part, cores: int, rather: str = "") -> Row[Kind] | None:
    return chosen(part.kind, part.reads, part.writes, cores, rather)
