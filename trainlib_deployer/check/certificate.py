"""The certificate, checked against what was written: net.c says who is used when, plan.h says where it lies.

Lifetimes, overlaps, peak and lower bound are computed again from the text of the project. Nothing here shares code or
data with the planner; tensor sizes, and which operands an operation writes, come from the program in plan.json.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from trainlib_deployer.check.early import too_early, without_early
from trainlib_deployer.check.streams import MOVE, ROW, outside
from trainlib_deployer.plan.elementwise import elementwise, parameter_name

GROUND = 16  # bytes that every buffer begins at, whatever a plan claims: stacks and C's own objects need it
OFFSET = re.compile(r"^    OFFSET_(\w+) = (\d+), /\* (\w+) ", re.MULTILINE)
DEFINE = re.compile(r"^#define PLAN_(\w+) (\d+)", re.MULTILINE)
NEXT = re.compile(r"^    next\((\d+)\);$", re.MULTILINE)
USE = re.compile(r"\b[A-Z][A-Z0-9_]*\((L\d),\s+(\w+)\)")
ARGUMENT = re.compile(r",(?![^()]*\))")  # a comma outside of parentheses
STREAM = re.compile(r"\{\(char \*\)(.*?), TILE\(")
BUFFER = re.compile(r"\b(SCRATCH|TILE|SECOND|LANES)\((\w+)(?:,\s+(\d+))?\)")
TRACE = re.compile(r"^ *TRACE\(.*$", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
LOOP_CALL = re.compile(r"\b(loop\d+_\w+)\(([^;]*)\);")
LOOP_BODY = re.compile(r"^void (loop\d+_\w+)\((.*?)\)\n\{\n(.*?)^\}", re.DOTALL | re.MULTILINE)


class CertificateError(RuntimeError):
    """The planner or the writer of C is wrong: never the user's mistake."""


def c_name(name: str) -> str:
    """Of what is not a tensor: scratch, stacks, buffers."""
    return re.sub(r"\W", "_", name)


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
    """The texts of a project."""

    net: str
    header: str
    loops: str
    plan: Mapping[str, Any]

    @staticmethod
    def read(folder: Path) -> Emitted:
        net, header, loops = ((folder / name).read_text() for name in ("net.c", "plan.h", "loops.c"))
        return Emitted(net, header, loops, json.loads((folder / "plan.json").read_text()))

    @cached_property
    def places(self) -> dict[str, tuple[str, int]]:
        """C name to level and offset."""
        return {name: (level, int(offset)) for name, offset, level in OFFSET.findall(self.header)}

    @cached_property
    def sizes(self) -> dict[str, int]:
        """C name to bytes: of tensors from their shapes, of everything else as asked for."""
        other = {c_name(b["name"]): int(b["size"]) for b in self.plan["buffers"]}
        return other | {t["c_name"]: int(t["bytes"]) for t in self.plan["tensors"].values()}

    @cached_property
    def statements(self) -> list[str]:
        """The C of every operation, in order."""
        parts = NEXT.split(self.net)
        positions = [int(p) for p in parts[1::2]]
        if positions != list(range(len(positions))):
            raise CertificateError("the operations of net.c are not numbered in order")
        return [COMMENT.sub("", TRACE.sub("", part.rpartition("\n{\n")[2])) for part in parts[:-1:2]]

    @cached_property
    def functions(self) -> dict[str, tuple[list[str], str]]:
        """Generated loops: parameters and body."""
        return {name: (re.split(r",\s+", args), body) for name, args, body in LOOP_BODY.findall(self.loops)}

    def used(self, text: str) -> Iterator[str]:
        yield from (name for _, name in USE.findall(text) if name in self.places)
        for macro, position, number in BUFFER.findall(text):
            yield "_".join(filter(None, (macro.lower(), position, number)))

    def astray(self) -> list[str]:
        """Pointers into another level than the one where the plan puts the tensor."""
        uses = sorted({(name, level) for level, name in USE.findall(self.net) if name in self.places})
        return [
            f"{n}: used in {level}, planned in {self.places[n][0]}" for n, level in uses if self.places[n][0] != level
        ]


def check_folder(folder: Path) -> dict[str, Level]:
    """Raises CertificateError unless the plan holds; notes in plan.json that it was checked."""
    emitted = Emitted.read(folder)
    found, wrong = check(emitted)
    if wrong:
        raise CertificateError("the memory plan does not hold:\n  " + "\n  ".join(wrong[:20]))
    path = folder / "plan.json"
    path.write_text(path.read_text().replace('"checked": false', '"checked": true'))
    return found


def check(emitted: Emitted) -> tuple[dict[str, Level], list[str]]:
    """Peak and bound of every level, and everything that is wrong, in words."""
    wrong = emitted.astray()
    stretches = lifetimes(emitted, wrong)
    partners: dict[str, str] = {}
    for first, second in clashes(stretches):
        if in_place(emitted, first, second):
            partners[second.name] = first.name
        else:
            at = max(first.birth, second.birth)
            wrong.append(
                f"operation {at}: {first.name} and {second.name} both use byte {max(first.begin, second.begin)}"
            )
    wrong += short_lives(emitted, stretches)
    wrong += too_early(emitted.net, emitted.statements, emitted.plan, emitted.places)
    wrong += outside(emitted.statements, emitted.sizes)
    levels = {name: figures(name, stretches, partners) for name in emitted.plan["levels"]}
    for name, level in levels.items():
        wrong += compare(name, level, emitted)
    return levels, wrong


