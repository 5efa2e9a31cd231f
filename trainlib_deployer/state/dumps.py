"""What people have in their hands after a run on the chip: a file, the log of a serial line, images of memories."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trainlib_deployer.errors import UsageError
from trainlib_deployer.state.image import MAGIC, PAGE, NoState, Values, decode
from trainlib_deployer.state.layout import Layout

LINE = re.compile(rb"TLSTATE ([0-9a-f]{8}) ([0-9a-f]{%d})\b" % (2 * PAGE))
REMEDY = "make host SAVE=FILE writes one; docs/state.md says how a firmware does"


def read_dump(layout: Layout, path: Path) -> Values:
    """The newest state in a file: one that was saved, a log with TLSTATE lines, a copy of a flash."""
    data = read(path)
    try:
        return decode(layout, from_text(data) if LINE.search(data) else data)
    except NoState as err:
        raise UsageError(f"{path} {err}", remedy=REMEDY) from err


def is_dump(path: Path) -> bool:
    """A state, or a log that has one; anything else is somebody else's format."""
    if not path.is_file():
        return False
    data = read(path)
    return data.startswith(MAGIC) or LINE.match(data) is not None


def from_text(log: bytes) -> bytes:
    """The pages of a log; where states were printed again, one behind the other."""
    runs: list[bytearray] = []
    for found in LINE.finditer(log):
        at = int(found[1], 16)
        if at == 0 or not runs:
            runs.append(bytearray())
        if at == len(runs[-1]):  # a line that was lost leaves a state that is cut off
            runs[-1] += bytes.fromhex(found[2].decode())
    return b"".join(runs)


def read_memory(plan: Mapping[str, Any], images: Mapping[str, Path]) -> Values:
    """From copies of the variables net_l1 and net_l2, as a debugger writes them."""
    layout = Layout.of_plan(plan)
    homes = {b["name"]: b for b in plan["buffers"]}
    needed = sorted({variable(homes[p.name]["level"]) for p in layout.pieces})
    for name in needed:
        if name not in images:
            raise UsageError(f"what was learned lies in {' and '.join(needed)}; {name} is missing")
    memories = {name: read(path) for name, path in images.items()}
    values: Values = {}
    for level, sizes in plan["levels"].items():
        name = variable(level)
        if name in needed and len(memories[name]) != sizes["persistent"]:
            there = f"{len(memories[name]):,} bytes; {name} has {sizes['persistent']:,}"
            raise UsageError(f"{images[name]} has {there}", remedy=f"dump binary memory FILE &{name} &{name}+1, in gdb")
    for p in layout.pieces:
        memory = memories[variable(homes[p.name]["level"])]
        start = int(homes[p.name]["offset"])
        values[p.name] = np.frombuffer(memory[start : start + p.nbytes], p.numpy).reshape(p.shape)
    return values


def variable(level: str) -> str:
    return f"net_{level.lower()}"


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as err:
        raise UsageError(f"cannot read {path}: {err.strerror or err}") from err
