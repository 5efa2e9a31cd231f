"""Plan = reality: what the linker put into writable memory is what the plan says, to the byte."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainlib_deployer.errors import VerificationFailed
from trainlib_deployer.folder import stored_plan

WRITABLE = frozenset("bBdDcC")
# What the emulated machine has and firmware does not: counters, and its recorder's command line, which compilers name
# differently.
RECORDER = "net_recorded"  # what only a build that records has
EMULATION = re.compile(r"tl_rv32_\w+|(tl_record_open\.)?line(\.\d+)?")
FAR = "tl_far_memory"  # what a machine has in place of a memory that no core reaches
SMALL = 64  # bytes that a single variable of the runtime may take outside of the plan


def writable_symbols(program: Path) -> dict[str, int]:
    """Name to size of every variable that the program can write."""
    done = subprocess.run(["nm", "-P", str(program)], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise VerificationFailed(f"cannot read the symbols of {program}: {done.stderr.strip()}")
    rows = [line.split() for line in done.stdout.splitlines()]
    return {row[0]: int(row[3], 16) for row in rows if len(row) == 4 and row[1] in WRITABLE}


def planned_symbols(plan: Mapping[str, Any]) -> dict[str, int]:
    """Per level the persistent tensors and the arena; nothing is emitted for what is empty."""
    sizes = {}
    near, far = list(plan["levels"].items())[:2], list(plan["levels"].values())[2:]
    for name, level in near:
        sizes[f"net_{name.lower()}"] = int(level["persistent"])
        sizes[f"arena_{name.lower()}"] = int(level["arena"])
    sizes[FAR] = sum(int(level["used"]) for level in far)
    return {name: size for name, size in sizes.items() if size}


def differences(found: Mapping[str, int], planned: Mapping[str, int]) -> list[str]:
    """Every way in which the linked program is not the planned one, in words."""
    wrong = []
    for name, size in planned.items():
        if name not in found:
            wrong.append(f"{name}: {size} bytes planned, nothing linked")
        elif found[name] != size:
            wrong.append(f"{name}: {size} bytes planned, {found[name]} linked")
    known = {*planned, RECORDER}
    extra = {n: size for n, size in found.items() if n not in known and size > SMALL and not EMULATION.fullmatch(n)}
    wrong += [f"{name}: {size} bytes of writable memory that are not in the plan" for name, size in extra.items()]
    return wrong


def check_sections(program: Path, folder: Path) -> None:
    plan = stored_plan(folder)
    wrong = differences(writable_symbols(program), planned_symbols(plan))
    if wrong:
        raise VerificationFailed("the linked program is not the planned one:\n  " + "\n  ".join(wrong))
