"""The account of a plan, drawn up once it is taken: of those that are only looked at nobody asks for one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from trainlib_deployer.kernels.row import Row
from trainlib_deployer.machine.costs import TileCosts
from trainlib_deployer.plan.direct import direct_operations
from trainlib_deployer.plan.figures import Account, Carried, Figures, Traffic
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.program.brought import brought_bytes
from trainlib_deployer.program.ir import Kind
from trainlib_deployer.program.series import Series
from trainlib_deployer.program.together import Together


def accounted(plan: Plan) -> Plan:
    direct = direct_operations(plan)
    rows = [rows_of(plan, at) for at in range(len(plan.program.ops))]
    figures = (
        Figures(plan.op_cycles(at) + kernel + loops_at_hand(plan, at), moved_at(plan, at), rows[at], direct.get(at))
        for at, kernel in enumerate(kernels_at_hand(rows, plan.target.costs.tile))
    )
    return replace(plan, account=Account(tuple(figures), traffic(plan), Carried.of(plan.program)))


def kernels_at_hand(rows: Sequence[tuple[Row[Kind], ...]], c: TileCosts) -> Iterator[float]:
    """Of each operation, what fetching its kernel takes more than on average: it has never been called before, or was
    the last one called. Choices between plans do without, as they hardly change it."""
    called: set[Row[Kind]] = set()
    last: tuple[Row[Kind], ...] = ()
    for some in rows:
        yield 0.0 if not some else c.first if some[0] not in called else c.again if some == last else 0.0
        called.update(some)
        last = some or last


def loops_at_hand(plan: Plan, at: int) -> float:
    """The same of several loops in an operation, tile by tile."""
    kind, c = plan.program.ops[at].kind, plan.target.costs.tile
    if isinstance(kind, Together):
        return c.loop_again * (len(kind.loops) - 1)
    if not isinstance(kind, Series):
        return 0.0
    calls, different = sum(map(len, plan.calls[at])), len({stage.loop for stage in kind.stages})
    return c.loop_first * different + c.loop_again * (calls - different)


def moved_at(plan: Plan, at: int) -> int:
    tilings = plan.tilings
    own = tilings[at].moved - tilings[at].early_moved if at in tilings else brought_bytes(plan.program.ops[at].kind)
    return own + sum(tilings[g].early_moved for g in plan.guests.get(at, ()))


def rows_of(plan: Plan, at: int) -> tuple[Row[Kind], ...]:
    found = [link.row for tile in plan.calls[at] for link in tile if link.row is not None]
    return tuple(sorted(dict.fromkeys(found), key=lambda r: -found.count(r)))


def traffic(plan: Plan) -> Traffic:
    """At the least each streamed tensor of each operation crosses once."""
    tilings, tensors = plan.streaming, plan.program.tensors
    least = 0
    for tiling in tilings:
        once = {(s.tensor, s.writes) for s in tiling.streams if any(m.moves for m in s.moves)}
        least += sum(tensors[name].nbytes for name, _ in once)
    transfer, exposed = (sum(each) for each in ([t.cost.transfer for t in tilings], [t.cost.exposed for t in tilings]))
    hidden = round(1 - exposed / transfer, 4) if transfer else 1.0
    return Traffic(plan.moved, least, hidden)
