"""Offsets for buffers of known lifetime in one arena, as low a peak as can be found.

The most bytes alive at once bound the peak from below. Single passes in several orders reach that bound for most
networks; where they do not, a search closes the gap. All limits count steps, not time: the same problem gets the
same placement on any machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

import numpy as np

from trainlib_deployer.arena import exact
from trainlib_deployer.arena.greedy import Ints, first_fit, live_bytes, orders, repaired, skyline
from trainlib_deployer.arena.search import Outcome, Sections, explore, sections
from trainlib_deployer.machine.sizes import aligned

NODES_PER_SECOND = 25_000  # of the search, on one core
BUFFERS_PER_SECOND = 40_000  # placed in single passes
PASSES = 12  # at the least
SEARCHED = 1_500  # buffers; beyond, only single passes
ORDERS = 4  # ... of so many orders
NEAR = 128  # where intervals are more, so small a part of the bound above it is near enough
KEPT = 8  # placements: settings of a step often leave a level the same buffers


@dataclass(frozen=True)
class Interval:
    """Bytes that are in use at the positions [birth, death)."""

    name: str
    size: int
    birth: int
    death: int


@dataclass(frozen=True)
class Problem:
    """Intervals to place; with a capacity any placement within it will do. The room is what the memory has."""

    intervals: tuple[Interval, ...]
    capacity: int | None = None
    alignment: int = 1
    room: int | None = None


@dataclass(frozen=True)
class Placement:
    """An offset for every interval; `proved` when no placement has a lower peak."""

    offsets: dict[str, int]
    peak: int
    lower_bound: int
    proved: bool
    live_at_peak: tuple[str, ...]
    peak_position: int
    method: str


@dataclass(frozen=True)
class Group:
    """Intervals that overlap in time only among themselves."""

    ids: Ints
    size: Ints
    birth: Ints
    death: Ints

    @property
    def bound(self) -> int:
        return int(live_bytes(self.size, self.birth, self.death)[1].max())


@dataclass(frozen=True)
class Layout:
    """Offsets of a group; no placement of it has a peak below `least`."""

    offset: Ints
    peak: int
    least: int
    method: str


@lru_cache(maxsize=KEPT)
def place(problem: Problem, seconds: float = 1.0) -> Placement:
    """The lowest peak found, in about `seconds` on one core if single passes do not settle it."""
    kept = [i for i in problem.intervals if i.size > 0 and i.death > i.birth]
    offsets = {i.name: 0 for i in problem.intervals}
    if len(offsets) != len(problem.intervals):
        raise ValueError("two intervals of one name")
    if not kept:
        return Placement(offsets, 0, 0, True, (), 0, "empty")
    whole = arrays(kept, problem.alignment)
    times, live = live_bytes(whole.size, whole.birth, whole.death)
    bound, position = int(live.max()), int(times[live.argmax()])
    goal = max(bound, problem.capacity or 0)
    layouts = []
    for group in sorted(split(whole), key=lambda g: -g.bound):
        found = solve(group, enough(group, goal, problem.room), seconds * len(group.ids) / len(kept))
        goal = max(goal, found.peak)
        layouts.append(found)
        offsets |= {kept[i].name: at for i, at in zip(group.ids.tolist(), found.offset.tolist(), strict=True)}
    top = max(layouts, key=lambda layout: layout.peak)
    at_peak = tuple(i.name for i in kept if i.birth <= position < i.death)
    least = max(bound, *(layout.least for layout in layouts))
    method = top.method + (", search exhausted below" if top.peak == least > bound else "")
    return Placement(offsets, top.peak, bound, top.peak == least, at_peak, position, method)


def arrays(intervals: list[Interval], alignment: int) -> Group:
    table = np.array([(aligned(i.size, alignment), i.birth, i.death) for i in intervals], dtype=np.int64)
    return Group(np.arange(len(table)), *(np.ascontiguousarray(column) for column in table.T))


def split(whole: Group) -> list[Group]:
    """Cut where nothing is alive across."""
    order = np.argsort(whole.birth, kind="stable")
    reach = np.maximum.accumulate(whole.death[order])
    cuts = np.flatnonzero(whole.birth[order][1:] >= reach[:-1]) + 1
    return [Group(whole.ids[i], whole.size[i], whole.birth[i], whole.death[i]) for i in np.split(order, cuts)]


def enough(group: Group, goal: int, room: int | None) -> int:
    """Where the search gives up on so many intervals, passes take long, and each the longer: of placements that fit,
    any near the bound will do, and of others, too."""
    if room is None or len(group.ids) <= SEARCHED:
        return goal
    bound = group.bound
    near = bound + bound // NEAR
    return max(goal, near if room < bound else min(near, room))


def solve(group: Group, goal: int, seconds: float) -> Layout:
    best: Layout | None = None
    bound = group.bound
    for method, offset in passes(group, goal, seconds):
        peak = int((offset + group.size).max())
        if best is None or peak < best.peak:
            best = Layout(offset, peak, bound, method)
        if peak <= goal:
            break
    assert best is not None
    if best.peak > goal and len(group.ids) <= SEARCHED:
        best = searched(group, best, goal, seconds)
    return best


def passes(group: Group, goal: int, seconds: float) -> Iterator[tuple[str, Ints]]:
    """Every order both ways, with a few repairs; then more repairs of each. Of many intervals a few orders once: other
    orders find more than repairs do."""
    columns = group.size, group.birth, group.death
    if len(group.ids) > SEARCHED:
        for name, order in islice(orders(*columns), ORDERS):
            yield f"skyline by {name}", skyline(order, *columns)
        return
    limit = max(PASSES, int(seconds * BUFFERS_PER_SECOND / len(group.ids)))
    series = [(name, order, repaired(order, *columns, goal)) for name, order in orders(*columns)]
    for turn, repairs in enumerate((2, 6, 12)):
        for name, order, skylines in series:
            if limit <= 0:
                return
            if not turn:
                yield f"skyline by {name}", next(skylines)
                yield f"first fit by {name}", first_fit(order, *columns)
            for offset in islice(skylines, repairs):
                yield f"skyline by {name}, repaired", offset
            limit -= repairs + (0 if turn else 2)


def searched(group: Group, best: Layout, goal: int, seconds: float) -> Layout:
    """Try the goal itself; as long as steps are left, what lies between it and the best so far."""
    net = sections(group.size, group.birth, group.death)
    unit = int(np.gcd.reduce(group.size))
    budget = int(seconds * NODES_PER_SECOND / (1 + len(net.members) / 5000))
    low, target = best.least - unit, goal // unit * unit
    while target < best.peak and budget > 0:
        outcome, offset, steps, how = attempt(net, target, budget // 2 + 1, seconds if target <= goal else 0.0)
        budget -= steps
        if outcome is Outcome.FOUND:
            best = replace(best, offset=offset, peak=int((offset + group.size).max()), method=how)
            if best.peak <= goal:
                break
        else:
            low = target
            best = replace(best, least=target + unit) if outcome is Outcome.INFEASIBLE else best
        target = max(low + unit, (low + best.peak) // 2 // unit * unit)
    return best


def attempt(net: Sections, target: int, budget: int, seconds: float) -> tuple[Outcome, Ints, int, str]:
    """Search; where that gives up and there are seconds for it, the constraint solver."""
    outcome, offset, steps, how = explore(net, target, budget)
    if outcome is Outcome.GAVE_UP and seconds > 0 and exact.available():
        answer = exact.solve(net, target, seconds)
        if answer is not None:
            return Outcome.FOUND, answer, steps, "constraint solver"
    return outcome, offset, steps, how
