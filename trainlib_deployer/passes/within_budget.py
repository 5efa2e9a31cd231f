"""Run operations of the forward pass twice, instead of keeping what they made, until a step fits a budget.

The second run comes just before the result is needed again. It reads what is in memory anyway, or what is kept or made
again for it, so that the bits stay the same. Operations without multiply-adds come first; then those that save the most
bytes for theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.passes.drop_dead import drop_dead, without_dead_results
from trainlib_deployer.passes.reorder import Fullness, Scale, reorder
from trainlib_deployer.program.ir import Op, Program, readers, renamed, writers

ROUNDS = 200
CANDIDATES = 24  # of the largest tensors at the fullest operation, in each round
SUFFIX = ".again"


@dataclass(frozen=True)
class Variant:
    """The program with a few more operations run twice."""

    program: Program
    macs: int
    full: Fullness


def within_budget(program: Program, budget: int, most_macs: int | None = None) -> Program:
    """The program with at most `budget` bytes of transient tensors at once, or as few as can be had."""
    steps = descent(program, most_macs)
    best = next(steps)
    while best.full.peak > budget and (smaller := next(steps, None)) is not None:
        best = smaller
    return program if best.program is program else reorder(best.program)


def descent(program: Program, most_macs: int | None = None) -> Iterator[Variant]:
    """The program as it is, then with more and more run twice, each needing less than the one before."""
    best = Variant(program, 0, Scale.of(program).weigh(program.ops))
    spent = 0
    yield best
    for _ in range(ROUNDS):
        found = choice(best, None if most_macs is None else most_macs - spent)
        if found is None:
            return
        best = found
        spent += found.macs
        yield best


def choice(now: Variant, allowed: int | None) -> Variant | None:
    """The first that is free and helps; else the one with the most bytes saved for its work."""
    paid: list[tuple[float, Variant]] = []
    for program, macs in variants(now.program, now.full):
        if allowed is not None and macs > allowed:
            continue
        if macs and paid and now.full.peak / macs < paid[0][0]:
            continue
        full = Scale.of(program).weigh(program.ops)
        if not full.better(now.full):
            continue
        if macs == 0:
            return Variant(program, 0, full)
        paid.append(((now.full.peak - full.peak + 1) / macs, Variant(program, macs, full)))
    return max(paid, key=lambda p: p[0])[1] if paid else None


def variants(program: Program, full: Fullness) -> Iterator[tuple[Program, int]]:
    """Free ones first, by size; each tensor from what would be kept for it, and from what is there anyway."""
    uses = Uses(program, writers(program), readers(program))
    found: list[tuple[list[Op], str, int]] = []
    for name in sorted(full.live, key=lambda n: (-program.tensors[n].nbytes, n))[:CANDIDATES]:
        later = next((i for i in uses.readers.get(name, []) if i > full.position), None)
        if later is None or full.position in uses.all_of(name) or not in_every_backward(program.ops[later]):
            continue
        shallow = uses.chain(name, later, deep=False)
        deep = uses.chain(name, later, deep=True)
        found += [(c, name, later) for c in (shallow, deep if deep != shallow else None) if c is not None]
    for chain, name, later in sorted(found, key=lambda f: macs_of(f[0]) > 0):
        yield again(program, chain, name, later), macs_of(chain)


def in_every_backward(op: Op) -> bool:
    """Also a product that moves the weight, as there is none where some steps have no update."""
    return op.phase == "backward" or (isinstance(op.kind, MatMul) and op.kind.update)


def macs_of(ops: list[Op]) -> int:
    return sum(op.kind.macs() for op in ops)


def added_macs(program: Program) -> int:
    """Multiply-adds of what runs twice."""
    return macs_of([op for op in program.ops if op.name.endswith(SUFFIX)])


@dataclass(frozen=True)
class Uses:
    """Where tensors are written and read."""

    program: Program
    writers: dict[str, list[int]]
    readers: dict[str, list[int]]

    def all_of(self, name: str) -> list[int]:
        return self.writers.get(name, []) + self.readers.get(name, [])

    def chain(self, name: str, later: int, deep: bool) -> list[Op] | None:
        """What to run again before `later`; with `deep`, also what makes operands that are gone by then."""
        made = self.writers.get(name, [])
        if len(made) != 1 or not repeatable(self.program, self.program.ops[made[0]]):
            return None
        op = self.program.ops[made[0]]
        chain: list[Op] = []
        for operand in dict.fromkeys(v.tensor for v in op.reads):
            if any(made[0] <= p < later for p in self.writers.get(operand, [])):
                return None  # overwritten meanwhile
            gone = not self.program.tensors[operand].role.persistent and max(self.all_of(operand)) < later
            if deep and gone:
                before = self.chain(operand, later, deep)
                if before is None:
                    return None
                chain += [o for o in before if o not in chain]
        return [*chain, op]


def repeatable(program: Program, op: Op) -> bool:
    """Of the forward pass, without an effect on what lives from step to step, nor a result of the step."""
    results = {*program.shown, *(t for _, t in program.gradients)}
    written = [v.tensor for v in op.writes]
    return op.phase == "forward" and not any(program.tensors[n].role.persistent or n in results for n in written)


def again(program: Program, chain: list[Op], name: str, later: int) -> Program:
    """`chain` runs once more before operation `later`; from there on its new result is read."""
    fresh = {v.tensor: unused(program, v.tensor) for op in chain for v in op.writes}
    tensors = dict(program.tensors)
    for old, new in fresh.items():
        tensors[new] = replace(tensors[old], name=new)
    wanted, clones = {fresh[name]}, list[Op]()
    for op in reversed(chain):
        reads, writes = (renamed(views, fresh) for views in (op.reads, op.writes))
        clone = replace(op, name=f"{op.name}{SUFFIX}", phase="backward", reads=reads, writes=writes)
        if any(v.tensor in wanted for v in writes):
            clones.append(without_dead_results(clone, wanted))
            wanted |= {v.tensor for v in clones[-1].reads}
    changed = {name: fresh[name]}
    tail = [replace(op, reads=renamed(op.reads, changed)) for op in program.ops[later:]]
    twice = replace(program, tensors=tensors).with_ops([*program.ops[:later], *reversed(clones), *tail])
    return drop_dead(twice)  # rounded to half precision for the reader that now has its own


def unused(program: Program, name: str) -> str:
    number = 1
    while f"{name}{SUFFIX}{number}" in program.tensors:
        number += 1
    return f"{name}{SUFFIX}{number}"
