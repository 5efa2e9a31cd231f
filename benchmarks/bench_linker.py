"""Plan against linker: every example for every target whose code is measured, as far as its tools are there.

    python -m benchmarks.bench_linker [--targets pulp-open,...] [--dtype fp32,mixed] [--keep FOLDER] [EXAMPLE ...]

With PULP-SDK's configs/*.sh sourced its chips are among them, with arm-none-eabi-gcc and riscv64-unknown-elf-gcc the
microcontrollers. Each is deployed with as much of the outer memory as it likes, for the bytes are the question; the
build is the verification run's. A row below the linker, or 3 % above it, fails; one that is above by no more than what
is estimated of changed kernels says so. What was built is kept in FOLDER and not built again.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.deployments import all_examples, deploy, example, folder_of
from benchmarks.objects import Elf
from trainlib_deployer.emit.brought import ESTIMATED
from trainlib_deployer.errors import DoesNotFit
from trainlib_deployer.folder import PLAN, read_plan
from trainlib_deployer.image.image import FIRMWARE
from trainlib_deployer.machine.build import Build
from trainlib_deployer.machine.targets import TARGETS

L1, L2 = 0x1000_0000, 0x1C00_0000
MOST = 1.03
ELF = "build/qemu-gcc/train.elf"
OVERFLOW = re.compile(
    r"region `\w+' overflowed by (\d+) bytes"
)  # of a link script that ends where the chip's memory does


@dataclass(frozen=True)
class Row:
    """A memory of one build."""

    memory: str
    planned: int
    linked: int
    estimated: int = 0  # planned bytes of kernels that were not measured as they are

    @property
    def ratio(self) -> float:
        return self.planned / self.linked

    @property
    def holds(self) -> bool:
        return self.linked <= self.planned <= MOST * self.linked + self.estimated

    def __str__(self) -> str:
        guessed = f", {self.estimated:,} bytes estimated" if self.estimated else ""
        return f"{self.memory} | {self.planned:,} | {self.linked:,} | {100 * (self.ratio - 1):+.2f} %{guessed}"


def of_sdk(target: str) -> bool:
    build = TARGETS[target].build
    return build is not None and build.compiler == "pulp-sdk"


def config_of(target: str) -> Path:
    return Path(os.environ.get("PULP_SDK_HOME", "/nowhere"), "configs", f"{target}.sh")


def buildable() -> list[str]:
    """Targets whose code is measured and whose tools are there."""
    return [name for name, machine in TARGETS.items() if machine.build is not None and has_tools(name, machine.build)]


def has_tools(name: str, build: Build) -> bool:
    return config_of(name).is_file() if build.board is None else shutil.which(f"{build.board.cross}gcc") is not None


def build(target: str, folder: Path) -> Path:
    """The program, linked."""
    if not of_sdk(target):
        make(["make", "-s", "-C", str(folder), ELF], folder)
        return folder / ELF
    if not list(folder.glob("BUILD/**/train/train")):
        under_sdk(target, folder, "build")
    return next(folder.glob("BUILD/**/train/train"))


def under_sdk(target: str, folder: Path, *goals: str) -> None:
    """By the SDK's rules, wherever its link script ends."""
    words = f"source {config_of(target)}; make -s -C {folder} {' '.join(goals)} L2_THERE={16 << 20} SIZES=any"
    make(["bash", "-c", words], folder)


def make(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{folder} does not build:\n{done.stderr[-2000:]}")


def linked(target: str, program: Path) -> dict[str, int]:
    at = {s.name: s.value for s in Elf.of(program).symbols}
    if not of_sdk(target):
        return {"flash": at["tl_linked_flash"], "RAM": at["tl_linked_ram"]}
    return {"L1": at["__l1_end"] - L1, "L2": at["_l1_preload_start_inL2"] + at["_l1_preload_size"] - L2}


def planned(folder: Path) -> dict[str, int]:
    plan = read_plan(folder)
    inner, image = next(iter(plan["levels"].values())), plan["image"]
    flash = {"flash": image["flash"]["run"]} if image["flash"] else {}
    return {"L1": inner["used"] + inner["reserved"], "L2": image["run"], "RAM": image["run"], **flash}


def estimated(folder: Path) -> dict[str, int]:
    """Bytes of shares that are, of a plan for the verification run."""
    image = read_plan(folder)["image"]
    outer, flash = image["shares"], image["flash"]["shares"]

    def size(shares: list[dict[str, Any]]) -> int:
        return sum(s["bytes"] for s in shares if s["what"].endswith(ESTIMATED) and s["only"] != FIRMWARE)

    return {"L2": size(outer), "RAM": size(outer), "flash": size(flash)}


def rows(example: Path, target: str, folder: Path, dtype: str) -> list[Row]:
    kept = (folder / PLAN).is_file()
    if not kept:
        deploy(example, target, folder, dtype)
    found = linked(target, build(target, folder))
    with tempfile.TemporaryDirectory() as work:
        again = Path(work) / "p"
        if kept:
            deploy(example, target, again, dtype)  # the folder's plan may be older than the sizes of code
        plan = again if kept else folder
        wanted, guessed = planned(plan), estimated(plan)
    return [Row(memory, wanted[memory], size, guessed.get(memory, 0)) for memory, size in found.items()]


def lines(example: Path, target: str, folder: Path, dtype: str) -> Iterator[tuple[str, bool]]:
    start = f"| {target} | {example.stem}{f' {dtype}' if dtype != 'fp32' else ''} |"
    try:
        for row in rows(example, target, folder, dtype):
            yield f"{start} {row} |", row.holds
    except DoesNotFit as refused:
        yield f"{start} refused by the plan: {refused.message.splitlines()[0]} | | | |", True
    except RuntimeError as failed:
        beyond = OVERFLOW.search(str(failed))
        if beyond is None:
            raise
        yield f"{start} {int(beyond[1]):,} bytes more than the SDK's script has | | | |", True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", default=",".join(buildable()))
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("examples", nargs="*", type=example)
    given = parser.parse_args()
    print("| target | example | memory | planned | linked | |\n|---|---|---|---|---|---|", flush=True)
    wrong = 0
    for path, dtype, target in product(
        given.examples or all_examples(), given.dtype.split(","), given.targets.split(",")
    ):
        with tempfile.TemporaryDirectory() as work:
            folder = folder_of(given.keep or Path(work), target, path, dtype)
            for line, holds in lines(path, target, folder, dtype):
                print(line if holds else f"{line} <- wrong", flush=True)
                wrong += not holds
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
