"""The plan of a step that works out of L1 while its tensors live in L2.

Small tensors live in L1; everything else streams through it in tiles. Tensors, buffers, scratch and stacks
share one arena a level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf

from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.plan import build
from trainlib_deployer.plan.build import STACKS, Item
from trainlib_deployer.plan.chains import chained
from trainlib_deployer.plan.cycles import untiled_cycles
from trainlib_deployer.plan.early import bring_early, first_bytes
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.tiles import Room, Tiling
from trainlib_deployer.plan.ways import Way, fastest
from trainlib_deployer.program.ir import Program, Role
from trainlib_deployer.program.lifetimes import Lifetime

SMALL = (32, 1024, 4096, 16384, 65536)  # bytes of a tensor that may live in L1: room for tiles, or fewer transfers
SHARE = 8  # ... as long as those that persist take no more than this part of it together
MARGINS = (1.0, 0.9, 0.75, 0.5)  # of the bytes left: what the arena may lose to gaps


def tiled_layout(program: Program, target: Machine) -> Plan | None:
    """Of those that fit, the one that takes the fewest cycles; None where none does."""
    for margin in MARGINS:
        best: tuple[float, int, Plan] | None = None
        for small in SMALL:
            plain = fitting(program, target, small, margin)
            taken = inf if plain is None else cycles(plain)
            if plain is not None and taken < (best[0] if best else inf):
                best = taken, small, plain
            elif best is not None:
                break  # with less room for tiles it gets no better
        if best is not None:
            taken, small, plain = best
            joint = with_chains(plain, small, margin)
            return joint if joint is not None and cycles(joint) < taken else plain
    return None


def fitting(program: Program, target: Machine, small: int, margin: float) -> Plan | None:
    """With tiles that come early if that fits, else without."""
    for early in (True, False):
        found = arranged(program, target, small, margin, early)
        if found is None or build.fits(found):
            return found
    return None


def with_chains(plain: Plan, small: int, margin: float) -> Plan | None:
    """The same step with loops that follow other operations tile by tile; None where there are none."""
    program, target = plain.program, plain.target
    items = build.tensor_items(program)
    here = residents(program, items, small, target)
    left = room_left(program, target, items, here, margin)
    alone = settled(program, here, left, target)
    if alone is None:
        return None
    joint = chained(program, here, left, target, [way.cycles for way in alone])
    return None if joint is program else fitting(joint, target, small, margin)


def cycles(plan: Plan) -> float:
    """Of a step, estimated."""
    return sum(op_cycles(plan, at) for at in range(len(plan.program.ops)))


def op_cycles(plan: Plan, at: int) -> float:
    op = plan.program.ops[at]
    if at in plan.tilings:
        return plan.tilings[at].cycles
    planned = (v for v in (*op.reads, *op.writes) if v.tensor in plan.home)
    far = [v for v in planned if plan.home[v.tensor].level == plan.target.outer.name]
    return untiled_cycles(op, far, plan.target)


def arranged(program: Program, target: Machine, small: int, margin: float, early: bool = False) -> Plan | None:
    end = max(len(program.ops), 1)
    whole = Lifetime(0, end)
    items = build.tensor_items(program)
    here = residents(program, items, small, target)
    kept = build.persistent_items(program)
    far = left_in_l2(program, items, here)
    if build.one_level(target.outer, target.alignment, *far)[0].used > target.outer.size:
        return None  # whatever the tiles
    fixed = [Item(STACKS, target.cores * target.stack_bytes, whole, "stack")]
    left = room_left(program, target, items, here, margin)
    if min(left) < 0:
        return None
    ways = settled(program, here, left, target)
    if ways is None:
        return None
    program = replace(program, ops=[w.op for w in ways])
    found = {at: w.tiling for at, w in enumerate(ways) if w.tiling is not None}
    if early:
        found = bring_early(program, found, [Room(here, capacity, target) for capacity in left])
    buffers = [i for at, t in found.items() for i in stream_items(at, t)]
    scratch = [
        Item(f"scratch {at}", size, Lifetime(at, at + 1), "scratch")
        for at, op in enumerate(program.ops)
        if (size := found[at].scratch if at in found else op.kind.scratch(target.cores))
    ]
    return build.assembled(
        program,
        target,
        [
            ([*fixed, *(k for k in kept if k.name in here)], [*buffers, *scratch, *at_home(items, here, True)]),
            far,
        ],
        found,
    )


def room_left(program: Program, target: Machine, items: list[Item], here: frozenset[str], margin: float) -> list[int]:
    """Bytes of L1 at each operation, beside stacks and what lives there."""
    taken = target.cores * target.stack_bytes
    taken += sum(target.aligned(k.size) for k in build.persistent_items(program) if k.name in here)
    free = target.inner.size - target.inner.reserved - target.aligned(taken)
    return [int(margin * (free - used)) for used in occupied(items, here, max(len(program.ops), 1), target)]


def left_in_l2(program: Program, items: list[Item], here: frozenset[str]) -> tuple[list[Item], list[Item]]:
    """What persists, and what comes and goes."""
    return [k for k in build.persistent_items(program) if k.name not in here], at_home(items, here, False)


def least_l2(program: Program, target: Machine) -> int:
    """Bytes that stay in L2 with as much in L1 as may live there, whether or not the tiles then fit beside it."""
    items = build.tensor_items(program)
    here = residents(program, items, SMALL[0], target)
    return build.one_level(target.outer, target.alignment, *left_in_l2(program, items, here))[0].used


def at_home(items: list[Item], here: frozenset[str], inside: bool) -> list[Item]:
    return [i for i in items if (i.name in here) is inside]


def stream_items(at: int, tiling: Tiling) -> list[Item]:
    """The buffers of one operation's streams, and the record of their transfers."""
    life = Lifetime(at, at + 1)
    longer = life if tiling.host is None else Lifetime(tiling.host, at + 1)
    out = [Item(f"lanes {at}", tiling.lanes, longer, "buffer")]
    for k, s in enumerate(tiling.streams):
        if s.shares is not None:
            continue
        size = first_bytes(s) if s.early else s.nbytes
        out.append(Item(f"tile {at}.{k}", size, longer if s.early else life, "buffer"))
        if size < s.nbytes:
            out.append(Item(f"second {at}.{k}", s.size, life, "buffer"))
    return out


