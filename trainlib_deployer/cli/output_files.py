"""Files that a command writes beside what it prints: refused before the work begins, `-` is stdout."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainlib_deployer.errors import UsageError
from trainlib_deployer.folder import write_fault

STDOUT = Path("-")


def check_output_file(path: Path | None, option: str) -> None:
    if path is None or path == STDOUT:
        return
    if path.is_dir():
        raise UsageError(f"{option}: {path} is a directory")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"{option}: there is no directory {path.parent}")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise UsageError(f"{option}: {path} cannot be written", remedy="give another place")


def check_output_files(json_file: Path | None, csv_file: Path | None) -> None:
    """Of a command that writes rows both ways."""
    check_output_file(json_file, "--json")
    check_output_file(csv_file, "--csv")
    if json_file == csv_file == STDOUT:
        raise UsageError("--json and --csv cannot both write to stdout")


def write_file(path: Path, write: Callable[[Path], Any]) -> None:
    try:
        write(path)
    except (OSError, RuntimeError) as err:
        if not write_fault(err):
            raise
        raise UsageError(f"cannot write {path}: {write_fault(err)}") from err


def write_text(path: Path, text: str) -> None:
    if path == STDOUT:
        print(text, end="")
    else:
        write_file(path, lambda p: p.write_text(text))


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=1) + "\n")
