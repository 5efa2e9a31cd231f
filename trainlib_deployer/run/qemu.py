"""An emulated RISC-V cluster: one controller and up to eight cores in QEMU, two memories with walls around them."""

from __future__ import annotations

from pathlib import Path

from trainlib_deployer.run.emulated import check_compiler, known_compiler, run_emulated
from trainlib_deployer.run.make import require
from trainlib_deployer.run.result import RunResult

APART = (128 << 20,) * 3  # bytes from each level to the next


class Qemu:
    def __init__(self, compiler: str = "clang") -> None:
        self.compiler = known_compiler(compiler)

    def check_tools(self) -> None:
        require("make", "apt-get install make")
        require("qemu-system-riscv32", "apt-get install qemu-system-misc")
        check_compiler(self.compiler)

    def run(self, folder: Path, steps: int, cores: int | None, record: Path) -> RunResult:
        variables = {"STEPS": steps, "COMPILER": self.compiler, "RECORD": record.resolve()}
        return run_emulated(folder, "qemu", cores, variables, APART)
