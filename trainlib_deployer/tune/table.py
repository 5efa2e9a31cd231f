"""What has been measured, kept for later builds: a file for each machine, place and compiler.

Of each operation that was cut, a file says which kernels its tiles call, and what these were made of then: of a kernel
that is another one now, nothing is known. One such file comes with the package (`shipped.py`), the others are this
computer's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainlib_deployer.folder import write_whole
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.plan.tiles import digest
from trainlib_deployer.run.emulated import DEBIAN_PACKAGES
from trainlib_deployer.tune.contents import content

COMPILERS = ("cc", "riscv32-unknown-elf-gcc", "arm-none-eabi-gcc")
Cut = tuple[str, str]  # what was cut, and how


@dataclass
class Table:
    """Of one file; without one, of nothing yet."""

    path: Path
    unit: str = ""
    taken: dict[str, dict[str, int]] = field(default_factory=dict)
    kernels: dict[str, tuple[str, ...]] = field(default_factory=dict)  # that what is cut calls
    outdated: frozenset[str] = frozenset()  # kernels in the file that are others now
    lost: int = 0  # things that are cut, of which therefore nothing is known

    @staticmethod
    def of(machine: Machine, on: str) -> Table:
        team = (machine.name, machine.team, machine.idle, machine.stack_bytes)
        return Table.at(cache() / f"{digest((team, on, compilers()))}.json")

    @staticmethod
    def at(path: Path) -> Table:
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return Table.read(path, json.loads(path.read_text()))
        return Table(path)

    @staticmethod
    def read(path: Path, found: Mapping[str, Any]) -> Table:
        """But for what has changed since."""
        outdated = frozenset(name for name, was in found["kernels"].items() if content(name) != was)
        table = Table(path, str(found["unit"]), outdated=outdated)
        for work, known in found["taken"].items():
            kernels = tuple(map(str, known["kernels"]))
            if outdated.intersection(kernels):
                table.lost += 1
            else:
                table.kernels[work] = kernels
                table.taken[work] = {way: int(n) for way, n in known["ways"].items()}
        return table

    def knows(self, work: str, way: str) -> bool:
        return way in self.taken.get(work, {})

    def add(self, unit: str, found: Mapping[Cut, int], kernels: Mapping[str, Iterable[str]]) -> bool:
        """At once also in the file: what was measured before somebody loses patience stays known. False where nothing
        can be written."""
        self.unit = unit
        for (work, way), took in found.items():
            self.taken.setdefault(work, {})[way] = took
            self.kernels[work] = tuple(sorted({*self.kernels.get(work, ()), *kernels[work]}))
        return self.written()

    def drop(self, works: Iterable[str]) -> bool:
        for work in works:
            self.taken.pop(work, None)
            self.kernels.pop(work, None)
        return self.written()

    def written(self) -> bool:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.path, self.text())
        except OSError:
            return False
        return True

    def text(self) -> str:
        called = sorted({name for names in self.kernels.values() for name in names})
        taken = {work: {"kernels": self.kernels[work], "ways": ways} for work, ways in self.taken.items()}
        whole = {"unit": self.unit, "kernels": {name: content(name) for name in called}, "taken": taken}
        return json.dumps(whole, indent=1, sort_keys=True) + "\n"


def cache() -> Path:
    """The user's."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "trainlib-deploy", "tuned")


def compilers() -> list[str]:
    """The first words of all that a project may be built with."""
    emulated = [tool for tools in DEBIAN_PACKAGES.values() for tool in tools]
    there = (found for name in (*COMPILERS, *emulated) if (found := shutil.which(name)) is not None)
    return [told(compiler).partition("\n")[0] for compiler in there]


def told(compiler: str) -> str:
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, errors="replace", check=False).stdout
