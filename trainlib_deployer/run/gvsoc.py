"""PULP-SDK with its simulator GVSoC: the project's Makefile becomes an ordinary application of the SDK."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from trainlib_deployer.errors import ToolMissing, VerificationFailed
from trainlib_deployer.run.make import require
from trainlib_deployer.run.result import RunResult

TIMEOUT = 7200.0
RECORD = "record.bin"  # where the simulator runs, which the SDK decides


class Gvsoc:
    def check_tools(self) -> None:
        require("make", "apt-get install make")
        rules = os.environ.get("RULES_DIR", "")
        if not (rules and Path(rules, "pmsis_rules.mk").is_file()):
            raise ToolMissing(
                "PULP-SDK is not set up: the environment's RULES_DIR does not name its rules",
                remedy="source the SDK's configs/pulp-open.sh, then run this again",
            )

    def run(self, folder: Path, steps: int, cores: int | None, record: Path) -> RunResult:
        for old in folder.rglob(RECORD):
            old.unlink()
        variables: dict[str, object] = {"TRACE": 1, "STEPS": steps, "RECORD": RECORD}
        if cores is not None:
            variables["CORES"] = cores
        output = built_and_run(folder, variables)
        found = sorted(folder.rglob(RECORD), key=lambda p: p.stat().st_mtime)
        if not found:
            raise VerificationFailed(f"the simulation left no record:\n{output[-2000:]}")
        record.parent.mkdir(exist_ok=True)  # where it was before `make clean`
        shutil.move(found[-1], record)
        return RunResult({}, output)

    def profile(self, folder: Path, variables: Mapping[str, object]) -> str:
        return built_and_run(folder, variables)


def built_and_run(folder: Path, variables: Mapping[str, object]) -> str:
    """What it printed."""
    command = ["make", "-C", str(folder), "clean", "all", "run", *(f"{k}={v}" for k, v in variables.items())]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired as slow:
        raise VerificationFailed(f"the simulation did not end within {TIMEOUT:.0f} s") from slow
    if done.returncode:
        words = (done.stdout + done.stderr).strip()
        raise VerificationFailed(f"the project does not build or run under PULP-SDK:\n{words[-2000:]}")
    return done.stdout
