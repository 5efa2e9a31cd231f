"""What needs bytes, and where it lies: items to levels, levels to a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainlib_deployer.arena.arena import Interval, Placement, Problem, place
from trainlib_deployer.machine.machine import Machine, Memory
from trainlib_deployer.machine.sizes import aligned
from trainlib_deployer.ops.carry import JOB_BYTES, ORDER_BYTES, ORDERS, ORDERS_AT_HAND, Carry
from trainlib_deployer.plan.found import Place, last_uses
from trainlib_deployer.plan.plan import Buffer, LevelPlan, Plan
from trainlib_deployer.plan.tiles import Tiling
from trainlib_deployer.plan.ways import slim_way
from trainlib_deployer.program.ir import Program, Tensor
from trainlib_deployer.program.lifetimes import Lifetime, alive, lifetimes, shared_storage

STACKS, UNDER_WAY = "core stacks", "copies under way"
AT_HAND = "orders at hand"
INNER, OUTER, FAR = 0, 1, 2  # levels of a machine


@dataclass(frozen=True)
class Item:
    """Something that needs bytes: a tensor with those that share its storage, scratch, or the stacks."""

    name: str
    size: int
    life: Lifetime
    role: str
    tensors: tuple[Tensor, ...] = ()


def untiled(program: Program, target: Machine) -> Plan:
    """Everything in L1 if it fits there or there is nothing else; else all tensors in L2. A machine of one memory takes
    kernels with less scratch where that is short."""
    whole = None if program.far else layout(program, target, INNER)
    if whole and (fits(whole) or not target.outer.size):
        return whole
    found = layout(program, target, OUTER)
    return found if fits(found) or target.inner.size else layout(slimmed(found), target, OUTER)


def slimmed(plan: Plan) -> Program:
    """Each operation with the most scratch that there is room for beside the tensors, or else with the least."""
    ops, cores = plan.program.ops, plan.target.cores
    rooms = free_bytes(plan, plan.outer, plan.target.alignment)
    return plan.program.with_ops([slim_way(op, cores, room) for op, room in zip(ops, rooms, strict=True)])


def free_bytes(plan: Plan, level: LevelPlan, alignment: int) -> Iterator[int]:
    """Of a level at each operation, its own scratch not counted; what lies there is rounded up so."""
    there = (b for b in plan.buffers if b.level == level.name and b.role != "scratch")
    lives = ((Lifetime(max(b.birth, 0), b.death), aligned(b.size, alignment)) for b in there)
    yield from (level.size - level.reserved - taken for taken in alive(lives, len(plan.program.ops)))


def fits(candidate: Plan) -> bool:
    return all(level.fits for level in candidate.levels.values())


def layout(program: Program, target: Machine, level: int) -> Plan:
    """All tensors in one level."""
    here = frozenset(program.tensors) if level == INNER else frozenset[str]()
    return arranged(program, target, tensor_items(program), here, {})


def arranged(
    program: Program,
    machine: Machine,
    items: Sequence[Item],
    here: frozenset[str],
    tilings: Mapping[int, Tiling],
) -> Plan:
    """Tensors in the inner level, if they are `here`, or in the outer one; stacks, scratch and tiles beside the
    cores."""
    whole = Lifetime(0, max(len(program.ops), 1))
    stacks = Item(STACKS, machine.cores * machine.stack_bytes, whole, "stack")
    until = last_uses(tilings)
    buffers = [i for at, t in tilings.items() for i in stream_items(at, t, until)]
    scratch = [
        Item(f"scratch {at}", size, Lifetime(at, at + 1), "scratch")
        for at, op in enumerate(program.ops)
        if (size := tilings[at].scratch if at in tilings else op.kind.scratch(machine.cores))
    ]
    persistent = persistent_items(program)
    levels = [(at_home(persistent, here, inside), at_home(items, here, inside)) for inside in (True, False)]
    near = machine.memories.index(machine.near)
    kept, transient = levels[near]
    levels[near] = [stacks, *kept], [*buffers, *scratch, *transient]
    return assembled(program, machine, levels, tilings)


def at_home(items: Sequence[Item], here: frozenset[str], inside: bool) -> list[Item]:
    return [i for i in items if (i.name in here) is inside]


def stream_items(at: int, tiling: Tiling, until: Mapping[Place, int]) -> list[Item]:
    """The buffers of one operation's streams, and the record of their transfers; `until` has the ends of buffers in
    which others find their tiles."""
    life = Lifetime(at, at + 1)
    birth = at if tiling.host is None else tiling.host
    death = at + 1 if tiling.lingers is None else at + 2
    out = [Item(f"lanes {at}", tiling.lanes, Lifetime(birth, death), "buffer")]
    for k, s in enumerate(tiling.streams):
        if s.shares is not None or s.found is not None:
            continue
        size = s.first_bytes if s.apart else s.nbytes
        there = Lifetime(birth if s.early else at, until.get((at, k), at + 1))
        out.append(Item(f"tile {at}.{k}", size, there, "buffer"))
        if s.apart:
            out.append(Item(f"second {at}.{k}", s.size, life, "buffer"))
    return out


def far_items(program: Program, tilings: Mapping[int, Tiling] | None = None) -> list[tuple[list[Item], list[Item]]]:
    """What lives behind the outer level, if anything does: tensors, and an order for each operation and for first tiles
    that come early."""
    if not program.far:
        return []
    early = sum(t.host is not None for t in (tilings or {}).values())
    orders = always_there(program, ORDERS, (len(program.ops) + early) * ORDER_BYTES)
    return [([*persistent_items(program, far=True), orders], tensor_items(program, far=True))]


def under_way(program: Program) -> list[Item]:
    """The record of copies that are under way, and the orders that come next."""
    jobs = [op.kind.job for op in program.ops if isinstance(op.kind, Carry)]
    if not jobs:
        return []
    orders = always_there(program, AT_HAND, ORDERS_AT_HAND * ORDER_BYTES)
    return [always_there(program, UNDER_WAY, (max(jobs) + 1) * JOB_BYTES), orders]


def always_there(program: Program, name: str, size: int) -> Item:
    return Item(name, size, Lifetime(0, max(len(program.ops), 1)), "buffer")


def assembled(
    program: Program,
    target: Machine,
    items: list[tuple[list[Item], list[Item]]],
    tilings: Mapping[int, Tiling],
) -> Plan:
    """Place what persists and what comes and goes, level by level: `items` of the first two."""
    levels: dict[str, LevelPlan] = {}
    buffers: list[Buffer] = []
    found = [*items, *far_items(program, tilings)]
    found[OUTER] = found[OUTER][0], [*found[OUTER][1], *under_way(program)]
    for memory, (kept, transient) in zip(target.memories[: len(found)], found, strict=True):
        levels[memory.name], placed = one_level(memory, target.alignment, kept, transient)
        buffers += placed
    home = {t: b for b in buffers for t in (b.name, *b.aliases)}
    by_position = {
        int(b.name.partition(" ")[2]): b for b in buffers if b.role == "scratch" and b.name.startswith("scratch ")
    }
    return Plan(program, target, levels, tuple(buffers), home, by_position, home[STACKS], tilings)


def persistent_items(program: Program, far: bool = False) -> list[Item]:
    whole = Lifetime(0, max(len(program.ops), 1))
    there = (t for t in program.tensors.values() if t.role.persistent and (t.name in program.far) is far)
    return [Item(t.name, t.nbytes, whole, t.role.value, (t,)) for t in there]


def tensor_items(program: Program, far: bool = False) -> list[Item]:
    lives = lifetimes(program)
    root = shared_storage(program, lives)
    groups: dict[str, list[str]] = {}
    for name in lives:
        groups.setdefault(root[name], []).append(name)
    items = []
    for first, members in groups.items():
        if (first in program.far) is not far:
            continue
        life = Lifetime(min(lives[m].birth for m in members), max(lives[m].death for m in members))
        tensors = tuple(program.tensors[m] for m in (first, *(m for m in members if m != first)))
        items.append(Item(first, max(t.nbytes for t in tensors), life, tensors[0].role.value, tensors))
    return items


def one_level(
    memory: Memory, alignment: int, kept: list[Item], transient: list[Item]
) -> tuple[LevelPlan, list[Buffer]]:
    placed: list[Buffer] = []
    offset = persistent = 0
    for item in sorted(kept, key=lambda i: i.role == "stack"):
        placed.append(buffer(item, memory.name, offset))
        offset += aligned(item.size, alignment)
        persistent = persistent if item.role == "stack" else offset
    problem = Problem(
        tuple(Interval(i.name, aligned(i.size, alignment), i.life.birth, i.life.death) for i in transient),
        alignment=alignment,
        room=memory.size - memory.reserved - offset,
    )
    found = place(problem) if transient else Placement({}, 0, 0, True, (), 0, "empty")
    placed += [buffer(i, memory.name, offset + found.offsets[i.name]) for i in transient]
    stacks = sum(i.size for i in kept if i.role == "stack")
    level = LevelPlan(
        memory.name,
        memory.size,
        used=offset + found.peak,
        persistent=persistent,
        arena=offset - persistent + found.peak,
        peak_live=offset + found.lower_bound,
        lower_bound=offset + found.lower_bound,
        peak_position=found.peak_position,
        live_at_peak=tuple(found.live_at_peak),
        stacks=stacks,
        proved=found.proved,
        method=found.method,
        reserved=memory.reserved,
    )
    return level, placed


def buffer(item: Item, level: str, offset: int) -> Buffer:
    first = item.tensors[0] if item.tensors else None
    return Buffer(
        item.name,
        level,
        offset,
        item.size,
        item.life.birth,
        item.life.death,
        item.role,
        first.layer if first else "",
        tuple(t.name for t in item.tensors[1:]),
        first.source if first else None,
    )
