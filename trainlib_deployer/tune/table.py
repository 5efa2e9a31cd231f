"""What has been measured on this computer, kept for all later builds: a file for each machine, place and compiler, and
for each version of the C that is measured."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from trainlib_deployer.emit.resources import c_lib_dir
from trainlib_deployer.folder import write_whole
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.plan.tiles import digest
from trainlib_deployer.run.emulated import DEBIAN_PACKAGES

COMPILERS = ("cc", "riscv32-unknown-elf-gcc", "arm-none-eabi-gcc")
PACKAGE = Path(__file__).resolve().parents[1]


@dataclass
class Table:
    """Of one file; without one, of nothing yet."""

    path: Path
    unit: str = ""
    taken: dict[str, dict[str, int]] = field(default_factory=dict)

    @staticmethod
    def of(machine: Machine, on: str) -> Table:
        team = (machine.name, machine.team, machine.idle, machine.stack_bytes)
        return Table.at(cache() / f"{digest((team, on, compilers(), sources()))}.json")

    @staticmethod
    def at(path: Path) -> Table:
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            found = json.loads(path.read_text())
            taken = {w: {way: int(n) for way, n in ways.items()} for w, ways in found["taken"].items()}
            return Table(path, str(found["unit"]), taken)
        return Table(path)

    def knows(self, work: str, way: str) -> bool:
        return way in self.taken.get(work, {})

    def add(self, unit: str, found: Mapping[tuple[str, str], int]) -> bool:
        """At once also in the file: what was measured before somebody loses patience stays known. False where nothing
        can be written."""
        self.unit = unit
        for (work, way), took in found.items():
            self.taken.setdefault(work, {})[way] = took
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.path, json.dumps({"unit": self.unit, "taken": self.taken}, indent=1, sort_keys=True))
        except OSError:
            return False
        return True


def cache() -> Path:
    """The user's."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "trainlib-deploy", "tuned")


def sources() -> str:
    """What decides what tiles take: the C library, and what writes C."""
    found = sha256()
    for folder in (c_lib_dir(), PACKAGE / "emit", PACKAGE / "kernels"):
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc"):
            found.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def compilers() -> list[str]:
    """The first words of all that a project may be built with."""
    emulated = [tool for tools in DEBIAN_PACKAGES.values() for tool in tools]
    there = (found for name in (*COMPILERS, *emulated) if (found := shutil.which(name)) is not None)
    return [told(compiler).partition("\n")[0] for compiler in there]


def told(compiler: str) -> str:
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, errors="replace", check=False).stdout
