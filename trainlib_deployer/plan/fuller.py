"""Operations that are joined meet at one place. What the first of them reads waits for it there, and what the last
makes is there earlier: nowhere may that be more than the step took at its fullest moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from trainlib_deployer.plan.layout import Item, at_home, tensor_items
from trainlib_deployer.program.ir import Program
from trainlib_deployer.program.lifetimes import Lifetime, alive, lifetimes


@dataclass(frozen=True)
class Before:
    """A step as it was, and what of it lives in the inner level."""

    program: Program
    resident: frozenset[str]

    @cached_property
    def most(self) -> int:
        """Bytes of the outer level at its fullest moment."""
        found = ((i.life, i.size) for i in outside(self.program, self.resident))
        return max(alive(found, len(self.program.ops)), default=0)

    @cached_property
    def lives(self) -> dict[str, Lifetime]:
        return lifetimes(self.program)

    def meetings_that_fill(self, after: Program, places: Sequence[int]) -> frozenset[int]:
        """Places where operations of `after` should not have met, as the outer level is fuller than it ever was;
        `places` are those of its operations in the step before."""
        ops, items = self.program.ops, outside(after, self.resident)
        now = alive(((on(i.life, places), i.size) for i in items), len(ops))
        full = [at for at, used in enumerate(now) if used > self.most]
        if not full:
            return frozenset()
        old, new = self.lives, {name: on(life, places) for name, life in lifetimes(after).items()}
        waiting = {t.name for item in items for t in item.tensors}
        moved = {at for name in waiting if name in old for at in meetings(old[name], new[name], full)}
        return frozenset(moved or {at for at in full if at in places and after.ops[places.index(at)] is not ops[at]})


def meetings(old: Lifetime, new: Lifetime, full: Sequence[int]) -> Iterator[int]:
    """Where a tensor is born, or read for the last time, if it is there at a full moment that it was not there at."""
    if any(new.birth <= at < min(old.birth, new.death) for at in full):
        yield new.birth
    if any(max(old.death, new.birth) <= at < new.death for at in full):
        yield new.death - 1


def outside(program: Program, resident: frozenset[str]) -> list[Item]:
    return at_home(tensor_items(program), resident, False)


def on(life: Lifetime, places: Sequence[int]) -> Lifetime:
    return Lifetime(places[life.birth], places[life.death - 1] + 1)
