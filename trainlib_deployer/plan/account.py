"""The account of a plan, drawn up once it is taken: of those that are only looked at nobody asks for one."""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.kernels.row import Row
from trainlib_deployer.plan.direct import direct_operations
from trainlib_deployer.plan.figures import Account, Carried, Figures, Traffic
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.program.brought import brought_bytes
from trainlib_deployer.program.ir import Kind


def accounted(plan: Plan) -> Plan:
    direct = direct_operations(plan)
    figures = (
        Figures(plan.op_cycles(at), moved_at(plan, at), rows_of(plan, at), direct.get(at))
        for at in range(len(plan.program.ops))
    )
    return replace(plan, account=Account(tuple(figures), traffic(plan), Carried.of(plan.program)))


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
