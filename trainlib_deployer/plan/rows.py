"""Which rows of the table of kernels a plan calls."""

from __future__ import annotations

from trainlib_deployer.kernels.row import Row
from trainlib_deployer.plan.plan import Plan


def rows_of(plan: Plan, position: int) -> tuple[Row, ...]:
    """Of one operation, the row of most tiles first; none for generated loops."""
    found = [link.row for tile in plan.calls[position] for link in tile if link.row is not None]
    return tuple(sorted(dict.fromkeys(found), key=lambda r: -found.count(r)))


def rows_called(plan: Plan) -> list[Row]:
    """Of all operations, each once."""
    positions = range(len(plan.program.ops))
    return list(dict.fromkeys(row for position in positions for row in rows_of(plan, position)))
