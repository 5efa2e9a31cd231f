"""Order the backward pass so that less memory is in use at its fullest.

Operations move towards their readers or their operands, past everything they do not depend on, as long as the most
bytes alive at once falls. What is computed stays the same, and so do the bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, chain, islice

from trainlib_deployer.machine.machine import GROUND
from trainlib_deployer.program.ir import Op, Program
from trainlib_deployer.program.lifetimes import overlaid

ATTEMPTS = 1000  # orders weighed in all, so that large networks stay fast
WEIGHED = 1_000_000  # operations weighed in all, in as many orders as that allows
LARGE = 16  # operations are moved for the sake of tensors above this part of the largest at the peak


@dataclass(frozen=True)
class Fullness:
    """Most bytes alive at once, at how many operations, and where first."""

    peak: int
    count: int
    position: int
    live: tuple[str, ...]

    def better(self, other: Fullness) -> bool:
        return (self.peak, self.count) < (other.peak, other.count)


def reorder(program: Program, with_updates: bool = False) -> Program:
    """`with_updates`: also what is fullest together with the update behind it."""
    scale = Scale.of(program)
    ops = list(program.ops)
    made = max((i for i, op in enumerate(ops) if any(v.tensor == program.loss for v in op.writes)), default=-1)
    backward = next((i for i, op in enumerate(ops) if op.phase in ("backward", "accumulate", "update")), len(ops))
    fixed = first_of_some_steps(ops)
    best = scale.weigh(ops)
    left = attempts(program)
    improved = True
    while improved and left > 0:
        improved = False
        first = max(backward, made + 1)
        early = used_up_early(ops, best.position, first) if with_updates and best.position >= first else ()
        for moved in islice(chain(moves(program, scale, ops, best, first), early), left):
            left -= 1
            if any(a is not b for a, b in zip(moved[fixed:], ops[fixed:], strict=True)):
                continue
            now = scale.weigh(moved)
            if now.better(best):
                ops, best, improved = moved, now, True
                break
    return program.with_ops(ops)


def attempts(program: Program) -> int:
    return min(ATTEMPTS, WEIGHED // max(len(program.ops), 1))


def first_of_some_steps(ops: list[Op]) -> int:
    """Where gradients are accumulated, the updates at the end run in some steps only: nothing moves in or out."""
    if not any(op.phase == "accumulate" for op in ops):
        return len(ops)
    return next((i for i, op in enumerate(ops) if op.phase == "update"), len(ops))


@dataclass(frozen=True)
class Facts:
    """What an operation touches, and which tensors may lie where others lay."""

    touched: tuple[int, ...]
    in_place: tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Scale:
    """Weighs orders of one program's operations; the same rules as program/lifetimes.py, prepared for many orders."""

    facts: dict[int, Facts]  # by the identity of an operation
    numbers: dict[str, int]
    sizes: list[int]
    results: tuple[int, ...]
    names: list[str] = field(default_factory=list)

    @staticmethod
    def of(program: Program, known: Scale | None = None) -> Scale:
        """`known` is that of a program which shares most of its operations."""
        lives = {n: i for i, n in enumerate(n for n, t in program.tensors.items() if t.role.comes_and_goes)}
        old = {} if known is None or known.names[: len(lives)] != list(lives)[: len(known.names)] else known.facts
        facts = {id(op): old.get(id(op)) or facts_of(program, op, lives) for op in program.ops}
        sizes = [-(-program.tensors[n].nbytes // GROUND) * GROUND for n in lives]
        results = program.shown
        return Scale(facts, lives, sizes, tuple(lives[n] for n in results if n in lives), list(lives))

    def weigh(self, ops: list[Op]) -> Fullness:
        facts = [self.facts[id(op)] for op in ops]
        count = len(self.sizes)
        birth, last = [-1] * count, [-1] * count
        order = []
        for at, f in enumerate(facts):
            for tensor in f.touched:
                if birth[tensor] < 0:
                    birth[tensor] = at
                    order.append(tensor)
                last[tensor] = at
        for tensor in self.results:
            if last[tensor] >= 0:
                last[tensor] = len(ops) - 1
        root = shared(facts, birth, last)
        change = [0] * (len(ops) + 1)
        for tensor in order:
            if root[tensor] == tensor:
                change[birth[tensor]] += self.sizes[tensor]
                change[last[tensor] + 1] -= self.sizes[tensor]
        alive = list(accumulate(change))
        peak = max(alive)
        position = alive.index(peak)
        live = tuple(self.names[t] for t in order if birth[t] <= position <= last[t])
        return Fullness(peak, alive.count(peak), position, live)


def facts_of(program: Program, op: Op, lives: dict[str, int]) -> Facts:
    touched = tuple(dict.fromkeys(lives[v.tensor] for v in (*op.writes, *op.reads) if v.tensor in lives))
    found = ((v, donors) for v, donors in overlaid(program, op, lives) if v.tensor in lives)
    return Facts(touched, tuple((lives[v.tensor], tuple(lives[d] for d in donors)) for v, donors in found))


def shared(facts: list[Facts], birth: list[int], last: list[int]) -> list[int]:
    """Tensor to the one whose bytes it takes over; `last` of that one grows."""
    root = list(range(len(birth)))
    for at, f in enumerate(facts):
        if not f.in_place:
            continue
        taken: set[int] = set()
        for target, candidates in f.in_place:
            if birth[target] != at:
                continue
            donor = next((root[d] for d in candidates if last[root[d]] == at and root[d] not in taken), None)
            if donor is not None:
                root[target] = donor
                taken.add(donor)
                last[donor] = max(last[donor], last[target])
    return root


def moves(program: Program, scale: Scale, ops: list[Op], full: Fullness, first: int) -> Iterator[list[Op]]:
    """Orders in which one large tensor is no longer, or not yet, there at the fullest operation."""
    uses: dict[int, list[int]] = {}
    for at, op in enumerate(ops):
        for tensor in scale.facts[id(op)].touched:
            uses.setdefault(tensor, []).append(at)
    live = sorted(full.live, key=lambda n: (-program.tensors[n].nbytes, n))
    smallest = program.tensors[live[0]].nbytes // LARGE if live else 0
    for name in (n for n in live if program.tensors[n].nbytes >= smallest):
        users = uses[scale.numbers[name]]
        made, last = users[0], users[-1]
        if first <= made <= full.position:  # make it later
            yield from pulled(ops, made, full.position + 1)
            if len(users) > 1:
                yield from pulled(ops, made, users[1])
        if last >= full.position and users[-2:-1] and users[-2] < full.position:  # read it earlier
            yield from pushed(ops, last, max(full.position, first))
        if full.position >= first:
            yield from pulled(ops, full.position, last + 1)


def pulled(ops: list[Op], at: int, to: int) -> Iterator[list[Op]]:
    """The operation at `at`, and what must stay behind it, moved just before `to`."""
    later, rest = apart(ops[at], ops[at + 1 : to])
    if rest:
        yield [*ops[:at], *rest, *later, *ops[to:]]


def pushed(ops: list[Op], at: int, to: int) -> Iterator[list[Op]]:
    """The operation at `at`, and what must stay before it, moved to `to`."""
    earlier, rest = apart(ops[at], reversed(ops[to:at]))
    if rest:
        yield [*ops[:to], *reversed(earlier), *reversed(rest), *ops[at + 1 :]]


def used_up_early(ops: list[Op], at: int, first: int) -> Iterator[list[Op]]:
    """The operation at `at` and the update right behind it that uses up what it makes, each moved to what it waits for:
    alone, what it makes would be there for longer."""
    made = {v.tensor for v in ops[at].writes}
    behind = ops[at + 1] if at + 1 < len(ops) else None
    if behind is None or behind.phase != "update" or made.isdisjoint(v.tensor for v in behind.reads):
        return
    for moved in pushed(ops, at, earliest(ops, at, first)):
        yield from pushed(moved, at + 1, earliest(moved, at + 1, first))


def earliest(ops: list[Op], at: int, first: int) -> int:
    """Where the operation at `at` may go past all that lies between."""
    to = at
    while to > first and len(apart(ops[at], [ops[to - 1]])[0]) == 1:
        to -= 1
    return to


def apart(mover: Op, others: Iterable[Op]) -> tuple[list[Op], list[Op]]:
    """Those that must keep their place relative to the mover, which they follow, and those that it may pass."""
    moved = [mover]
    reads, writes = {v.tensor for v in mover.reads}, {v.tensor for v in mover.writes}
    rest: list[Op] = []
    for op in others:
        read, written = {v.tensor for v in op.reads}, {v.tensor for v in op.writes}
        if writes.isdisjoint(read) and writes.isdisjoint(written) and reads.isdisjoint(written):
            rest.append(op)
        else:
            moved.append(op)
            reads |= read
            writes |= written
    return moved, rest


def fullest(program: Program) -> int:
    """Bytes at the fullest operation."""
    return Scale.of(program).weigh(program.ops).peak
