"""What lives in the inner level while the rest streams through it, and what that leaves outside."""

from __future__ import annotations

from collections.abc import Sequence

from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.plan.layout import Item, at_home, one_level, persistent_items, tensor_items, under_way
from trainlib_deployer.program.ir import Program, Role
from trainlib_deployer.program.lifetimes import alive

SMALL = (32, 4096, 16384, 65536)  # bytes of a tensor that may live there: room for tiles, or fewer transfers
BESIDE = (32, 1024)  # ... where those that pass by do, too
SUMS = 256  # bytes of a tensor of parts of sums, which always lives there
SHARE = 8  # ... as long as those that persist take no more than this part of it together
PASSING = 4  # operations, one after the other, that a tensor which passes by is there for
PART, FEWER = 4, 6  # ... of such a part of the inner level at most; or less, where large ones are in the way of tiles


def residents(
    program: Program, items: Sequence[Item], small: int, machine: Machine, passing: int = 0
) -> frozenset[str]:
    """The small tensors, perhaps those that pass by as well, of such a part of the inner level at most; of those that
    persist the smallest, up to a share. What is only recorded is no concern of a tile's either."""
    free = machine.inner.size - machine.inner.reserved
    near = [i for i in items if not copied(i)]
    chosen = {t.name for i in near if i.size <= (max(small, SUMS) if of_sums(i) else small) for t in i.tensors}
    if passing:
        chosen |= {t.name for i in near if passes_by(i) and passing * i.size <= machine.inner.size for t in i.tensors}
    chosen |= {t.name for t in program.of_role(Role.RECORDED)}
    there = (t for t in program.tensors.values() if t.role.persistent and t.name not in program.far)
    persistent = [t for t in there if t.nbytes <= small]
    taken = 0
    for t in sorted(persistent, key=lambda t: (t.nbytes, t.name)):
        taken += machine.aligned(t.nbytes)
        if taken <= free // SHARE:
            chosen.add(t.name)
    return frozenset(chosen)


def of_sums(item: Item) -> bool:
    return all(t.role is Role.SCRATCH for t in item.tensors)


def passes_by(item: Item) -> bool:
    """As a gradient does, between the operation that makes it and those that need it."""
    return item.life.death - item.life.birth <= PASSING


def copied(item: Item) -> bool:
    """Is a copy of what is far away in it, which comes no nearer than the outer level?"""
    return any(t.role is Role.COPY for t in item.tensors)


def occupied(items: Sequence[Item], here: frozenset[str], end: int, machine: Machine) -> list[int]:
    """Bytes of transient residents that are alive at each operation."""
    return alive(((i.life, machine.aligned(i.size)) for i in at_home(items, here, True)), end)


def always(program: Program, here: frozenset[str], machine: Machine) -> int:
    """Bytes of the inner level that are never free: stacks, and residents that persist."""
    kept = (machine.aligned(k.size) for k in persistent_items(program) if k.name in here)
    return machine.cores * machine.stack_bytes + sum(kept)


def outer_bytes(program: Program, items: Sequence[Item], here: frozenset[str], machine: Machine) -> int:
    """What the residents leave to the outer level."""
    kept, transient = at_home(persistent_items(program), here, False), at_home(items, here, False)
    return one_level(machine.outer, machine.alignment, kept, [*transient, *under_way(program)])[0].used


def least_l2(program: Program, target: Machine) -> int:
    """With as much in the inner level as may live there, whether or not the tiles then fit beside it."""
    items = tensor_items(program)
    return outer_bytes(program, items, residents(program, items, min(SMALL), target), target)
