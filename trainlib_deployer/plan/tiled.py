"""The plan of a step that works out of L1 while its tensors live in L2.

Small tensors live in L1; everything else streams through it in tiles. Tensors, buffers, scratch and stacks
share one arena a level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from math import inf

from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.ops.carry import Transfer
from trainlib_deployer.plan.chains import chained
from trainlib_deployer.plan.cycles import untiled_cycles
from trainlib_deployer.plan.early import bring_early
from trainlib_deployer.plan.layout import (
    FAR,
    STACKS,
    Item,
    assembled,
    fits,
    one_level,
    persistent_items,
    tensor_items,
    under_way,
)
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.tiles import Room, Tiling
from trainlib_deployer.plan.ways import Way, fastest, may_fit
from trainlib_deployer.program.ir import Priced, Program, Role
from trainlib_deployer.program.lifetimes import Lifetime

SMALL = (32, 1024, 4096, 16384, 65536)  # bytes of a tensor that may live in L1: room for tiles, or fewer transfers
SHARE = 8  # ... as long as those that persist take no more than this part of it together
MARGINS = (1.0, 0.9, 0.75, 0.5)  # of the bytes left: what the arena may lose to gaps


@dataclass(frozen=True)
class Setting:
    """What is decided before tiles are: the machine and its team, what lives in the inner level, and the margin."""

    program: Program
    items: tuple[Item, ...]  # what comes and goes in it
    machine: Machine
    small: int  # bytes of a tensor that may live in the inner level
    margin: float

    @cached_property
    def here(self) -> frozenset[str]:
        return residents(self.program, self.items, self.small, self.machine)

    @cached_property
    def far(self) -> tuple[list[Item], list[Item]]:
        """What lives in the outer level: persistent, and coming and going."""
        return left_outside(self.program, self.items, self.here)

    @cached_property
    def left(self) -> list[int]:
        return room_left(self)

    @cached_property
    def ways(self) -> list[Way] | None:
        """How each operation runs; None where one does not fit, or what stays outside does not."""
        machine = self.machine
        if min(self.left) < 0 or outer_bytes(self.far, machine) > machine.outer.size:
            return None
        return settled(self.program, self.here, self.left, machine)


def settings(program: Program, machine: Machine) -> Iterator[list[Setting]]:
    """Those of one margin at a time."""
    items = tuple(tensor_items(program))
    for margin in MARGINS:
        yield [Setting(program, items, machine, small, margin) for small in SMALL]


def tiled_layout(program: Program, target: Machine) -> Plan | None:
    """Of those that fit, the one that takes the fewest cycles; None where none does."""
    for group in settings(program, target):
        best: tuple[float, Setting, Plan] | None = None
        for setting in group:
            plain = fitting(setting)
            taken = inf if plain is None else cycles(plain)
            if plain is not None and taken < (best[0] if best else inf):
                best = taken, setting, plain
            elif best is not None:
                break  # with less room for tiles it gets no better
        if best is not None:
            taken, setting, plain = best
            joint = with_chains(setting)
            return joint if joint is not None and cycles(joint) < taken else plain
        if all(setting.ways is None for setting in group):
            return None  # nor with a larger margin
    return None


def fitting(setting: Setting) -> Plan | None:
    """With tiles that come early if that fits, else without."""
    for early in (True, False):
        found = arranged(setting, early)
        if found is None or fits(found):
            return found
    return None


def with_chains(setting: Setting) -> Plan | None:
    """The same step with loops that follow other operations tile by tile; None where there are none."""
    if setting.ways is None:
        return None
    alone = [way.cycles for way in setting.ways]
    joint = chained(setting.program, setting.here, setting.left, setting.machine, alone)
    if joint is setting.program:
        return None
    return fitting(replace(setting, program=joint, items=tuple(tensor_items(joint))))


def cycles(plan: Plan) -> float:
    """Of a step, estimated."""
    return sum(op_cycles(plan, at) for at in range(len(plan.program.ops)))


def op_cycles(plan: Plan, at: int) -> float:
    """A kernel's code is not at hand when it begins; tiles do not change that."""
    op = plan.program.ops[at]
    if isinstance(op.kind, Transfer):
        return plan.target.links[FAR - 1].asked + op.kind.exposed
    fetched = plan.target.costs.tile.kernel if isinstance(op.kind, Priced) else 0.0
    if at in plan.tilings:
        return plan.tilings[at].cycles + fetched
    planned = (v for v in (*op.reads, *op.writes) if v.tensor in plan.home)
    far = [v for v in planned if plan.home[v.tensor].level == plan.target.outer.name]
    return untiled_cycles(op, far, plan.target) + fetched


