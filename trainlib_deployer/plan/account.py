"""The account of a plan, drawn up once it is taken: of those that are only looked at nobody asks for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from trainlib_deployer.formats import CONVERSIONS
from trainlib_deployer.image.measured import Measured
from trainlib_deployer.kernels.row import Row
from trainlib_deployer.machine.build import CODE
from trainlib_deployer.machine.costs import TileCosts
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.ops.carry import Transfer
from trainlib_deployer.plan.cycles import reading_cycles, work_cycles
from trainlib_deployer.plan.direct import direct_operations
from trainlib_deployer.plan.figures import Account, Carried, Figures, Traffic
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.program.brought import brought_bytes
from trainlib_deployer.program.ir import Kind, Part
from trainlib_deployer.program.loop import Loop, cheap
from trainlib_deployer.program.series import Series
from trainlib_deployer.program.together import Together

Code = Callable[[Row[Kind]], int]  # bytes of its code
USUAL = 1940  # such bytes


def accounted(plan: Plan) -> Plan:
    direct = direct_operations(plan)
    rows = [rows_of(plan, at) for at in range(len(plan.program.ops))]
    kernels = kernels_at_hand(rows, plan.target.costs.tile, code_of(plan.target))
    more = (
        kernel + loops_at_hand(plan, at) + settled(plan, at) - read_once(plan, at) for at, kernel in enumerate(kernels)
    )
    figures = (
        Figures(plan.op_cycles(at) + cycles, moved_at(plan, at), rows[at], direct.get(at))
        for at, cycles in enumerate(more)
    )
    return replace(plan, account=Account(tuple(figures), traffic(plan), Carried.of(plan.program)))


def kernels_at_hand(rows: Sequence[tuple[Row[Kind], ...]], c: TileCosts, code: Code) -> Iterator[float]:
    """Of each operation, what fetching its kernel takes more than on average: it has never been called before, or was
    the last one called. Choices between plans do without, as they hardly change it."""
    called: set[Row[Kind]] = set()
    last: tuple[Row[Kind], ...] = ()
    for some in rows:
        new = bool(some) and some[0] not in called
        yield c.first * min(code(some[0]), c.held) if new else c.again if some and some == last else 0.0
        called.update(some)
        last = some or last


def code_of(machine: Machine) -> Code:
    """Bytes of a kernel and what it calls, if the compiler is known."""
    if machine.build is None:
        return lambda _row: USUAL
    known = Measured.by(machine.build.compiler, frozenset(machine.team.instruction_sets))
    return lambda row: sum(s.size for s in known.needed([row.symbol]) if s.kind == CODE) or USUAL


def settled(plan: Plan, at: int) -> float:
    """What calls take more than shapes alone tell: how operands lie is known of each."""
    cores, costs = plan.target.cores, plan.target.costs
    return sum(
        link.row.settled(*link.part, cores, costs) - work_cycles(link.part, plan.target)
        for tile in plan.calls[at]
        for link in tile
        if link.row is not None and link.row.settled is not None
    )


def read_once(plan: Plan, at: int) -> float:
    """What a kernel that reads the outer level takes less than choices expect, which count the first reading of an
    element beside all others."""
    op = plan.program.ops[at]
    if at in plan.tilings or isinstance(op.kind, Transfer | Together):
        return 0.0
    return min(reading_cycles(Part(op.kind, op.reads, op.writes), plan.outside(at), plan.target))


def loops_at_hand(plan: Plan, at: int) -> float:
    """The same of loops: of several in an operation, tile by tile, of one in tiles, of a short one without, and of what
    functions do for large values."""
    kind, c = plan.program.ops[at].kind, plan.target.costs.tile
    found = sum(plan.target.costs.loop.rarely.get(name, 0.0) for name in functions_of(kind))
    if isinstance(kind, Together):
        found += c.loop_again * (len(kind.loops) - 1)
    elif isinstance(kind, Series):
        calls, different = sum(map(len, plan.calls[at])), len({stage.loop for stage in kind.stages})
        found += c.loop_first * different + c.loop_again * (calls - different)
    elif isinstance(kind, Loop) and at in plan.tilings:
        tiling = plan.tilings[at]
        found += c.loop_stream * len(tiling.streams) + c.loop_tile * (tiling.count - 1)
    elif isinstance(kind, Loop) and is_short(kind):
        found += c.loop_short
    return found


def is_short(kind: Loop) -> bool:
    """What converts has more code."""
    steps = (*kind.body, *kind.post)
    return cheap(steps) and all(s.op not in CONVERSIONS for s in steps)


def functions_of(kind: Kind) -> set[str]:
    """What the loops of an operation call, and all else that they do."""
    if isinstance(kind, Loop):
        loops = [kind]
    elif isinstance(kind, Together):
        loops = [*kind.loops]
    else:
        loops = [stage.loop for stage in kind.stages] if isinstance(kind, Series) else []
    return {step.op for loop in loops for step in (*loop.body, *loop.post)}


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
