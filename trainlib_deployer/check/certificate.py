"""The certificate: the memory plan, checked against what the C says.

The listing (emit/listing.py), from which the C is written, says who is used when and where it lies. Lifetimes,
overlaps, peak and lower bound are computed again from it. Nothing here shares code or data with the planner; tensor
sizes, and which operands an operation writes, come from the program in plan.json.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from trainlib_deployer.check.apart import unmet
from trainlib_deployer.check.bounds import beyond
from trainlib_deployer.check.copies import wrong_copies
from trainlib_deployer.check.early import too_early
from trainlib_deployer.check.in_place import in_place, overlaid
from trainlib_deployer.check.lingering import astray
from trainlib_deployer.check.streams import missing, outside, overtaken
from trainlib_deployer.emit.listing import Listing
from trainlib_deployer.folder import PLAN, stored_plan

GROUND = 16  # bytes that every buffer begins at, whatever a plan claims: stacks and C's own objects need it


class CertificateError(RuntimeError):
    """The planner or the writer of C is wrong: never the user's mistake."""


@dataclass(frozen=True)
class Stretch:
    """Bytes [begin, end) of a level, in use at the operations [birth, death)."""

    name: str
    level: str
    begin: int
    end: int
    birth: int
    death: int


@dataclass(frozen=True)
class Level:
    """What the check finds for one memory, to compare with what the plan claims."""

    peak: int
    lower_bound: int


@dataclass(frozen=True)
class Emitted:
    """What the C of a project is written from, and plan.json."""

    listing: Listing
    plan: Mapping[str, Any]

    @staticmethod
    def read(folder: Path, listing: Listing) -> Emitted:
        return Emitted(listing, stored_plan(folder))

    @cached_property
    def tensors(self) -> set[str]:
        """Their C names."""
        return {t["c_name"] for t in self.plan["tensors"].values()}

    @cached_property
    def sizes(self) -> dict[str, int]:
        """C name to bytes: of tensors from their shapes, of everything else as planned."""
        other = {name: place.size for name, place in self.listing.places.items()}
        return other | {t["c_name"]: int(t["bytes"]) for t in self.plan["tensors"].values()}

    def astray(self) -> list[str]:
        """Pointers into another level than the one where the plan puts the tensor."""
        places, step = self.listing.places, range(len(self.listing.operations))
        uses = {h for at in step for h in self.listing.used(at)} | {*self.listing.kept}
        wrong = sorted((h.name, h.level) for h in uses if places[h.name].level != h.level)
        return [f"{name}: used in {level}, planned in {places[name].level}" for name, level in wrong]


def check_folder(folder: Path, listing: Listing) -> dict[str, Level]:
    """Raises CertificateError unless the plan holds; notes in plan.json that it was checked."""
    found, wrong = check(Emitted.read(folder, listing))
    if wrong:
        raise CertificateError("the memory plan does not hold:\n  " + "\n  ".join(wrong[:20]))
    path = folder / PLAN
    path.write_text(path.read_text().replace('"checked": false', '"checked": true'))
    return found


def check(emitted: Emitted) -> tuple[dict[str, Level], list[str]]:
    """Peak and bound of every level, and everything that is wrong, in words."""
    wrong = emitted.astray()
    stretches = lifetimes(emitted, wrong)
    partners: dict[str, str] = {}
    for first, second in clashes(stretches):
        if follows(emitted, first, second):
            partners[second.name] = first.name
        else:
            at = max(first.birth, second.birth)
            wrong.append(
                f"operation {at}: {first.name} and {second.name} both use byte {max(first.begin, second.begin)}"
            )
    wrong += short_lives(emitted, stretches)
    wrong += too_early(emitted.listing, emitted.plan)
    wrong += astray(emitted.listing, emitted.plan)
    wrong += outside(emitted.listing, emitted.sizes)
    wrong += beyond(emitted.listing, emitted.sizes)
    wrong += missing(emitted.listing)
    wrong += overtaken(emitted.listing)
    wrong += overlaid(emitted.listing)
    wrong += unmet(emitted.listing)
    wrong += wrong_copies(emitted.listing, emitted.plan)
    levels = {name: figures(name, stretches, partners) for name in emitted.plan["levels"]}
    for name, level in levels.items():
        wrong += compare(name, level, emitted)
    return levels, wrong


