"""The sections of every kernel and of the hardware layer, as a compiler makes them: trainlib_deployer/image/measured.

    python -m benchmarks.measure_code BUILD ...     pulp-sdk (with PULP-SDK's configs/*.sh sourced), ...

A project of all kernels is built by the rules of a deployed one. One line a section: its name (a function's or a
variable's; of a local one, behind its file's), kind, bytes, what it mentions.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.objects import Elf
from trainlib_deployer.emit import resources
from trainlib_deployer.emit.render import rendered

MEASURED = Path(__file__).resolve().parents[1] / "trainlib_deployer" / "image" / "measured"


@dataclass(frozen=True)
class Build:
    """How a project is built, and what says which compiler does it."""

    goal: tuple[str, ...]
    version: tuple[str, ...]
    flags: str
    source: str  # of the hardware layer: the others are other machines'
    target: str
    objects: str = "BUILD/**/kernels/*.o"
    of_project: str = "BUILD/**/train/%s.o"


BUILDS: Mapping[str, Build] = {
    "pulp-sdk": Build(
        ("all",),
        ("clang-19", "--version"),
        "PULP-SDK's rules, -O2, rv32imc_zfinx without PULP's own instructions",
        "pulp",
        "pulp-open",
    ),
}


def project_of_all(folder: Path) -> None:
    """Every kernel with every header, and a program that does nothing: objects are what is wanted."""
    root = resources.c_lib_dir()
    (folder / "kernels").mkdir()
    for part in ("hal", "kernels", "include", "ukernels"):
        for path in (root / part).rglob("*.*"):
            shutil.copyfile(path, folder / "kernels" / path.name)
    for name in ("net.c", "loops.c", "state.c", "weights.c", "data.c"):
        (folder / name).write_text("extern int nothing;\n")
    (folder / "main.c").write_text(
        '#include "tl_hal.h"\nint main(void) { tl_init(); tl_puts(""); tl_exit(0); return 0; }\n'
    )
    (folder / "Makefile").write_text(rendered("Makefile.j2", {"model": "all", "steps": 1, "target": Sizes}))


class Sizes:
    """What the Makefile asks of a machine."""

    cores = 8

    class inner:
        size = 1 << 16

    class outer:
        size = 1 << 19


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
        yield " ".join((key, elf.sections[i].kind, str(elf.sections[i].size), *sorted(needs - {"", key})))


def measured(build: Build) -> str:
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        project_of_all(folder)
        subprocess.run(["make", "-s", "-j2", "-C", work, *build.goal], check=True, stdout=subprocess.DEVNULL)
        wanted = [p for p in sorted(folder.glob(build.objects)) if mine(p, build)]
        lines = sorted({line for path in wanted for line in sections(path)})
    version = subprocess.run(build.version, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    return "\n".join((f"# {version.strip()}", f"# {build.flags}", *lines, ""))


def mine(path: Path, build: Build) -> bool:
    layer = {p.stem for p in (resources.c_lib_dir() / "hal").iterdir()}
    return path.stem not in layer or path.stem.startswith(build.source)


def main(names: list[str]) -> None:
    for name in names or BUILDS:
        (MEASURED / f"{name}.sections").write_text(measured(BUILDS[name]))
        print(f"{name}: {len((MEASURED / f'{name}.txt').read_text().splitlines()) - 2} sections")


if __name__ == "__main__":
    main(sys.argv[1:])
