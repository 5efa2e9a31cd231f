"""The emulated RISC-V cluster, whichever simulator runs it: `make qemu`, `make spike`, and what they print."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainlib_deployer.errors import UsageError, VerificationFailed
from trainlib_deployer.folder import stored_plan
from trainlib_deployer.run.make import demand_room, require
from trainlib_deployer.run.result import RunResult
from trainlib_deployer.run.sections import check_sections

TIMEOUT = 1800.0
EMULATED_CORES = 8  # that rv32_machine.h has beside the controller
DEBIAN_PACKAGES = {
    "clang": {"clang-19": "clang-19", "ld.lld-19": "lld-19"},
    "gcc": {"riscv64-unknown-elf-gcc": "gcc-riscv64-unknown-elf"},
}


def check_compiler(compiler: str) -> None:
    for tool, package in DEBIAN_PACKAGES[compiler].items():
        require(tool, f"apt-get install {package}")


def known_compiler(compiler: str) -> str:
    if compiler not in DEBIAN_PACKAGES:
        raise UsageError(f"unknown compiler '{compiler}'", remedy=f"compilers: {', '.join(DEBIAN_PACKAGES)}")
    return compiler


def run_emulated(
    folder: Path, machine: str, cores: int | None, variables: Mapping[str, object], apart: Sequence[int]
) -> RunResult:
    """Build and run with COMPILER, STEPS, RECORD and the like; instructions come back by core and by operation.
    `apart` are bytes from each level to the next."""
    if cores is not None and not 1 <= cores <= EMULATED_CORES:
        raise UsageError(
            f"the emulated machine cannot run {cores} cores: it has a controller and {EMULATED_CORES} cores",
            remedy=f"give at most {EMULATED_CORES} cores, or run on the host",
        )
    plan = stored_plan(folder)
    for (name, level), room in zip(plan["levels"].items(), apart, strict=False):
        if level["used"] > room:
            words = f"{name} takes {level['used']:,} bytes, and the next level begins after {room:,} there"
            raise UsageError(words, remedy="run on the host")
    given = {"TRACE": 1, "PROFILE": 1, **variables} | ({} if cores is None else {"CORES": cores})
    output, notes = run_make(folder, machine, given)
    check_sections(folder / "build" / f"{machine}-{variables['COMPILER']}" / "train.elf", folder)
    return RunResult(counts(output, notes, [op["name"] for op in plan["ops"]]), output)


def run_make(folder: Path, machine: str, variables: Mapping[str, object]) -> tuple[str, str]:
    """What the program printed, what the emulator said."""
    command = ["make", "-s", "-j2", "-C", str(folder), machine, *(f"{k}={v}" for k, v in variables.items())]
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
        demand_room(folder, notes)
        raise failure(output, notes)
    return output, notes


def failure(output: str, notes: str) -> VerificationFailed:
    """The program's own report of a fault is what counts; without one, what make and the compiler said."""
    faults = [line for line in output.splitlines() if line.startswith("FAULT:")]
    if faults:
        return VerificationFailed(f"the emulated program stopped: {faults[0].removeprefix('FAULT: ')}")
    words = (output + notes).strip()[-2000:]
    return VerificationFailed(f"the program does not build or run on the emulated cluster:\n{words}")


def counts(output: str, notes: str, operations: Sequence[str] = ()) -> dict[str, object]:
    """Instructions of the slowest core between barriers, of each core, and of the slowest core in each operation, over
    all steps."""
    found: dict[str, object] = {}
    words = output + notes
    line = re.search(r"^COUNTS instructions (.*)$", words, re.MULTILINE)
    if line:
        values = {name: int(value) for name, value in (pair.split("=") for pair in line[1].split())}
        found["unit"] = "instructions"
        found["critical"] = values.pop("critical")
        found["per_core"] = list(values.values())
    rows = {int(p): int(n) for p, n in re.findall(r"^COUNTS operation (\d+)=(\d+)$", words, re.MULTILINE)}
    if rows:
        found["operations"] = [
            {"position": p, "name": name, "instructions": rows.get(p, 0)} for p, name in enumerate(operations)
        ]
    return found
