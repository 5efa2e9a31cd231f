"""The user's own machine: threads as cores."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from trainlib_deployer.errors import ToolMissing
from trainlib_deployer.run.make import make, require, run_program
from trainlib_deployer.run.result import RunResult

TIMEOUT = 1200.0


class Host:
    def __init__(self, sanitize: str = "") -> None:
        self.sanitize = sanitize

    def check_tools(self) -> None:
        require("make", "apt-get install make")
        compiler = os.environ.get("CC", "cc").split()[0]
        if shutil.which(compiler) is None:
            raise ToolMissing(
                f"no C compiler: '{compiler}' is not installed", remedy="install one: apt-get install gcc"
            )

    def run(self, folder: Path, steps: int, cores: int | None, record: Path) -> RunResult:
        variables: dict[str, object] = {"TRACE": 1, "STEPS": steps}
        if cores is not None:
            variables["CORES"] = cores
        if self.sanitize:
            variables["SANITIZE"] = self.sanitize
        make(folder, "host", variables)
        program = (folder / "build" / "host" / "train").resolve()
        output = run_program([str(program)], {"TL_RECORD": str(record.resolve())}, TIMEOUT)
        return RunResult({}, output)