def residents(program: Program, items: list[Item], small: int, machine: Machine) -> frozenset[str]:
    """Tensors that live in L1: the small ones; of those that persist the smallest, up to a share. What is only recorded
    is no concern of a tile's either."""
    free = machine.inner.size - machine.inner.reserved
    chosen = {t.name for i in items if i.size <= small for t in i.tensors}
    chosen |= {t.name for t in program.of_role(Role.RECORDED)}
    persistent = [t for t in program.tensors.values() if t.role.persistent and t.nbytes <= small]
    taken = 0
    for t in sorted(persistent, key=lambda t: (t.nbytes, t.name)):
        taken += machine.aligned(t.nbytes)
        if taken <= free // SHARE:
            chosen.add(t.name)
    return frozenset(chosen)


def occupied(items: list[Item], here: frozenset[str], end: int, machine: Machine) -> list[int]:
    """Bytes of transient residents that are alive at each operation."""
    total = [0] * end
    for item in at_home(items, here, True):
        for at in range(item.life.birth, min(item.life.death, end)):
            total[at] += machine.aligned(item.size)
    return total


def settled(program: Program, here: frozenset[str], left: list[int], machine: Machine) -> list[Way] | None:
    """How each operation runs; None where one does not fit."""
    out = []
    for op, capacity in zip(program.ops, left, strict=False):
        way = fastest(program, op, Room(here, capacity, machine))
        if way is None:
            return None
        out.append(way)
    return out


def traffic(program: Program, found: Mapping[int, Tiling]) -> tuple[int, int]:
    """Bytes that cross between the memories in a step, and the least: each streamed tensor of each operation once."""
    least = 0
    for tiling in found.values():
        once = {(s.tensor, s.writes) for s in tiling.streams if any(m.moves for m in s.moves)}
        least += sum(program.tensors[name].nbytes for name, _ in once)
    return sum(t.moved for t in found.values()), least
