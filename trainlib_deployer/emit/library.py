"""Which files of the C library a project needs: those of the kernels that it calls, and what they call in turn.

The library is written so that this can be read off: clang-format puts a definition at the first column and closes it
there, and only headers hold code that others take part of.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from trainlib_deployer.emit import resources

WORD = re.compile(r"\b(?:tl|TL)_\w+")
FUNCTION = re.compile(r"^[A-Za-z_][^\n;{}=#]*?\b(tl_\w+)\([^;{}]*\)\n\{\n.*?^\}", re.MULTILINE | re.DOTALL)
MACRO = re.compile(r"^#define (TL_\w+)(?:.*\\\n)*.*$", re.MULTILINE)
INCLUDE = re.compile(r'^#include "(\w+\.\w+)"', re.MULTILINE)


def copy_library(folder: Path, rows: Iterable[str], texts: Iterable[str]) -> None:
    """The sources of kernels and what `texts` need besides, into one flat folder with their headers and the hardware
    layer."""
    root = resources.c_lib_dir()
    folder.mkdir()
    sources = {p: p.read_text() for p in sorted((root / "kernels").rglob("*.c"))}
    headers = {p.name: p for part in ("include", "ukernels") for p in sorted((root / part).glob("*.h"))}
    hal = [p for p in sorted((root / "hal").iterdir()) if p.is_file()]
    chosen = needed([root / "kernels" / row for row in rows], sources, headers.values(), texts)
    wanted = headers_of([p.read_text() for p in (*chosen, *hal)] + list(texts), headers)
    for path in (*chosen, *hal, *wanted):
        shutil.copyfile(path, folder / path.name)


def needed(first: list[Path], sources: dict[Path, str], headers: Iterable[Path], texts: Iterable[str]) -> list[Path]:
    """Close a set of sources under 'mentions what another one defines'. Of a header only those definitions count that
    are mentioned themselves."""
    inline = {name: text for path in headers for name, text in definitions(path.read_text())}
    defines = {name: path for path, text in sources.items() for name, _ in definitions(text)}
    chosen = list(dict.fromkeys(first))
    seen: set[str] = set()
    todo = [*texts, *(sources[path] for path in chosen)]
    while todo:
        for name in dict.fromkeys(WORD.findall(todo.pop())):
            if name in seen:
                continue
            seen.add(name)
            if name in inline:
                todo.append(inline[name])
            elif name in defines and defines[name] not in chosen:
                chosen.append(defines[name])
                todo.append(sources[defines[name]])
    return sorted(chosen)


def definitions(text: str) -> list[tuple[str, str]]:
    """Functions and macros, each with its text."""
    return [(m[1], m[0]) for pattern in (FUNCTION, MACRO) for m in pattern.finditer(text)]


def headers_of(texts: list[str], headers: dict[str, Path]) -> list[Path]:
    chosen: list[Path] = []
    todo = list(texts)
    while todo:
        for name in INCLUDE.findall(todo.pop()):
            path = headers.get(name)
            if path is not None and path not in chosen:
                chosen.append(path)
                todo.append(path.read_text())
    return sorted(chosen)
