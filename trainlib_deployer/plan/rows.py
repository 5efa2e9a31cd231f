"""Which rows of the table of kernels a plan calls."""

from __future__ import annotations

from trainlib_deployer.kernels.row import Row
from trainlib_deployer.kernels.table import chosen
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.program.chain import Chain
from trainlib_deployer.program.ir import Part


def rows_of(plan: Plan, position: int) -> tuple[Row, ...]:
    """Of one operation, the row of most tiles first; none for generated loops."""
    op, tiling = plan.program.ops[position], plan.tilings.get(position)
    calls = tiling.parts if tiling else (Part(op.kind, op.reads, op.writes),)
    found = [row for part in calls if (row := row_of(part, plan.target.cores)) is not None]
    return tuple(sorted(dict.fromkeys(found), key=lambda r: -found.count(r)))


def row_of(part: Part, cores: int) -> Row | None:
    """A chain's row is that of its head; what follows are loops."""
    if not isinstance(part.kind, Chain):
        return chosen(part.kind, part.reads, part.writes, cores)
    head, reads, writes = part.kind.links(part.reads, part.writes)[0]
    return chosen(head, reads, writes, cores)


def rows_called(plan: Plan) -> list[Row]:
    """Of all operations, each once."""
    positions = range(len(plan.program.ops))
    return list(dict.fromkeys(row for position in positions for row in rows_of(plan, position)))
