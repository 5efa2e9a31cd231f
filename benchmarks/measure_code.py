"""The sections of every kernel and of the hardware layer, as a compiler makes them: trainlib_deployer/image/measured.

    python -m benchmarks.measure_code BUILD ...     pulp-sdk (with PULP-SDK's configs/*.sh sourced), ...

A project of all kernels is built by the rules of a deployed one. One line a section: its name (a function's or a
variable's; of a local one, behind its file's), kind, bytes, what it mentions. One line a source: what its text was, and
its sections. What an instruction set makes otherwise that some of the compiler's chips lack is in a file of its own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.objects import Elf
from trainlib_deployer.emit import resources
from trainlib_deployer.emit.render import rendered
from trainlib_deployer.emit.sizes import texts
from trainlib_deployer.image.measured import SOURCE
from trainlib_deployer.machine.build import Board
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.machine.targets import TARGETS

STEP = ("net", "loops", "main", "state")  # sources of a deployed step
MEASURED = Path(__file__).resolve().parents[1] / "trainlib_deployer" / "image" / "measured"


@dataclass(frozen=True)
class Build:
    """How a project is built, and what says which compiler does it."""

    target: str
    version: tuple[str, ...]
    flags: str
    layer: tuple[str, ...]  # sources of the hardware layer: the others are other machines'
    goal: tuple[str, ...]  # makes the objects of the library; none: their own names
    objects: str
    step_goal: tuple[str, ...]  # makes those of a deployed step, in a folder
    step_objects: str
    others: tuple[str, ...] = ()  # more targets whose plans are told from this compiler's sizes


SDK = Build(
    "pulp-open",
    ("clang-19", "--version"),
    "PULP-SDK's rules, -O2, rv32imc_zfinx without PULP's own instructions",
    ("pulp", "pulp_files"),
    ("build", "SIZES=any"),
    "BUILD/**/kernels/*.o",
    tuple(f"{{}}/BUILD/$TARGET_CHIP/GCC_RISCV//train/{source}.o" for source in STEP),
    "BUILD/**/train/%s.o",
    ("siracusa",),
)


def of_board(target: str, board: Board) -> Build:
    return Build(
        target,
        (f"{board.cross}gcc", "--version"),
        f"-O2 {board.flags}",
        ("single", "single_cortexm", "single_rv32", "soft", "rv32_memory"),
        (),
        "build/qemu-gcc/kernels/*.o",
        tuple(f"build/qemu-gcc/{source}.o" for source in STEP),
        "build/qemu-gcc/%s.o",
    )


BUILDS: Mapping[str, Build] = {"pulp-sdk": SDK} | {
    machine.build.compiler: of_board(name, machine.build.board)
    for name, machine in reversed(TARGETS.items())  # of chips with one compiler the first
    if machine.build is not None and machine.build.board is not None
}


def project_of_all(folder: Path, target: Machine) -> None:
    """Every kernel with every header, and a program that does nothing: objects are what is wanted."""
    root = resources.c_lib_dir()
    (folder / "kernels").mkdir()
    for part in ("hal", "kernels", "include", "ukernels"):
        for path in (root / part).rglob("*.*"):
            shutil.copyfile(path, folder / "kernels" / path.name)
    for name in ("net.c", "loops.c", "state.c", "fit.c", "weights.c", "data.c"):
        (folder / name).write_text("extern int nothing;\n")
    (folder / "main.c").write_text(
        '#include "tl_hal.h"\nint main(void) { tl_init(); tl_puts(""); tl_exit(0); return 0; }\n'
    )
    context = {"model": "all", "steps": 1, "target": target, "levels": [{"used": 0}], "built": None, "trains": True}
    context |= {"learns_otherwise": False, "far": None}
    (folder / "Makefile").write_text(rendered("Makefile.j2", context))


def sections(path: Path) -> Iterator[str]:
    elf = Elf.of(path)
    named: dict[int, list[str]] = {}
    for s in elf.symbols:
        if s.name and not s.name.startswith(("$", ".L")):
            named.setdefault(s.section, []).append(f"{path.stem}:{s.name}" if s.local else s.name)
    keys = {
        i: next(iter(sorted(named.get(i, ()), key=lambda n: ":" in n)), f"{path.stem}:{s.name}")
        for i, s in enumerate(elf.sections)
        if s.loaded
    }
    for i, key in keys.items():
        needs = {keys.get(s.section, "") if not s.undefined else s.name for s in elf.needs(i)}
        also = [n for n in named.get(i, ()) if n != key and ":" not in n]
        yield from (f"{n} is 0 {key}" for n in also)
        yield " ".join((key, elf.sections[i].kind, str(elf.linked(i)), *sorted(needs - {"", key})))


def measured(build: Build, without: Iterable[str] = ()) -> list[str]:
    """Of its first target, if that had none of these instruction sets."""
    target = TARGETS[build.target]
    sets = tuple(name for name in target.team.instruction_sets if name not in without)
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        project_of_all(folder, replace(target, team=replace(target.team, instruction_sets=sets)))
        sources = sorted(p.stem for p in (folder / "kernels").glob("*.c"))
        goal = build.goal or [build.objects.replace("*", stem) for stem in sources if mine(stem, build)]
        subprocess.run(["make", "-s", "-j2", "-C", work, "WARNINGS=", *goal], check=True, stdout=subprocess.DEVNULL)
        wanted = [p for p in sorted(folder.glob(build.objects)) if mine(p.stem, build)]
        if not wanted:
            raise RuntimeError(f"nothing was compiled: for {build.target}, source PULP-SDK's configs/{build.target}.sh")
        contents = {text.name: text.content for text in texts()}
        return sorted({line for path in wanted for line in (*sections(path), *source(path, contents))})


def source(path: Path, contents: Mapping[str, str]) -> Iterator[str]:
    """Of an object of the library, what it was made of, and what is in it."""
    if path.stem in contents:
        own = sorted({line.split()[0] for line in sections(path)})
        yield " ".join((path.stem, SOURCE, contents[path.stem], *own))


def some_lack(build: Build) -> set[str]:
    """Instruction sets that not all of a compiler's targets have."""
    sets = [{*m.team.instruction_sets} for m in TARGETS.values() if m.build and BUILDS.get(m.build.compiler) == build]
    return set.union(*sets) - set.intersection(*sets)


def mine(stem: str, build: Build) -> bool:
    others = {p.stem for p in (resources.c_lib_dir() / "hal").iterdir()} - {*build.layer}
    return stem not in others


def main(names: list[str]) -> None:
    for name in names or BUILDS:
        build = BUILDS[name]
        version = subprocess.run(build.version, capture_output=True, text=True, check=True).stdout.splitlines()[0]
        lacked = some_lack(build)
        plain = measured(build, lacked)
        (MEASURED / f"{name}.sections").write_text("\n".join((f"# {version.strip()}", f"# {build.flags}", *plain, "")))
        for more in lacked:
            others = [line for line in measured(build, lacked - {more}) if line not in plain]
            (MEASURED / f"{name}.{more}.sections").write_text("\n".join((*others, "")))


if __name__ == "__main__":
    main(sys.argv[1:])