def lifetimes(emitted: Emitted, wrong: list[str]) -> list[Stretch]:
    """First to last operation that mentions each; what the interface hands out lives to the end of the step."""
    listing, end = emitted.listing, max(len(emitted.listing.operations), 1)
    spans: dict[str, tuple[int, int]] = {}
    for at in range(len(listing.operations)):
        for home in listing.used(at):
            spans[home.name] = (spans.get(home.name, (at, at))[0], at + 1)
    for home in listing.kept:
        if home.name in spans:
            spans[home.name] = (spans[home.name][0], end)
    wrong += unwritten(emitted, spans)
    spans |= {t["c_name"]: (0, end) for t in emitted.plan["tensors"].values() if t["persistent"]}
    for name, place in listing.places.items():  # stacks and the like: what no operation names
        if name not in emitted.tensors:
            spans.setdefault(name, (place.birth, place.death))
    found, alignment = [], int(emitted.plan["target"]["alignment"])
    if alignment <= 0 or alignment % GROUND:
        raise CertificateError(f"an alignment of {alignment} bytes: at least {GROUND}, and multiples of it, are needed")
    for name, (birth, death) in spans.items():
        place = listing.places[name]
        size = -(-emitted.sizes[name] // alignment) * alignment
        found.append(Stretch(name, place.level, place.offset, place.offset + size, birth, death))
        if place.offset % alignment:
            wrong.append(f"{name}: offset {place.offset} is not a multiple of {alignment}")
    return found


def short_lives(emitted: Emitted, stretches: list[Stretch]) -> list[str]:
    """Buffers that are used before or after the plan says, whether or not another one is in the way."""
    wrong = []
    for s in stretches:
        claim = emitted.listing.places[s.name]
        if not claim.birth <= s.birth < s.death <= claim.death:
            planned = f"planned for {claim.birth} to {claim.death - 1}"
            wrong.append(f"{s.name}: used in operations {s.birth} to {s.death - 1}, {planned}")
    return wrong


def unwritten(emitted: Emitted, spans: Mapping[str, tuple[int, int]]) -> list[str]:
    """Tensors whose first use is not a write: they would be read before they exist."""
    wrong = []
    for name, tensor in emitted.plan["tensors"].items():
        span = spans.get(tensor["c_name"])
        there = tensor["bytes"] and not tensor["persistent"]
        if span and there and name not in emitted.plan["ops"][span[0]]["writes"]:
            wrong.append(f"operation {span[0]}: {name} is read before anything writes it")
    return wrong


def clashes(stretches: list[Stretch]) -> Iterator[tuple[Stretch, Stretch]]:
    """Pairs that share bytes at some operation, the older first."""
    rows = sorted(stretches, key=lambda s: (s.birth, s.death))
    begin, end, birth, death = np.array([(s.begin, s.end, s.birth, s.death) for s in rows], dtype=np.int64).T
    levels = sorted({s.level for s in rows})
    level = np.array([levels.index(s.level) for s in rows])
    behind = np.searchsorted(birth, death).tolist()
    for i, row in enumerate(rows):
        rest = slice(i + 1, behind[i])  # those that are born as long as it lives
        both = (begin[rest] < row.end) & (end[rest] > row.begin) & (death[rest] > row.birth)
        for j in np.flatnonzero(both & (level[rest] == level[i])).tolist():
            yield row, rows[i + 1 + j]


def follows(emitted: Emitted, old: Stretch, new: Stretch) -> bool:
    """True when one operation reads the last of `old` and writes the first of `new` over it, element by element."""
    if old.death - 1 != new.birth or (old.begin, old.end) != (new.begin, new.end):
        return False
    tensors = emitted.tensors
    return {old.name, new.name} <= tensors and in_place(emitted.listing.operations[new.birth], old.name, new.name)


def figures(level: str, stretches: list[Stretch], partners: Mapping[str, str]) -> Level:
    """Highest byte in use, and the most bytes in use at once; tensors that follow in place count once."""
    groups: dict[str, Stretch] = {}
    root: dict[str, str] = {}
    for s in sorted(stretches, key=lambda s: s.birth):
        if s.level != level:
            continue
        root[s.name] = root.get(partners.get(s.name, ""), s.name)
        group = groups.get(root[s.name], s)
        groups[root[s.name]] = replace(group, death=max(group.death, s.death))
    end = max((s.death for s in groups.values()), default=0)
    change = np.zeros(end + 1, dtype=np.int64)
    for s in groups.values():
        change[s.birth] += s.end - s.begin
        change[s.death] -= s.end - s.begin
    return Level(max((s.end for s in groups.values()), default=0), int(np.cumsum(change).max(initial=0)))


def compare(name: str, level: Level, emitted: Emitted) -> list[str]:
    """What the plan claims and the compiler asserts, against what was found."""
    claim = emitted.plan["levels"][name]
    wrong = []
    if claim["used"] != level.peak:
        wrong.append(f"{name}: {claim['used']} bytes planned, but the highest byte in use ends at {level.peak}")
    if claim["lower_bound"] != level.lower_bound:
        wrong.append(f"{name}: lower bound {claim['lower_bound']}, but {level.lower_bound} bytes are in use at once")
    if level.peak > int(claim["size"]):
        wrong.append(f"{name}: {level.peak} bytes do not fit")
    return wrong
