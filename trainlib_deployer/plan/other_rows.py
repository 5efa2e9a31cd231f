"""The same tiles by other kernels of the same bits: what may be measured to be faster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from trainlib_deployer.kernels.row import Row
from trainlib_deployer.kernels.table import fitting
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.plan.links import separate
from trainlib_deployer.plan.tiles import Tiling
from trainlib_deployer.program.ir import Kind, Part
from trainlib_deployer.program.loop import Loop

Rows = tuple[Part, list[Row[Kind]]]


def by_other_rows(tiling: Tiling, machine: Machine) -> Iterator[Tiling]:
    """One for each row that its calls may take, but for those that they do take."""
    cores, alike = machine.cores, Counter(tiling.tiles.first_alike)
    calls = [(n, part, rows) for tile, n in alike.items() for part, rows in rows_of(tiling, tile, cores)]
    taken = {rows[0] for _, _, rows in calls}
    for row in dict.fromkeys(row for _, _, rows in calls for row in rows if row not in taken):
        its = [(n, part.kind, rows[0]) for n, part, rows in calls if row in rows]
        scratch = max(tiling.scratch, *(row.scratch(kind, cores) for _, kind, _ in its))
        more = sum(n * (row.cycles(k, cores, machine.costs) - r.cycles(k, cores, machine.costs)) for n, k, r in its)
        cost = replace(tiling.cost, cycles=tiling.cycles + max(more, 0.0))
        yield replace(tiling, row=row.symbol, scratch=scratch, cost=cost)


def rows_of(tiling: Tiling, tile: int, cores: int) -> Iterator[Rows]:
    """Of each call of a tile those of the arithmetic that it has."""
    for part, _ in separate(tiling.parts[tile], tiling.of_operand):
        found = [] if isinstance(part.kind, Loop) else fitting(part.kind, part.reads, part.writes, cores)
        if found:
            yield part, [row for row in found if row.arithmetic == found[0].arithmetic]
