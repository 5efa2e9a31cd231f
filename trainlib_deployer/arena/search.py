"""Branch and bound over placements below a capacity.

Buffers are placed in ascending order of offset, each resting on what lies below it, so `floor` (the least offset
an unplaced buffer can still have) is all the state there is. Pruned are: sections of time whose unplaced bytes no
longer fit above the lowest floor in them; gaps that an unplaced buffer could fill; and all but one order of
buffers with equal lifetimes lying directly upon each other. Whatever falls apart in time is solved separately, and
the failure of one part is the failure of the choice that split it off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
PLACED = 1 << 50  # floor of a buffer that has its place


class Outcome(Enum):
    FOUND = "found"
    INFEASIBLE = "infeasible"
    GAVE_UP = "gave up"


@dataclass(frozen=True)
class Sections:
    """Lifetimes in numbers of sections: maximal stretches of time in which buffers are only born, then only die."""

    size: Ints
    length: Ints  # in positions; the rest is in sections
    birth: Ints
    death: Ints
    neighbours: tuple[Ints, ...]
    members: Ints  # buffers of section 0, then of section 1, ...
    start: Ints  # first member of each section
    total: Ints  # bytes of each section

    @property
    def n(self) -> int:
        return len(self.size)


def sections(size: Ints, birth: Ints, death: Ints) -> Sections:
    """A section opens with the first birth after a death; sections between hold subsets of these."""
    n = len(size)
    events = [(t, 0, i) for i, t in enumerate(death.tolist())] + [(t, 1, i) for i, t in enumerate(birth.tolist())]
    first, last = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    count, dying = 0, True
    for _, born, i in sorted(events):
        count += dying and born == 1
        dying = born == 0
        if born:
            first[i] = count - 1
        else:
            last[i] = count
    order = np.argsort(first, kind="stable")
    neighbours = []
    for i in range(n):
        met = (first < last[i]) & (last > first[i])
        met[i] = False
        neighbours.append(np.flatnonzero(met))
    rows = [order[(first[order] <= s) & (last[order] > s)] for s in range(count)]
    start = np.cumsum([0, *(len(r) for r in rows)])[:-1]
    total = np.array([size[r].sum() for r in rows], dtype=np.int64)
    return Sections(size, death - birth, first, last, tuple(neighbours), np.concatenate(rows), start, total)


@dataclass(frozen=True)
class Strategy:
    """Which buffer comes first where two could lie equally low: most of the first key, then of the next.

    Z size, W lifetime, A their product, S lifetime in sections, B size times that, O buffers it meets, T bytes of
    the fullest section it lives in.
    """

    keys: str
    renew: bool = False  # rank again, with the bytes still unplaced, in every part that falls apart


@dataclass
class Part:
    """Buffers still to be placed that touch no other unplaced ones."""

    ids: Ints  # ascending birth
    floor: Ints
    total: Ints  # unplaced bytes of every section
    rank: Ints
    last: int  # key of the latest placement: keys ascend
    parent: int  # choice that split this part off
    candidates: Sequence[int] = ()
    tried: int = 0


class Search:
    """One descent through the tree of placements, by one strategy."""

    def __init__(self, net: Sections, capacity: int, strategy: Strategy) -> None:
        self.net, self.capacity, self.strategy = net, capacity, strategy
        self.sizes: list[int] = net.size.tolist()
        self.offset = [-1] * net.n
        self.nodes = 0
        everything = np.argsort(net.birth, kind="stable")
        rank = self.ranked(everything, net.total)
        self.twins, self.behind = self.equal_lifetimes(rank)
        self.made: list[tuple[Part, Waiting]] = []  # choices, each with the parts that wait behind it
        ground = np.zeros(net.n, dtype=np.int64)
        start = queue([Part(ids, ground, net.total, rank, -1, -1) for ids in self.split(everything)], None)
        assert start is not None
        self.open(start)

    def equal_lifetimes(self, rank: Ints) -> tuple[list[list[int]], list[list[int]]]:
        """For each buffer those of its lifetime: of its size and lower rank; of any size and higher rank."""
        lives: dict[tuple[int, int], list[int]] = {}
        for i, life in enumerate(zip(self.net.birth.tolist(), self.net.death.tolist(), strict=True)):
            lives.setdefault(life, []).append(i)
        twins: list[list[int]] = [[] for _ in self.sizes]
        later: list[list[int]] = [[] for _ in self.sizes]
        for group in lives.values():
            for i in group:
                twins[i] = [j for j in group if rank[j] < rank[i] and self.sizes[j] == self.sizes[i]]
                later[i] = [j for j in group if rank[j] > rank[i]]
        return twins, later

    def ranked(self, ids: Ints, total: Ints) -> Ints:
        net = self.net
        spanned, length, size = net.death[ids] - net.birth[ids], net.length[ids], net.size[ids]
        columns = []
        for letter in self.strategy.keys:
            if letter == "T":
                spans = zip(net.birth[ids].tolist(), net.death[ids].tolist(), strict=True)
                values = np.array([total[b:d].max() for b, d in spans])
            elif letter == "O":
                values = np.array([len(net.neighbours[i]) for i in ids.tolist()])
            else:
                values = {"Z": size, "W": length, "A": length * size, "S": spanned, "B": spanned * size}[letter]
            columns.append(-values)
        rank = np.full(net.n, net.n - 1, dtype=np.int64)
        rank[ids[np.lexsort((ids, *reversed(columns)))]] = np.arange(len(ids))
        return rank

    def split(self, ids: Ints) -> list[Ints]:
        """Where all earlier buffers have died before the next is born."""
        reach = np.maximum.accumulate(self.net.death[ids])
        cuts = np.flatnonzero(self.net.birth[ids][1:] >= reach[:-1]) + 1
        return np.split(ids, cuts) if len(cuts) else [ids]

    def candidates(self, part: Part) -> list[int]:
        """Keys (floor * n + rank) of all that may come next: none so high that another fits below it."""
        floor = part.floor[part.ids]
        keys = floor * self.net.n + part.rank[part.ids]
        keys = keys[(keys > part.last) & (floor < (floor + self.net.size[part.ids]).min())]
        keys.sort()
        out: list[int] = keys.tolist()
        return out

    def run(self, limit: int) -> Outcome:
        """Search on until as many nodes have been visited. A failed part undoes all choices since its parent."""
        made = self.made
        while True:
            part, waiting = made[-1]
            if part.tried == len(part.candidates):
                if part.parent < 0:
                    return Outcome.INFEASIBLE
                del made[part.parent + 1 :]
                continue
            if self.nodes >= limit:
                return Outcome.GAVE_UP
            part.tried += 1
            rest = self.placed(part, part.candidates[part.tried - 1], len(made) - 1)
            if rest is None:
                continue
            waiting = queue(rest, waiting)
            if waiting is None:
                return Outcome.FOUND
            self.open(waiting)

    def open(self, waiting: tuple[Part, Waiting]) -> None:
        part, behind = waiting
        part.candidates = self.candidates(part)
        self.made.append((part, behind))

    def placed(self, part: Part, key: int, choice: int) -> list[Part] | None:
        """What is left after placing the candidate of this key; None if that leads nowhere."""
        net = self.net
        at, place_in_rank = divmod(key, net.n)
        mine = part.ids[part.rank[part.ids] == place_in_rank]
        i = int(mine[0])
        if self.mirrored(i, at, part.floor):
            return None
        self.nodes += 1
        ids = part.ids[part.ids != i]
        if not len(ids):
            self.offset[i] = at
            return [] if at + self.sizes[i] <= self.capacity else None
        floor, total = part.floor.copy(), part.total.copy()
        near = net.neighbours[i]
        floor[near] = np.maximum(floor[near], at + self.sizes[i])
        floor[i] = PLACED
        total[net.birth[i] : net.death[i]] -= self.sizes[i]
        if not self.hopeful(ids, floor, total, part.rank, key):
            return None
        self.offset[i] = at
        parts = self.split(ids)
        if len(parts) == 1 or not self.strategy.renew:
            return [Part(p, floor, total, part.rank, key, choice) for p in parts]
        last = at * net.n - 1
        return [Part(p, floor, total, self.ranked(p, total), last, choice) for p in parts]

    def mirrored(self, i: int, at: int, floor: Ints) -> bool:
        """Another order of buffers with the lifetime of `i` gives the same or less, and is tried elsewhere."""
        if any(floor[j] < PLACED for j in self.twins[i]):
            return True
        return at > 0 and any(self.offset[j] + self.sizes[j] == at and floor[j] == PLACED for j in self.behind[i])

    def hopeful(self, ids: Ints, floor: Ints, total: Ints, rank: Ints, key: int) -> bool:
        """In every section the unplaced bytes fit above the lowest floor, no lower than the latest placement."""
        net, at = self.net, key // self.net.n
        low, high = int(net.birth[ids[0]]), int(net.death[ids].max())
        end = int(net.start[high]) if high < len(net.start) else len(net.members)
        members, starts = net.members[net.start[low] : end], net.start[low:high] - net.start[low]
        bytes_left = total[low:high]
        top = np.maximum(np.minimum.reduceat(floor[members], starts), at) + bytes_left
        if (top[bytes_left > 0] > self.capacity).any():
            return False
        passed = ids[floor[ids] * net.n + rank[ids] < key].tolist()
        if not passed:
            return True
        # A buffer that was passed over must rest on one yet to be placed.
        tops = np.maximum(floor, at) + net.size
        lifted = floor.copy()
        for j in passed:
            lifted[j] = tops[net.neighbours[j]].min() if len(net.neighbours[j]) else PLACED
        top = np.maximum(np.minimum.reduceat(lifted[members], starts), at) + bytes_left
        return not (top[bytes_left > 0] > self.capacity).any()


Waiting = tuple[Part, "Waiting"] | None


def queue(parts: list[Part], behind: Waiting) -> Waiting:
    for part in reversed(parts):
        behind = (part, behind)
    return behind


STRATEGIES = (
    Strategy("TWA", renew=True),
    Strategy("TWA"),
    Strategy("TSB", renew=True),
    Strategy("TBS"),
    Strategy("OBS"),
    Strategy("SBT"),
)


def explore(net: Sections, capacity: int, budget: int) -> tuple[Outcome, Ints, int, str]:
    """All strategies in turn, each for ever more nodes: which of them is quick no one knows beforehand."""
    searches = [Search(net, capacity, strategy) for strategy in STRATEGIES]
    limit, spent = 2 * net.n, 0
    while spent < budget:
        for search in searches:
            before = search.nodes
            outcome = search.run(min(limit, before + budget - spent))
            spent += search.nodes - before
            if outcome is not Outcome.GAVE_UP:
                how = f"search by {search.strategy.keys}{' renewed' if search.strategy.renew else ''}"
                return outcome, np.array(search.offset, dtype=np.int64), spent, how
        limit *= 3
    return Outcome.GAVE_UP, np.zeros(net.n, dtype=np.int64), spent, ""
