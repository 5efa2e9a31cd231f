"""An emulated RISC-V cluster: one controller and up to eight cores in QEMU, two memories with walls around them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

from trainlib_deployer.errors import UsageError, VerificationFailed
from trainlib_deployer.run.make import require
from trainlib_deployer.run.result import RunResult
from trainlib_deployer.run.sections import check_sections

TIMEOUT = 1800.0
MOST_CORES = 8
DEBIAN_PACKAGES = {
    "clang": {"clang-19": "clang-19", "ld.lld-19": "lld-19"},
    "gcc": {"riscv64-unknown-elf-gcc": "gcc-riscv64-unknown-elf"},
}


class Qemu:
    def __init__(self, compiler: str = "clang") -> None:
        if compiler not in DEBIAN_PACKAGES:
            raise UsageError(f"unknown compiler '{compiler}'", remedy=f"compilers: {', '.join(DEBIAN_PACKAGES)}")
        self.compiler = compiler

    def check_tools(self) -> None:
        require("make", "apt-get install make")
        require("qemu-system-riscv32", "apt-get install qemu-system-misc")
        for tool, package in DEBIAN_PACKAGES[self.compiler].items():
            require(tool, f"apt-get install {package}")

    def run(self, folder: Path, steps: int, cores: int | None, record: Path) -> RunResult:
        if cores is not None and not 1 <= cores <= MOST_CORES:
            raise UsageError(
                f"the emulated machine cannot run {cores} cores: it has a controller and {MOST_CORES} cores",
                remedy=f"give at most {MOST_CORES} cores, or run on the host",
            )
        variables: dict[str, object] = {
            "TRACE": 1,
            "STEPS": steps,
            "COMPILER": self.compiler,
            "RECORD": record.resolve(),
        }
        if cores is not None:
            variables["CORES"] = cores
        output, notes = run_make(folder, variables)
        check_sections(folder / "build" / f"qemu-{self.compiler}" / "train.elf", folder)
        return RunResult(counts(notes), output)


def run_make(folder: Path, variables: dict[str, object]) -> tuple[str, str]:
    """`make qemu`: what the program printed, what the emulator said."""
    command = ["make", "-s", "-j2", "-C", str(folder), "qemu", *(f"{k}={v}" for k, v in variables.items())]
    running = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, notes = running.communicate(timeout=TIMEOUT)
    except BaseException as stopped:  # also on Ctrl-C: the emulator is make's child and would live on
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        if isinstance(stopped, subprocess.TimeoutExpired):
            raise VerificationFailed(f"the emulated program did not end within {TIMEOUT:.0f} s") from stopped
        raise
    if running.returncode:
        raise failure(output, notes)
    return output, notes


def failure(output: str, notes: str) -> VerificationFailed:
    """The program's own report of a fault is what counts; without one, what make and the compiler said."""
    faults = [line for line in output.splitlines() if line.startswith("FAULT:")]
    if faults:
        return VerificationFailed(f"the emulated program stopped: {faults[0].removeprefix('FAULT: ')}")
    words = (output + notes).strip()[-2000:]
    return VerificationFailed(f"the program does not build or run on the emulated cluster:\n{words}")


def counts(notes: str) -> dict[str, object]:
    """Instructions of the slowest core between barriers, and of each core."""
    found: dict[str, object] = {}
    line = re.search(r"^COUNTS instructions (.*)$", notes, re.MULTILINE)
    if line:
        values = {name: int(value) for name, value in (pair.split("=") for pair in line[1].split())}
        found["unit"] = "instructions"
        found["critical"] = values.pop("critical")
        found["per_core"] = list(values.values())
    return found
