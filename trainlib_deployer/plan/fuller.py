"""Operations that are joined meet at one place. What the first of them reads waits for it there, and what the last
makes is there earlier: nowhere may that be more than the step took at its fullest moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import accumulate

from trainlib_deployer.plan.layout import Item, tensor_items
from trainlib_deployer.program.ir import Program
from trainlib_deployer.program.lifetimes import Lifetime, lifetimes


def meetings_that_fill(before: Program, after: Program, places: Sequence[int], resident: Set[str]) -> frozenset[int]:
    """Places where operations of `after` should not have met, as the outer level is fuller than it ever was; `places`
    are those of its operations in the step before."""
    end = len(before.ops)
    was = occupied(outside(before, resident), range(end), end)
    most = max(was, default=0)
    items = outside(after, resident)
    full = [at for at, used in enumerate(occupied(items, places, end)) if used > most]
    if not full:
        return frozenset()
    old = lifetimes(before)
    new = {name: on(life, places) for name, life in lifetimes(after).items()}
    waiting = {t.name for item in items for t in item.tensors}
    moved = {at for name in waiting if name in old for at in meetings(old[name], new[name], full)}
    return frozenset(moved or {at for at in full if at in places and after.ops[places.index(at)] is not before.ops[at]})


def meetings(old: Lifetime, new: Lifetime, full: Sequence[int]) -> Iterator[int]:
    """Where a tensor is born, or read for the last time, if it is there at a full moment that it was not there at."""
    if any(new.birth <= at < min(old.birth, new.death) for at in full):
        yield new.birth
    if any(max(old.death, new.birth) <= at < new.death for at in full):
        yield new.death - 1


def outside(program: Program, resident: Set[str]) -> list[Item]:
    return [item for item in tensor_items(program) if item.name not in resident]


def occupied(items: Sequence[Item], places: Sequence[int], end: int) -> list[int]:
    """Bytes at each place."""
    change = [0] * (end + 1)
    for item in items:
        life = on(item.life, places)
        change[life.birth] += item.size
        change[life.death] -= item.size
    return list(accumulate(change[:end]))


def on(life: Lifetime, places: Sequence[int]) -> Lifetime:
    return Lifetime(places[life.birth], places[life.death - 1] + 1)
