"""One core on a QEMU board: projects for targets such as cortex-m4f and esp32-c3, whose `make qemu` is that."""

from __future__ import annotations

from pathlib import Path

from trainlib_deployer.errors import UsageError
from trainlib_deployer.folder import stored_plan
from trainlib_deployer.machine.build import Board
from trainlib_deployer.machine.targets import TARGETS
from trainlib_deployer.run.emulated import counts, run_make
from trainlib_deployer.run.make import require
from trainlib_deployer.run.result import RunResult
from trainlib_deployer.run.sections import check_sections

PACKAGES = {  # of Debian
    "qemu-system-arm": "qemu-system-arm",
    "qemu-system-riscv32": "qemu-system-misc",
    "arm-none-eabi-gcc": "gcc-arm-none-eabi",
    "riscv64-unknown-elf-gcc": "gcc-riscv64-unknown-elf",
}


class OnBoard:
    """All boards of an emulator."""

    emulator: str

    def boards(self) -> dict[str, Board]:
        """By target."""
        found = {name: machine.build.board for name, machine in TARGETS.items() if machine.build is not None}
        return {name: board for name, board in found.items() if board is not None and board.emulator == self.emulator}

    def check_tools(self) -> None:
        require("make", "apt-get install make")
        for tool in sorted({t for b in self.boards().values() for t in (b.emulator, f"{b.cross}gcc")}):
            require(tool, f"apt-get install {PACKAGES[tool]}")

    def run(self, folder: Path, steps: int, cores: int | None, record: Path) -> RunResult:
        plan = stored_plan(folder)
        name = plan["target"]["name"]
        if name not in self.boards():
            raise UsageError(
                f"this project is for {name}", remedy=f"deploy it with --target {next(iter(self.boards()))}"
            )
        variables = {"TRACE": 1, "PROFILE": 1, "SIZES": "any", "STEPS": steps, "RECORD": record.resolve()}
        output, notes = run_make(folder, "qemu", variables)
        check_sections(folder / "build" / "qemu-gcc" / "train.elf", folder)
        return RunResult(counts(output, notes, [op["name"] for op in plan["ops"]]), output)


class QemuArm(OnBoard):
    emulator = "qemu-system-arm"


class QemuRiscv(OnBoard):
    emulator = "qemu-system-riscv32"
