"""Builds projects for the host like their Makefile, but compiles a source that has not changed only once."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from trainlib_deployer.run.host import Host
from trainlib_deployer.run.make import run_program
from trainlib_deployer.run.result import RunResult
from trainlib_deployer.run.sections import check_sections
from trainlib_deployer.run.witness import WITNESS, Witness, witness_text

FLAGS = ("-std=gnu99", "-g", "-ffp-contract=off", "-fno-math-errno", "-Wall", "-Wextra", "-Werror", "-pthread")
TIMEOUT = 60.0


ROUNDING = """\
#include <fenv.h>
__attribute__((constructor)) static void other_rounding(void)
{
    fesetround(%s); /* threads inherit it */
}
"""


class BuildFailed(Exception):
    """The compiler's own words."""


@cache
def arch() -> tuple[str, ...]:
    """A fused multiply-add in one instruction where the machine has it, as in the Makefile."""
    cpu = Path("/proc/cpuinfo")
    return ("-mfma",) if cpu.exists() and " fma " in cpu.read_text() else ()


@dataclass(frozen=True)
class CachedHost:
    """Like run.host.Host, with objects kept in `store`."""

    store: Path
    sanitize: str = ""
    poison: bool = False
    witnesses: Sequence[Witness] = ()

    def run(self, folder: Path, steps: int, cores: int, record: Path) -> RunResult:
        program = self.build(folder, steps, cores)
        if not self.sanitize:
            check_sections(program, folder)
        return RunResult({}, run_program([str(program)], {"TL_RECORD": str(record.resolve())}, TIMEOUT))

    def run_rounding(self, folder: Path, mode: str, record: Path) -> None:
        """The program as built by `run`, with every operation rounded upwards or downwards: FE_UPWARD, FE_DOWNWARD."""
        out = folder / "build" / "host"
        (out / "rounding.c").write_text(ROUNDING % mode)
        compile_c(out, "rounding.c", out / "rounding.o", [])
        objects = (out / "objects").read_text().split()
        program = link(out / "train-rounding", [*objects, str(out / "rounding.o")], self.sanitize)
        run_program([str(program)], {"TL_RECORD": str(record.resolve())}, TIMEOUT)

    def build(self, folder: Path, steps: int, cores: int) -> Path:
        out = folder / "build" / "host"
        out.mkdir(parents=True, exist_ok=True)
        defines = [f"-DTL_STEPS={steps}", f"-DPLAN_CORES={cores}", "-DNET_TRACE"]
        defines += ["-DNET_POISON"] if self.poison else []
        if self.witnesses:
            (folder / WITNESS).write_text(witness_text(self.witnesses))
            defines.append(f'-DNET_WITNESS="{WITNESS}"')
        sanitizer = [f"-fsanitize={self.sanitize}", "-fno-sanitize-recover=all"] if self.sanitize else ["-fno-pie"]
        objects = []
        for name in sorted({p.name for p in folder.glob("*.c")} - {"learn.c"}):  # new in every project; not the kernels
            objects.append(out / f"{Path(name).stem}.o")
            compile_c(folder, name, objects[-1], [*defines, *sanitizer, "-O0" if name == "data.c" else "-O1"])
        objects += [self.kept(folder, f"kernels/{p.name}", sanitizer) for p in sorted(folder.glob("kernels/*.c"))]
        names = [str(o.resolve()) for o in objects]
        (out / "objects").write_text("\n".join(names))
        return link(out / "train", names, self.sanitize)

    def kept(self, folder: Path, name: str, flags: list[str]) -> Path:
        """The object of a kernel, keyed by what it is made from."""
        headers = [p.read_text() for p in sorted(folder.glob("kernels/*.h"))]
        text = "\0".join([compiler(), *FLAGS, *arch(), *flags, (folder / name).read_text(), *headers])
        made = self.store / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.o"
        if not made.exists():
            self.store.mkdir(parents=True, exist_ok=True)
            new = made.with_suffix(f".{os.getpid()}")
            compile_c(folder, name, new, [*flags, "-O2"])
            new.replace(made)
        return made


def compiler() -> str:
    Host().check_tools()
    return shutil.which(os.environ.get("CC", "cc").split()[0]) or "cc"


def link(program: Path, objects: list[str], sanitize: str) -> Path:
    flags = [f"-fsanitize={sanitize}"] if sanitize else ["-no-pie"]
    command([compiler(), *flags, "-o", str(program.resolve()), *objects, "-pthread", "-lm"], program.parent)
    return program.resolve()


def compile_c(folder: Path, source: str, made: Path, flags: list[str]) -> None:
    command([compiler(), *FLAGS, *arch(), *flags, "-Ikernels", "-I.", "-c", "-o", str(made.resolve()), source], folder)


def command(words: list[str], folder: Path) -> None:
    done = subprocess.run(words, cwd=folder.resolve(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildFailed(done.stderr.strip()[:2000])
