"""A Cortex-M on one of QEMU's boards: projects for targets such as cortex-m4f, whose `make qemu` is that."""

from __future__ import annotations

from pathlib import Path

from trainlib_deployer.errors import UsageError
from trainlib_deployer.folder import stored_plan
from trainlib_deployer.run.emulated import counts, run_make
from trainlib_deployer.run.make import require
from trainlib_deployer.run.result import RunResult
from trainlib_deployer.run.sections import check_sections


class QemuArm:
    def check_tools(self) -> None:
        require("make", "apt-get install make")
        require("qemu-system-arm", "apt-get install qemu-system-arm")
        require("arm-none-eabi-gcc", "apt-get install gcc-arm-none-eabi")

    def run(self, folder: Path, steps: int, cores: int | None, record: Path) -> RunResult:
        plan = stored_plan(folder)
        name = plan["target"]["name"]
        if not name.startswith("cortex-m"):
            raise UsageError(f"this project is for {name}", remedy="deploy it with --target cortex-m4f")
        variables = {"TRACE": 1, "PROFILE": 1, "SIZES": "any", "STEPS": steps, "RECORD": record.resolve()}
        output, notes = run_make(folder, "qemu", variables)
        check_sections(folder / "build" / "qemu-gcc" / "train.elf", folder)
        return RunResult(counts(output, notes, [op["name"] for op in plan["ops"]]), output)
