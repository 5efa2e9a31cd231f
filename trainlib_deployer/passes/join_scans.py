"""Scans that do not wait for each other, such as both directions of a layer, as one operation: half of the cores each.

A step of a small scan is little work for many cores: the barrier, code that is fetched and what begins a sum take as
long. By half of the cores each, a core has twice as many units a step, whose sums go together, and there are half as
many steps. Done where that takes fewer cycles, the inner memory holds the weights of both, and the step does not get
fuller, in this order or in another one, or leaves half of its room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.ops.recurrent import Scan, Scans
from trainlib_deployer.passes.reorder import apart, fullest, reorder
from trainlib_deployer.program.ir import DType, Op, Program

WORTH = 0.95  # of the cycles of both, one behind the other
PART = 2  # of the inner memory, for the weights of both


def join_scans(program: Program, machine: Machine) -> Program:
    at, peak = 0, 0
    while at < len(program.ops):
        first, other = program.ops[at], next_alike(program, at, machine)
        if other is not None:
            peak = peak or fullest(program)
            variants = (program.with_ops(ops) for ops in orders(program.ops, at, other))
            best = min(variants, key=fullest, default=program)
            best = best if fullest(best) <= peak else reorder(best)
            program = best if fullest(best) <= max(peak, room(program, machine) // 2) else program
        at += first is program.ops[at]
    return program


def room(program: Program, machine: Machine) -> int:
    """Bytes beside what lasts, where a step lives."""
    lasting = sum(t.nbytes for t in program.tensors.values() if t.role.persistent)
    home = machine.outer if machine.outer.size else machine.inner
    return home.size - home.reserved - lasting


def next_alike(program: Program, at: int, machine: Machine) -> int | None:
    """The next scan of this size, with as many barriers."""
    first = program.ops[at]
    if not isinstance(first.kind, Scan) or not pays(first.kind, machine):
        return None
    for later in range(at + 1, len(program.ops)):
        other = program.ops[later]
        if isinstance(other.kind, Scan) and other.phase == first.phase and size(other.kind) == size(first.kind):
            return later
    return None


def size(scan: Scan) -> Scan:
    return replace(scan, reverse=False, reads=(), halves=())


def pays(scan: Scan, machine: Machine) -> bool:
    """With another one."""
    weights = scan.gates * scan.hidden**2 * DType.F32.size
    if machine.inner.size and 2 * weights * PART > machine.inner.size:
        return False
    cores, costs = machine.cores, machine.costs
    return Scans((scan, scan)).cycles(cores, costs) < WORTH * 2 * scan.cycles(cores, costs)


def orders(ops: Sequence[Op], at: int, other: int) -> Iterator[list[Op]]:
    """Both where the later one is, what waits for the first one behind them; both where the first one is, what the
    later one needs before them."""
    first, second = ops[at], ops[other]
    (_, *waiting), early = apart(first, ops[at + 1 : other + 1])
    if not early or early[-1] is not second:
        return
    both = joint(first, second)
    yield [*ops[:at], *early[:-1], both, *waiting, *ops[other + 1 :]]
    (_, *needed), late = apart(second, reversed(ops[at + 1 : other]))
    yield [*ops[:at], *reversed(needed), both, *reversed(late), *ops[other + 1 :]]


def joint(first: Op, second: Op) -> Op:
    assert isinstance(first.kind, Scan)
    assert isinstance(second.kind, Scan)
    same = first.layer == second.layer
    return replace(
        first,
        kind=Scans((first.kind, second.kind)),
        reads=(*first.reads, *second.reads),
        writes=(*first.writes, *second.writes),
        layer=first.layer if same else "",
        source=first.source if same else None,
        fused=tuple(dict.fromkeys((*(first.fused or (first.name,)), *(second.fused or (second.name,))))),
    )
