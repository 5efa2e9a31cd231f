"""The user's own machine: threads as cores."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainlib_deployer.errors import ToolMissing
from trainlib_deployer.run.make import make, require, run_program
from trainlib_deployer.run.result import RunResult
from trainlib_deployer.run.sections import check_sections
from trainlib_deployer.run.witness import WITNESS, Witness, witness_text

TIMEOUT = 1200.0


class Host:
    """`poison`: memory holds NaNs wherever the plan says that it is not in use; `witnesses`: what comes and goes in
    memory is recorded, too."""

    def __init__(self, sanitize: str = "", poison: bool = False, witnesses: Sequence[Witness] = ()) -> None:
        self.sanitize = sanitize
        self.poison = poison
        self.witnesses = witnesses

    def check_tools(self) -> None:
        require("make", "apt-get install make")
        compiler = os.environ.get("CC", "cc").split()[0]
        if shutil.which(compiler) is None:
            raise ToolMissing(
                f"no C compiler: '{compiler}' is not installed", remedy="install one: apt-get install gcc"
            )
        require("nm", "apt-get install binutils")

    def run(self, folder: Path, steps: int, cores: int | None, record: Path) -> RunResult:
        variables: dict[str, object] = {"TRACE": 1, "STEPS": steps}
        if cores is not None:
            variables["CORES"] = cores
        if self.sanitize:
            variables["SANITIZE"] = self.sanitize
        if self.poison:
            variables["POISON"] = 1
        if self.witnesses:
            (folder / WITNESS).write_text(witness_text(self.witnesses))
            variables["WITNESS"] = WITNESS
        program = built(folder, variables)
        if not self.sanitize:  # sanitizers bring variables of their own
            check_sections(program, folder)
        output = run_program([str(program)], {"TL_RECORD": str(record.resolve())}, TIMEOUT)
        return RunResult({}, output)

    def profile(self, folder: Path, variables: Mapping[str, object]) -> str:
        return run_program([str(built(folder, variables))], {}, TIMEOUT)


def built(folder: Path, variables: Mapping[str, object]) -> Path:
    make(folder, "build/host/train", variables)
    return (folder / "build" / "host" / "train").resolve()
