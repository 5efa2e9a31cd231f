"""House rules that no linter knows: no paths of one machine, no file too long to read."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
WIDEST = 120
LONGEST = {".py": 400, ".c": 300, ".h": 300, ".inc": 300, ".S": 300, ".j2": 120}
SKIPPED = {"generated", "out", "build", "__pycache__"}
OURS = {".ci", ".clang-format", ".gitignore"}
TEXT = {".py", ".c", ".h", ".inc", ".S", ".ld", ".j2", ".md", ".toml", ".cfg", ".txt", ".json", ".yml", ".yaml", ""}
# Spelled in pieces, so that this file passes its own test.
PLACES = ("/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "/Use" + "rs/", "/tm" + "p/", "site-" + "packages/torch")
MACHINE_PATH = re.compile("|".join(rf"(?<![\w.]){re.escape(p)}" for p in PLACES))


@cache
def files() -> tuple[Path, ...]:
    """All that is written by hand: text outside of what tools make, which nobody looks into."""
    found: list[Path] = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if not hidden(f))
        found += [Path(folder, name) for name in sorted(names) if not hidden(name) and Path(name).suffix in TEXT]
    return tuple(found)


def hidden(part: str) -> bool:
    caches = part.startswith(".") and part not in OURS
    return caches or part in SKIPPED or part.endswith(".egg-info")


def machine_paths(text: str) -> list[str]:
    named = any(place in text for place in PLACES)
    return [line.strip() for line in text.splitlines() if MACHINE_PATH.search(line)] if named else []


def test_no_paths_of_one_machine() -> None:
    found = {str(p.relative_to(ROOT)): machine_paths(p.read_text(errors="replace")) for p in files()}
    assert len(found) > 50, "the files were not found"
    assert not {name: lines for name, lines in found.items() if lines}


def test_no_file_is_too_long_to_read() -> None:
    long = {}
    for path in files():
        lines, most = len(path.read_text(errors="replace").splitlines()), LONGEST.get(path.suffix)
        if most is not None and lines > most:
            long[path.relative_to(ROOT).as_posix()] = f"{lines} lines, at most {most}"
    assert not long


def wide(text: str) -> list[str]:
    return [line for line in text.splitlines() if len(line) > WIDEST]


def test_no_line_of_c_is_too_wide_to_read() -> None:
    """Comments and assembler, too, which no formatter breaks everywhere; link scripts, micro-kernels and templates,
    which it never sees. Other tests hold generated C to it."""
    rooms = {ROOT / "c_lib", ROOT / "trainlib_deployer" / "emit" / "templates"}
    ours = [path for path in files() if rooms & set(path.parents)]
    assert {path.suffix for path in ours} >= {".c", ".h", ".inc", ".S", ".ld", ".j2"}, "the files were not found"
    found = {path.relative_to(ROOT).as_posix(): wide(path.read_text()) for path in ours}
    assert not {name: lines for name, lines in found.items() if lines}


def test_a_wide_line_is_found() -> None:
    assert wide(f"{'x' * WIDEST}\n{'y' * (WIDEST + 1)}\n") == ["y" * (WIDEST + 1)]


@pytest.mark.parametrize("start", PLACES[:-1])
def test_a_planted_path_is_found(start: str) -> None:
    assert machine_paths(f"x = 1\nsee '{start}net.py'\n") == [f"see '{start}net.py'"]
    assert machine_paths(f"see {start}net.py")


@pytest.mark.parametrize("fine", ["https://example.org/home/page", "/dev/null", "build/home/x", "tests/tmp/x"])
def test_other_paths_are_fine(fine: str) -> None:
    assert not machine_paths(fine)
