"""What each operation of a project takes, found by running it. All that this needs comes as an argument, so that a
worker on another computer may be asked."""

from __future__ import annotations

import io
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from trainlib_deployer.folder import stored_plan
from trainlib_deployer.report import profile as report
from trainlib_deployer.report.runs import Measured

WITHIN: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python 3.11.2 has none
RUNS = {"nanoseconds": 5}  # of which the least counts: other programs run beside it


def packed(folder: Path) -> bytes:
    """A project as one value."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.add(folder, arcname=".")
    return made.getvalue()


def taken(project: bytes, on: str) -> Measured:
    """What a packed project's operations take there."""
    with tempfile.TemporaryDirectory(prefix="trainlib-deploy-") as scratch:
        with tarfile.open(fileobj=io.BytesIO(project)) as archive:
            archive.extractall(scratch, **WITHIN)
        found = [once(Path(scratch), on)]
        found += [once(Path(scratch), on) for _ in range(1, RUNS.get(found[0].unit, 1))]
    return Measured(found[0].unit, {at: min(f.taken[at] for f in found) for at in found[0].taken})


def once(folder: Path, on: str) -> Measured:
    return report.taken(folder, on, None, len(stored_plan(folder)["ops"]))
