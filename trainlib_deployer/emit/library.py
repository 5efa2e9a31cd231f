"""Which files of the C library a project needs: those that define what it calls, and what they call in turn."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from trainlib_deployer.emit import resources

WORD = re.compile(r"\btl_\w+")
DEFINITION = re.compile(r"^[A-Za-z_][\w \*]*?\b(tl_\w+)\(", re.MULTILINE)
INCLUDE = re.compile(r'^#include "(?:.*/)?(\w+\.\w+)"', re.MULTILINE)


def copy_library(folder: Path, texts: Iterable[str]) -> None:
    """The kernels that `texts` need, into one flat folder with their headers and the hardware layer."""
    root = resources.c_lib_dir()
    folder.mkdir()
    sources = {p: p.read_text() for part in ("kernels", "ukernels") for p in sorted((root / part).glob("*.c"))}
    headers = {p.name: p for part in ("include", "ukernels") for p in sorted((root / part).glob("*.h"))}
    hal = [p for p in sorted((root / "hal").iterdir()) if p.is_file()]
    chosen = needed(sources, [*texts, *(headers[n].read_text() for n in ("tl_loop.h", "tl_math.h"))])
    wanted = headers_of([p.read_text() for p in (*chosen, *hal)] + list(texts), headers)
    for path in (*chosen, *hal, *wanted):
        (folder / path.name).write_text(path.read_text().replace('"../ukernels/', '"'))


def needed(sources: dict[Path, str], texts: list[str]) -> list[Path]:
    """Close the set of files under 'mentions a function that the file defines'."""
    defines = {name: path for path, text in sources.items() for name in DEFINITION.findall(text)}
    chosen: list[Path] = []
    todo = list(texts)
    while todo:
        for name in dict.fromkeys(WORD.findall(todo.pop())):
            path = defines.get(name)
            if path is not None and path not in chosen:
                chosen.append(path)
                todo.append(sources[path])
    return sorted(chosen)


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
