"""Program and target to Plan: where every byte lives, and whether it fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trainlib_deployer.advice.fit import does_not_fit
from trainlib_deployer.arena.arena import Interval, Placement, Problem, place
from trainlib_deployer.machine.targets import Target
from trainlib_deployer.plan.plan import Buffer, LevelPlan, Plan
from trainlib_deployer.plan.tiles import ALIGNMENT, Tiling, aligned
from trainlib_deployer.program.ir import Program, Tensor
from trainlib_deployer.program.lifetimes import Lifetime, lifetimes, shared_storage

STACKS = "core stacks"


@dataclass(frozen=True)
class Item:
    """Something that needs bytes: a tensor with those that share its storage, scratch, or the stacks."""

    name: str
    size: int
    life: Lifetime
    role: str
    tensors: tuple[Tensor, ...] = ()


def plan(program: Program, target: Target) -> Plan:
    from trainlib_deployer.plan.least import leanest

    chosen = best_layout(program, target)
    if not fits(chosen):
        raise does_not_fit(leanest(program, target), leanest)
    return chosen


def best_layout(program: Program, target: Target) -> Plan:
    """Everything in L1 if it fits there; else tensors in L2, streamed through L1 in tiles; else read from L2."""
    from trainlib_deployer.plan.teams import with_tiles

    direct = untiled(program, target)
    hopeless = direct.levels["L2"].used - target.l1 > target.l2  # whatever moves to L1
    if hopeless or not target.l1 or (fits(direct) and not direct.levels["L2"].used):
        return direct
    return with_tiles(program, direct) or direct


def untiled(program: Program, target: Target) -> Plan:
    """Everything in L1 if it fits there or there is nothing else; else all tensors in L2."""
    everything_in_l1 = layout(program, target, tensors_in="L1")
    if fits(everything_in_l1) or not target.l2:
        return everything_in_l1
    return layout(program, target, tensors_in="L2")


def fits(candidate: Plan) -> bool:
    return all(level.used + level.reserved <= level.size for level in candidate.levels.values())


def layout(program: Program, target: Target, tensors_in: str) -> Plan:
    end = len(program.ops)
    whole = Lifetime(0, max(end, 1))
    kept = persistent_items(program)
    transient = tensor_items(program)
    stacks = Item(STACKS, target.cores * target.stack_bytes, whole, "stack")
    scratch = [
        Item(f"scratch {i}", op.kind.scratch(target.cores), Lifetime(i, i + 1), "scratch")
        for i, op in enumerate(program.ops)
        if op.kind.scratch(target.cores)
    ]
    near = "L1" if target.l1 else "L2"  # beside the cores
    items = {
        name: (
            ([stacks] if name == near else []) + (kept if name == tensors_in else []),
            (scratch if name == near else []) + (transient if name == tensors_in else []),
        )
        for name in ("L1", "L2")
    }
    return assembled(program, target, items, {})


def assembled(
    program: Program,
    target: Target,
    items: Mapping[str, tuple[list[Item], list[Item]]],
    tilings: Mapping[int, Tiling],
) -> Plan:
    """Place what persists and what comes and goes, level by level."""
    levels: dict[str, LevelPlan] = {}
    buffers: list[Buffer] = []
    for name, size, reserved in (("L1", target.l1, target.sdk_l1), ("L2", target.l2, 0)):
        level, placed = one_level(name, size, *items[name])
        levels[name] = replace(level, reserved=reserved)
        buffers += placed
    home = {t: b for b in buffers for t in (b.name, *b.aliases)}
    by_position = {
        int(b.name.partition(" ")[2]): b for b in buffers if b.role == "scratch" and b.name.startswith("scratch ")
    }
    return Plan(program, target, levels, tuple(buffers), home, by_position, home[STACKS], tilings)


def persistent_items(program: Program) -> list[Item]:
    whole = Lifetime(0, max(len(program.ops), 1))
    return [Item(t.name, t.nbytes, whole, t.role.value, (t,)) for t in program.tensors.values() if t.role.persistent]


def tensor_items(program: Program) -> list[Item]:
    lives = lifetimes(program)
    root = shared_storage(program, lives)
    groups: dict[str, list[str]] = {}
    for name in lives:
        groups.setdefault(root[name], []).append(name)
    items = []
    for first, members in groups.items():
        life = Lifetime(min(lives[m].birth for m in members), max(lives[m].death for m in members))
        tensors = tuple(program.tensors[m] for m in (first, *(m for m in members if m != first)))
        items.append(Item(first, max(t.nbytes for t in tensors), life, tensors[0].role.value, tensors))
    return items


def one_level(name: str, size: int, kept: list[Item], transient: list[Item]) -> tuple[LevelPlan, list[Buffer]]:
    placed: list[Buffer] = []
    offset = persistent = 0
    for item in sorted(kept, key=lambda i: i.role == "stack"):
        placed.append(buffer(item, name, offset))
        offset += aligned(item.size)
        persistent = persistent if item.role == "stack" else offset
    problem = Problem(
        tuple(Interval(i.name, aligned(i.size), i.life.birth, i.life.death) for i in transient), alignment=ALIGNMENT
    )
    found = place(problem) if transient else Placement({}, 0, 0, True, (), 0, "empty")
    placed += [buffer(i, name, offset + found.offsets[i.name]) for i in transient]
    stacks = sum(i.size for i in kept if i.role == "stack")
    level = LevelPlan(
        name,
        size,
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
