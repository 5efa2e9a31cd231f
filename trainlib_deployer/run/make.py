"""Running make in a project, with its complaints kept for the user."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from trainlib_deployer.errors import ToolMissing, UsageError, VerificationFailed
from trainlib_deployer.folder import MANIFEST, edited_files

# The last is how a shell's `echo` puts the first.
NO_ROOM = (
    "No space left on device",
    "Read-only file system",
    "Disk quota exceeded",
    "File too large",
    "Permission denied",
    "I/O error",
)

MOST_LINES = 12  # of a compiler's


def require(tool: str, install: str) -> None:
    if shutil.which(tool) is None:
        raise ToolMissing(f"'{tool}' is needed for this run and is not installed", remedy=f"install it: {install}")


def make(folder: Path, target: str, variables: Mapping[str, object]) -> None:
    """Build a target; the compiler's own words come back on failure."""
    jobs = f"-j{os.cpu_count() or 1}"
    command = ["make", "-s", jobs, "-C", str(folder), target, *(f"{k}={v}" for k, v in variables.items())]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        demand_room(folder, done.stderr)
        words = (done.stderr.strip() or done.stdout.strip()).splitlines()
        shown = words if len(words) <= MOST_LINES else [*words[:MOST_LINES], "..."]
        changed = edited_files(folder) if (folder / MANIFEST).is_file() else []
        raise VerificationFailed(
            "\n".join(["the generated project does not build:", *shown]),
            remedy=f"changed since trainlib-deploy wrote it: {', '.join(changed[:3])}" if changed else "",
        )


def demand_room(folder: Path, complaint: str) -> None:
    """What failed because a file could not be written says nothing about the project."""
    fault = next((f for f in NO_ROOM if f in complaint), None)
    if fault is not None:
        remedy = "a run builds inside of the project: it needs room there, and the right to write"
        raise UsageError(f"cannot write {folder}: {fault}", remedy=remedy)


def run_program(command: list[str], environment: Mapping[str, str], seconds: float) -> str:
    """The program's output; anything but success is a failed verification."""
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as slow:
        raise VerificationFailed(f"the program did not end within {seconds:.0f} s") from slow
    if done.returncode:
        demand_room(Path(command[0]).parent, done.stderr)
        words = (done.stdout + done.stderr).strip()[-2000:]
        raise VerificationFailed(f"the program ended with code {done.returncode}:\n{words}")
    return done.stdout
