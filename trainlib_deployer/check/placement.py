"""Does a placement hold? A check that shares nothing with the code that finds placements."""

from __future__ import annotations

import bisect
from collections import Counter

from trainlib_deployer.arena.arena import Interval, Placement, Problem


def check_placement(problem: Problem, placement: Placement) -> list[str]:
    """Everything that is wrong, in words; empty when all is well."""
    times = Counter(i.name for i in problem.intervals)
    wrong = [f"{name}: in the problem {count} times" for name, count in times.items() if count > 1]
    wrong += [f"{name}: placed but not in the problem" for name in placement.offsets if name not in times]
    wrong += [f"{i.name}: no offset" for i in problem.intervals if i.name not in placement.offsets]
    if wrong:
        return wrong
    used = [i for i in problem.intervals if i.size > 0 and i.birth < i.death]
    return offsets_wrong(problem, placement) + overlaps(used, placement) + figures_wrong(problem, used, placement)


def offsets_wrong(problem: Problem, placement: Placement) -> list[str]:
    wrong = []
    for name, offset in placement.offsets.items():
        if offset < 0:
            wrong.append(f"{name}: negative offset {offset}")
        if offset % problem.alignment:
            wrong.append(f"{name}: offset {offset} is not a multiple of {problem.alignment}")
    return wrong


def overlaps(used: list[Interval], placement: Placement) -> list[str]:
    """Sweep through time; who is alive lies sorted by offset, so only the neighbours of a newborn can be in its way."""
    wrong: list[str] = []
    alive: list[tuple[int, int, str]] = []  # offset, end, name
    events = [(i.death, 0, i) for i in used] + [(i.birth, 1, i) for i in used]
    for _, born, interval in sorted(events, key=lambda event: event[:2]):
        offset = placement.offsets[interval.name]
        entry = (offset, offset + interval.size, interval.name)
        at = bisect.bisect_left(alive, entry)
        if not born:
            del alive[at]
            continue
        # Those before `at` may reach over each other once one overlap exists, hence all of them.
        below = [a for a in alive[0 if wrong else max(at - 1, 0) : at] if a[1] > offset]
        above = alive[at : bisect.bisect_left(alive, (entry[1],))]
        wrong += [f"{interval.name} and {other[2]}: both use byte {max(offset, other[0])}" for other in below + above]
        alive.insert(at, entry)
    return wrong


def figures_wrong(problem: Problem, used: list[Interval], placement: Placement) -> list[str]:
    """Peak, bound and the list of who is alive there, computed again."""
    wrong = []
    rounded = {i.name: i.size + -i.size % problem.alignment for i in used}
    peak = max((placement.offsets[i.name] + rounded[i.name] for i in used), default=0)
    if placement.peak != peak:
        wrong.append(f"peak {placement.peak}, but the highest byte in use ends at {peak}")
    bound = now = 0
    changes = [(i.birth, rounded[i.name]) for i in used] + [(i.death, -rounded[i.name]) for i in used]
    for _, change in sorted(changes):
        now += change
        bound = max(bound, now)
    if placement.lower_bound != bound:
        wrong.append(f"lower bound {placement.lower_bound}, but at most {bound} bytes are alive at once")
    if peak == bound and not placement.proved:
        wrong.append("peak equals the lower bound, yet not proved")
    if placement.proved and peak > bound and "search exhausted" not in placement.method:
        wrong.append(f"proved, but {peak} is above the lower bound {bound} and no search was exhausted")
    here = placement.peak_position
    alive = {i.name for i in used if i.birth <= here < i.death}
    if alive != set(placement.live_at_peak):
        wrong.append(f"alive at position {here}: {sorted(alive)}, not {sorted(placement.live_at_peak)}")
    if sum(rounded[name] for name in alive) != bound:
        wrong.append(f"position {here} is not where most bytes are alive")
    return wrong
