"""Copies between far and near: each is awaited, none is used or overwritten on its way, and each brings what it should.

The listing says what is copied, and when; plan.json which part of which tensor a copy is of.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from trainlib_deployer.emit.listing import Copy, Listing, copy_of, job_awaited

Span = tuple[str, int, int]  # of a far tensor: its name in C, the first byte, the end


@dataclass
class State:
    """Under way by number; of near copies those that hold what they should and those that were written since; which
    bytes of far tensors were written in this step."""

    under_way: dict[int, Copy] = field(default_factory=dict)
    there: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    stored: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))


def wrong_copies(listing: Listing, plan: Mapping[str, Any]) -> Iterator[str]:
    """In words."""
    tensors = {t["c_name"]: t for t in plan["tensors"].values()}
    spans = {name: span_of(t["copy_of"], plan) for name, t in tensors.items() if t.get("copy_of")}
    rows = {name: rows_of(tensors[name]["copy_of"]) for name in spans}
    lasts = last_mentions(listing, spans)
    brings = copies_in(listing)
    state = State()
    ends = {found.stop - 1 for found in listing.functions if len(found)}
    entries = entered_alone([op["phase"] for op in plan["ops"]])
    for at, operation in enumerate(listing.operations):
        if at in entries:
            yield from left_behind(at, state, {n for n, span in spans.items() if tensors[span[0]]["persistent"]})
        copy, job = copy_of(operation), job_awaited(operation)
        names = {plan["tensors"][n]["c_name"] for n in (*plan["ops"][at]["reads"], *plan["ops"][at]["writes"])}
        written = {plan["tensors"][n]["c_name"] for n in plan["ops"][at]["writes"]}
        if copy is not None:
            name = copy.near.home.name
            if rows.get(name) != (copy.row_bytes, copy.rows, copy.pitch):
                yield f"operation {at}: {name} has other rows"
            yield from begun(at, copy, state, spans, tensors)
        elif job is not None:
            yield from ended(at, job, state)
        else:
            yield from used(at, names, written, state, spans)
        for name in lasts.get(at, ()):
            span = spans[name]
            if name in state.changed and (tensors[span[0]]["persistent"] or later(brings[span[0]], at, span)):
                yield f"operation {at} is the last to use {name}, and what was written there goes nowhere"
        if at in ends and state.under_way:
            yield f"operation {at} ends a function with copies {sorted(state.under_way)} under way"


def copies_in(listing: Listing) -> dict[str, list[tuple[int, Span]]]:
    """By far tensor, where they begin, and what they bring."""
    found: dict[str, list[tuple[int, Span]]] = defaultdict(list)
    for at, operation in enumerate(listing.operations):
        copy = copy_of(operation)
        if copy is not None and copy.inward:
            found[copy.far.home.name].append((at, spanned(copy)))
    return found


def later(brings: list[tuple[int, Span]], at: int, span: Span) -> bool:
    """Does any of these copies bring bytes of it behind that operation?"""
    return any(begin > at and overlap(brought, span) for begin, brought in brings)


def entered_alone(phases: Sequence[str]) -> set[int]:
    """Operations that what stands before them need not precede: an evaluation's first, and an update's that comes once
    for several steps."""
    names = ("evaluation", "update") if "accumulate" in phases else ("evaluation",)
    return {phases.index(name) for name in names if name in phases}


def left_behind(at: int, state: State, lasting: set[str]) -> Iterator[str]:
    """Nothing that lasts is in copies alone here, and later operations find none of them."""
    for name in sorted(state.changed & lasting):
        yield f"{name} has not gone back before operation {at}, which need not follow"
    state.there -= lasting


def span_of(entry: Mapping[str, Any], plan: Mapping[str, Any]) -> Span:
    row_bytes, rows, pitch = rows_of(entry)
    begin = int(entry["offset"])
    return plan["tensors"][entry["tensor"]]["c_name"], begin, begin + (rows - 1) * pitch + row_bytes


def rows_of(entry: Mapping[str, Any]) -> tuple[int, int, int]:
    return int(entry["row_bytes"]), int(entry["rows"]), int(entry["pitch"])


def last_mentions(listing: Listing, spans: Mapping[str, Span]) -> dict[int, list[str]]:
    last: dict[str, int] = {}
    for at in range(len(listing.operations)):
        last |= {home.name: at for home in listing.used(at) if home.name in spans}
    out: dict[int, list[str]] = {}
    for name, at in last.items():
        out.setdefault(at, []).append(name)
    return out


def begun(at: int, copy: Copy, state: State, spans: Mapping[str, Span], tensors: Mapping[str, Any]) -> Iterator[str]:
    name = copy.near.home.name
    span = copy.far.home.name, copy.offset, copy.end
    if copy.job in state.under_way:
        yield f"operation {at}: copy {copy.job} is under way already"
    if spans.get(name) != span or copy.near.offset or copy.far.offset:
        yield f"operation {at}: {name} is no copy of bytes {span[1]} to {span[2] - 1} of {span[0]}"
    if any(meet(other, copy) and not (other.inward and copy.inward) for other in state.under_way.values()):
        yield f"operation {at}: {span[0]} is copied while another copy of the same bytes is under way"
    if any(other.near.home.name == name for other in state.under_way.values()):
        yield f"operation {at}: {name} is under way already"
    if copy.inward and not tensors[span[0]]["persistent"] and not covered(copy, state.stored[span[0]]):
        yield f"operation {at}: {span[0]} is brought before all of it was written"
    if not copy.inward and name not in state.there:
        yield f"operation {at}: {name} goes before anything is in it"
    state.under_way[copy.job] = copy


def ended(at: int, job: int, state: State) -> Iterator[str]:
    copy = state.under_way.pop(job, None)
    if copy is None:
        yield f"operation {at} awaits copy {job}, which nothing has started"
        return
    name = copy.near.home.name
    state.changed.discard(name)
    if copy.inward:
        state.there.add(name)
    else:
        state.stored[copy.far.home.name] += ((begin, end) for _, begin, end in rows_copied(copy))


def used(at: int, names: set[str], written: set[str], state: State, spans: Mapping[str, Span]) -> Iterator[str]:
    for copy in state.under_way.values():
        name = copy.near.home.name
        if name in names and (copy.inward or name in written):
            yield f"operation {at} uses {name}, which is under way"
    for name in names & spans.keys():
        if name not in written and name not in state.there:
            yield f"operation {at} reads {name} before anything is in it"
    fresh = written & spans.keys()
    state.there |= fresh
    state.changed |= fresh


def spanned(copy: Copy) -> Span:
    return copy.far.home.name, copy.offset, copy.end


def overlap(one: Span, other: Span) -> bool:
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]


def meet(one: Copy, other: Copy) -> bool:
    """Do they copy a byte of the same tensor both?"""
    if not overlap(spanned(one), spanned(other)):
        return False
    rows = sorted((*rows_copied(one), *rows_copied(other)))
    return any(begin < end for (_, _, end), (_, begin, _) in pairwise(rows))


def rows_copied(copy: Copy) -> list[Span]:
    name, starts = copy.far.home.name, (copy.offset + k * copy.pitch for k in range(copy.rows))
    return [(name, start, start + copy.row_bytes) for start in starts]


def covered(copy: Copy, stored: list[tuple[int, int]]) -> bool:
    """Each of its rows, by stretches of the same tensor, whatever their order."""
    merged: list[list[int]] = []
    for begin, end in sorted(stored):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    starts = [begin for begin, _ in merged]
    places = ((bisect_right(starts, begin) - 1, end) for _, begin, end in rows_copied(copy))
    return all(at >= 0 and end <= merged[at][1] for at, end in places)
