"""What each operation of a step takes, measured: a project built with its profile and run."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainlib_deployer.errors import VerificationFailed
from trainlib_deployer.folder import check_cores, read_plan
from trainlib_deployer.frames import frame
from trainlib_deployer.html import table
from trainlib_deployer.report.runs import Measured, read_profile
from trainlib_deployer.run import Profiling, backend

KEPT = ("index", "name", "kind", "phase", "layer", "macs", "source")
SHOWN = 20  # operations in a notebook


@dataclass(frozen=True)
class Profile:
    """The operations of one step, in their order, with what each took."""

    name: str
    on: str
    unit: str  # nanoseconds, cycles or instructions
    rows: tuple[Mapping[str, Any], ...]

    @property
    def total(self) -> int:
        return sum(row[self.unit] for row in self.rows)

    @property
    def costliest(self) -> list[Mapping[str, Any]]:
        return sorted(self.rows, key=lambda row: -int(row[self.unit]))

    def share(self, row: Mapping[str, Any]) -> str:
        return f"{100 * row[self.unit] / max(self.total, 1):.1f} %"

    def __repr__(self) -> str:
        first = self.costliest[0]
        most = f"most in {first['name']} ({self.share(first)})"
        return f"Profile({self.name} on {self.on}: {self.total:,} {self.unit} in {len(self.rows):,} operations, {most})"

    def _repr_html_(self) -> str:
        """The costliest operations."""
        rows = ((row["name"], f"{row[self.unit]:,}", self.share(row)) for row in self.costliest[:SHOWN])
        return table(repr(self), ("operation", self.unit, "share"), rows)

    def to_dataframe(self) -> Any:
        """A row an operation."""
        return frame(self.rows)


def profiled(folder: Path, on: str = "host", cores: int | None = None) -> Profile:
    """One step, on this machine, on a simulator or under PULP-SDK."""
    plan = read_plan(folder)
    check_cores(cores, plan)
    backend(on).check_tools()
    measured = taken(folder, on, cores, len(plan["ops"]))
    rows = tuple({k: op[k] for k in KEPT} | {measured.unit: measured.taken[op["index"]]} for op in plan["ops"])
    return Profile(plan["model"]["name"], on, measured.unit, rows)


def taken(folder: Path, on: str, cores: int | None, operations: int) -> Measured:
    variables = {"TRACE": 0, "PROFILE": 1, "STEPS": 1} | ({} if cores is None else {"CORES": cores})
    chosen = backend(on)
    if not isinstance(chosen, Profiling):
        with tempfile.TemporaryDirectory() as place:
            counts: Any = chosen.run(folder, 1, cores, Path(place, "record")).counts
        return Measured(counts["unit"], {o["position"]: o["instructions"] for o in counts["operations"]})
    said = chosen.profile(folder, variables)
    measured = read_profile(said, operations)
    if measured is None:
        raise VerificationFailed(f"the program printed no profile of {operations} operations:\n{said[-2000:]}")
    return measured
