"""What each operation of a project takes, found by running it. All that this needs comes as an argument, so that a
worker on another computer may be asked."""

from __future__ import annotations

import io
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from trainlib_deployer.folder import stored_plan
from trainlib_deployer.report import profile as report

RUNS = {"nanoseconds": 5}  # of which the least counts: other programs run beside it


@dataclass(frozen=True)
class Taken:
    """By each operation of a step, and in what unit."""

    unit: str
    each: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.each)


def packed(folder: Path) -> bytes:
    """A project as one value."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.add(folder, arcname=".")
    return made.getvalue()


def taken(project: bytes, on: str) -> Taken:
    """What a packed project's operations take there."""
    with tempfile.TemporaryDirectory(prefix="trainlib-deploy-") as scratch:
        with tarfile.open(fileobj=io.BytesIO(project)) as archive:
            archive.extractall(scratch, filter="data")
        found = [once(Path(scratch), on)]
        found += [once(Path(scratch), on) for _ in range(1, RUNS.get(found[0].unit, 1))]
    return Taken(found[0].unit, tuple(map(min, zip(*(f.each for f in found), strict=True))))


def once(folder: Path, on: str) -> Taken:
    found = report.taken(folder, on, None, len(stored_plan(folder)["ops"]))
    return Taken(found.unit, tuple(found.taken[at] for at in sorted(found.taken)))