def arranged(setting: Setting, early: bool = False) -> Plan | None:
    ways, machine, here = setting.ways, setting.machine, setting.here
    if ways is None:
        return None
    program = replace(setting.program, ops=[w.op for w in ways])
    found = {at: w.tiling for at, w in enumerate(ways) if w.tiling is not None}
    if early:
        found = bring_early(program, found, [Room(here, capacity, machine) for capacity in setting.left])
    stacks = Item(STACKS, machine.cores * machine.stack_bytes, Lifetime(0, max(len(program.ops), 1)), "stack")
    buffers = [i for at, t in found.items() for i in stream_items(at, t)]
    scratch = [
        Item(f"scratch {at}", size, Lifetime(at, at + 1), "scratch")
        for at, op in enumerate(program.ops)
        if (size := found[at].scratch if at in found else op.kind.scratch(machine.cores))
    ]
    kept = [stacks, *(k for k in persistent_items(program) if k.name in here)]
    inside = (kept, [*buffers, *scratch, *at_home(setting.items, here, True)])
    return assembled(program, machine, [inside, setting.far], found)


def room_left(setting: Setting) -> list[int]:
    """Bytes of the inner level at each operation, beside stacks and what lives there."""
    program, machine, here = setting.program, setting.machine, setting.here
    taken = machine.cores * machine.stack_bytes
    taken += sum(machine.aligned(k.size) for k in persistent_items(program) if k.name in here)
    free = machine.inner.size - machine.inner.reserved - machine.aligned(taken)
    used = occupied(setting.items, here, max(len(program.ops), 1), machine)
    return [int(setting.margin * (free - u)) for u in used]


def left_outside(program: Program, items: Sequence[Item], here: frozenset[str]) -> tuple[list[Item], list[Item]]:
    """What persists, and what comes and goes."""
    return [k for k in persistent_items(program) if k.name not in here], at_home(items, here, False)


def outer_bytes(far: tuple[list[Item], list[Item]], machine: Machine) -> int:
    return one_level(machine.outer, machine.alignment, *far)[0].used


def least_l2(program: Program, target: Machine) -> int:
    """Bytes that stay in the outer level with as much in the inner one as may live there, whether or not the tiles then
    fit beside it."""
    items = tensor_items(program)
    kept, transient = left_outside(program, items, residents(program, items, SMALL[0], target))
    return outer_bytes((kept, [*transient, *under_way(program)]), target)


def at_home(items: Sequence[Item], here: frozenset[str], inside: bool) -> list[Item]:
    return [i for i in items if (i.name in here) is inside]


def stream_items(at: int, tiling: Tiling) -> list[Item]:
    """The buffers of one operation's streams, and the record of their transfers."""
    life = Lifetime(at, at + 1)
    longer = life if tiling.host is None else Lifetime(tiling.host, at + 1)
    out = [Item(f"lanes {at}", tiling.lanes, longer, "buffer")]
    for k, s in enumerate(tiling.streams):
        if s.shares is not None:
            continue
        size = s.first_bytes if s.apart else s.nbytes
        out.append(Item(f"tile {at}.{k}", size, longer if s.early else life, "buffer"))
        if s.apart:
            out.append(Item(f"second {at}.{k}", s.size, life, "buffer"))
    return out


def residents(program: Program, items: Sequence[Item], small: int, machine: Machine) -> frozenset[str]:
    """Tensors that live in L1: the small ones; of those that persist the smallest, up to a share. What is only recorded
    is no concern of a tile's either."""
    free = machine.inner.size - machine.inner.reserved
    chosen = {t.name for i in items if i.size <= small and not copied(i) for t in i.tensors}
    chosen |= {t.name for t in program.of_role(Role.RECORDED)}
    there = (t for t in program.tensors.values() if t.role.persistent and t.name not in program.far)
    persistent = [t for t in there if t.nbytes <= small]
    taken = 0
    for t in sorted(persistent, key=lambda t: (t.nbytes, t.name)):
        taken += machine.aligned(t.nbytes)
        if taken <= free // SHARE:
            chosen.add(t.name)
    return frozenset(chosen)


def copied(item: Item) -> bool:
    """Is a copy of what is far away in it, which comes no nearer than the outer level?"""
    return any(t.role is Role.COPY for t in item.tensors)


def occupied(items: Sequence[Item], here: frozenset[str], end: int, machine: Machine) -> list[int]:
    """Bytes of transient residents that are alive at each operation."""
    change = [0] * (end + 1)
    for item in at_home(items, here, True):
        change[min(item.life.birth, end)] += machine.aligned(item.size)
        change[min(item.life.death, end)] -= machine.aligned(item.size)
    return list(accumulate(change[:end]))


def settled(program: Program, here: frozenset[str], left: list[int], machine: Machine) -> list[Way] | None:
    """How each operation runs; None where one does not fit."""
    rooms = [Room(here, capacity, machine) for capacity in left]
    if not all(may_fit(program, op, room) for op, room in zip(program.ops, rooms, strict=False)):
        return None
    out = []
    for op, room in zip(program.ops, rooms, strict=False):
        way = fastest(program, op, room)
        if way is None:
            return None
        out.append(way)
    return out