def lifetimes(emitted: Emitted, wrong: list[str]) -> list[Stretch]:
    """First to last operation that mentions each; what the interface hands out lives to the end of the step."""
    end = max(len(emitted.statements), 1)
    spans: dict[str, tuple[int, int]] = {}
    for at, text in enumerate(emitted.statements):
        for name in emitted.used(text):
            spans[name] = (spans.get(name, (at, at))[0], at + 1)
    for name in emitted.used(NEXT.split(emitted.net)[-1]):
        if name in spans:
            spans[name] = (spans[name][0], end)
    wrong += unwritten(emitted, spans)
    spans |= {t["c_name"]: (0, end) for t in emitted.plan["tensors"].values() if t["persistent"]}
    for b in emitted.plan["buffers"]:  # stacks and the like: what no statement names
        if b["name"] not in emitted.plan["tensors"]:
            spans.setdefault(c_name(b["name"]), (b["birth"], b["death"]))
    found, alignment = [], int(emitted.plan["target"]["alignment"])
    if alignment <= 0 or alignment % GROUND:
        raise CertificateError(f"an alignment of {alignment} bytes: at least {GROUND}, and multiples of it, are needed")
    for name, (birth, death) in spans.items():
        level, begin = emitted.places[name]
        size = -(-emitted.sizes[name] // alignment) * alignment
        found.append(Stretch(name, level, begin, begin + size, birth, death))
        if begin % alignment:
            wrong.append(f"{name}: offset {begin} is not a multiple of {alignment}")
    return found


def short_lives(emitted: Emitted, stretches: list[Stretch]) -> list[str]:
    """Buffers that are used before or after the plan says, whether or not another one is in the way."""
    tensors = emitted.plan["tensors"]
    claims: dict[str, tuple[int, int]] = {}
    for b in emitted.plan["buffers"]:
        for name in (b["name"], *b["aliases"]):
            claims[tensors[name]["c_name"] if name in tensors else c_name(name)] = b["birth"], b["death"]
    wrong = []
    for s in stretches:
        birth, death = claims.get(s.name, (s.death, s.birth))
        if not birth <= s.birth < s.death <= death:
            wrong.append(f"{s.name}: used in operations {s.birth} to {s.death - 1}, planned for {birth} to {death - 1}")
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
    for i, row in enumerate(rows):
        rest = slice(i + 1, None)
        both = (begin[rest] < row.end) & (end[rest] > row.begin) & (birth[rest] < row.death) & (death[rest] > row.birth)
        for j in np.flatnonzero(both & (level[rest] == level[i])).tolist():
            yield row, rows[i + 1 + j]


def in_place(emitted: Emitted, old: Stretch, new: Stretch) -> bool:
    """True when one generated loop reads the last of `old` and writes the first of `new`, element by element."""
    if old.death - 1 != new.birth or (old.begin, old.end) != (new.begin, new.end):
        return False
    text = " ".join(without_early(emitted.statements[new.birth]).split())  # long names wrap lines
    if "tl_tiles_open" in text:
        if emitted.plan["ops"][new.birth]["kind"] != "map":
            return False
        if any(s.name in emitted.used(home) for home in STREAM.findall(text) for s in (old, new)):
            return same_windows(emitted, old, new)
    calls = LOOP_CALL.findall(text)  # of a tiled operation there may be several; what lives in L1 is named in each
    return bool(calls) and all(in_place_call(emitted, old, new, *call) for call in calls)


def in_place_call(emitted: Emitted, old: Stretch, new: Stretch, function: str, given: str) -> bool:
    """One call of a generated loop: what it reads of `old` it writes over with `new`."""
    if function not in emitted.functions:
        return False
    parameters, body = emitted.functions[function]
    arguments = [" ".join(a.split()) for a in ARGUMENT.split(given)]
    places = dict(zip(parameters, arguments, strict=True))
    writes = [p for p, a in places.items() if new.name in emitted.used(a)]
    reads = [p for p, a in places.items() if old.name in emitted.used(a)]
    if len(writes) != 1 or not reads or any(not p.startswith("const ") for p in reads):
        return False
    target = parameter_name(writes[0])
    same_start = all(places[p].partition(")")[2] == places[writes[0]].partition(")")[2] for p in reads)
    return same_start and all(elementwise(body, parameter_name(p), target) for p in reads)


def same_windows(emitted: Emitted, old: Stretch, new: Stretch) -> bool:
    """Tile by tile the bytes that are read are those that are written afterwards."""
    text = " ".join(without_early(emitted.statements[new.birth]).split())
    streams = [list(emitted.used(home)) for home in STREAM.findall(text)]
    before, after = ([k for k, names in enumerate(streams) if s.name in names] for s in (old, new))
    table = text.partition(" tl_part parts")[2].partition("};")[0]
    rows = [MOVE.findall(row) for row in ROW.findall(table)]
    windows = [[m.rsplit(", ", 2)[0] for m in row] for row in rows if len(row) == len(streams)]
    return len(after) == 1 and bool(before and windows) and all(w[b] == w[after[0]] for w in windows for b in before)


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
    """What the header promises and the compiler asserts, against what was found."""
    defined = {key: int(value) for key, value in DEFINE.findall(emitted.header)}
    wrong = []
    if defined.get(f"{name}_USED") != level.peak:
        wrong.append(
            f"{name}: {defined.get(f'{name}_USED')} bytes planned, but the highest byte in use ends at {level.peak}"
        )
    if defined.get(f"{name}_LOWER_BOUND") != level.lower_bound:
        claimed = defined.get(f"{name}_LOWER_BOUND")
        wrong.append(f"{name}: lower bound {claimed}, but {level.lower_bound} bytes are in use at once")
    if level.peak > int(emitted.plan["levels"][name]["size"]):
        wrong.append(f"{name}: {level.peak} bytes do not fit")
    return wrong
