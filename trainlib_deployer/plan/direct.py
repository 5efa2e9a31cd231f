"""Which operations read and write the outer level themselves instead of copying through the inner one, and why."""

from __future__ import annotations

from trainlib_deployer.ops.carry import Transfer
from trainlib_deployer.plan.best_tiling import Job, prospects
from trainlib_deployer.plan.figures import Direct
from trainlib_deployer.plan.layout import free_bytes
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.tiles import Room
from trainlib_deployer.program.brought import comes_by_itself

INDIVISIBLE, NO_ROOM, FASTER = "indivisible", "no room", "faster"


def direct_operations(plan: Plan) -> dict[int, Direct]:
    """By position. On a machine without an inner level there is nothing to explain."""
    if not plan.target.inner.size:
        return {}
    free = list(free_bytes(plan, plan.inner, 1))
    there = frozenset(name for name, b in plan.home.items() if b.level == plan.inner.name)
    found = {}
    for at, op in enumerate(plan.program.ops):
        own = (v for i, v in enumerate((*op.reads, *op.writes)) if not comes_by_itself(op.kind, i))
        far = [v for v in own if v.tensor in plan.home and v.tensor not in there]
        if far and at not in plan.tilings and not isinstance(op.kind, Transfer):
            names = tuple(dict.fromkeys(v.tensor for v in far))
            known = prospects(Job.of(plan.program, op, Room(there, 0, plan.target)))
            best, taken = known.cheapest(free[at]), round(known.direct)
            tiled = None if best is None else round(best.cycles)
            faster = tiled is not None and tiled >= taken
            why = FASTER if faster else NO_ROOM if known.ways else INDIVISIBLE
            found[at] = Direct(why, names, free[at], known.fewest, taken, tiled)
    return found
