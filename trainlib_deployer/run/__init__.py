"""Where a project runs: one small interface, one file a back end."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

from trainlib_deployer.errors import UsageError
from trainlib_deployer.run.result import RunResult

BACKENDS = {
    "host": ("host", "Host"),
    "qemu": ("qemu", "Qemu"),
    "spike": ("spike", "Spike"),
    "gvsoc": ("gvsoc", "Gvsoc"),
    "qemu-arm": ("board", "QemuArm"),
    "qemu-riscv": ("board", "QemuRiscv"),
}
EMULATED = "qemu"  # the cluster without PULP's tools
SIMULATED = "gvsoc"  # with them


class Backend(Protocol):
    def check_tools(self) -> None:
        """Raises ToolMissing when the run cannot work on this machine."""
        ...

    def run(self, folder: Path, steps: int, cores: int | None, record: Path) -> RunResult:
        """Build the project, run `steps` training steps, leave every traced tensor in `record`."""
        ...


@runtime_checkable
class Profiling(Protocol):
    """One whose programs print what each operation took; the others count it."""

    def profile(self, folder: Path, variables: Mapping[str, object]) -> str:
        """What a program that is built with these prints."""
        ...


def backend(name: str) -> Backend:
    if name not in BACKENDS:
        raise UsageError(f"cannot run on '{name}'", remedy=f"back ends: {', '.join(BACKENDS)}")
    module, found = BACKENDS[name]
    return cast(Backend, getattr(import_module(f"trainlib_deployer.run.{module}"), found)())
