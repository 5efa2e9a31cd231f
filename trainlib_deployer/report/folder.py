"""report.html of a project that stands: written anew with what runs have found out since."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainlib_deployer.errors import UsageError
from trainlib_deployer.folder import edited_files, note_written, perhaps_another_version, read_plan, write_whole
from trainlib_deployer.report.runs import VERDICT, Measured, read_profile, read_verdict

REPORT = "report.html"


def refreshed(folder: Path, profile: Path | None = None) -> Path:
    """The report with the last verification, and with the measured times of a profile's output."""
    write_report(folder, page_of(folder, profile))
    return folder / REPORT


def compared(folder: Path, other: Path, out: Path, profile: Path | None = None) -> Path:
    """A page of its own: the project's report, beginning with how another one differs."""
    write(out, page_of(folder, profile, other))
    return out


def page_of(folder: Path, profile: Path | None, other: Path | None = None) -> str:
    from trainlib_deployer.report.page import report  # with templates, which --help has no time for

    plan, beside = read_plan(folder), read_plan(other) if other else None
    with perhaps_another_version(folder), perhaps_another_version(other or folder):
        return report(plan, read_verdict(folder), measured(profile, plan), beside)


def note_verdict(folder: Path, verdict: Mapping[str, Any]) -> None:
    """For the report of a project that may be written to and whose report nobody has edited."""
    with contextlib.suppress(UsageError):
        write(folder / VERDICT, json.dumps(verdict))
        refreshed(folder)


def measured(profile: Path | None, plan: Mapping[str, Any]) -> Measured | None:
    if profile is None:
        return None
    try:
        text = profile.read_text(errors="replace")
    except OSError as err:
        raise UsageError(f"cannot read {profile}: {err.strerror or err}") from err
    found = read_profile(text, len(plan["ops"]))
    if found is None:
        raise UsageError(
            f"{profile} has no table of {len(plan['ops'])} operations",
            remedy="write what a profiling build prints to a file: make host PROFILE=1 > profile.txt",
        )
    return found


def write_report(folder: Path, page: str) -> None:
    """Over one that nobody has edited."""
    if REPORT in edited_files(folder):
        raise UsageError(f"{folder / REPORT} was edited; nothing was overwritten", remedy="move it elsewhere")
    write(folder / REPORT, page)
    try:
        note_written(folder, [REPORT])
    except OSError as err:
        raise UsageError(f"cannot write in {folder}: {err.strerror or err}") from err


def write(path: Path, page: str) -> None:
    try:
        path.parent.mkdir(exist_ok=True)
        write_whole(path, page)
    except OSError as err:
        raise UsageError(f"cannot write {path}: {err.strerror or err}") from err
