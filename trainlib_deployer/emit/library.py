"""Which files of the C library a project needs: those of the kernels that it calls, and what they call in turn.

The library is written so that this can be read off: clang-format puts a definition at the first column and closes it
there, and only headers hold code that others take part of. A source that defines TL_HALVES sees others by the names
that they have for halves (tl_element.h).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from trainlib_deployer.emit import resources
from trainlib_deployer.formats import DType

WORD = re.compile(r"\b(?:tl|TL)_\w+")
FUNCTION = re.compile(r"^[A-Za-z_][^\n;{}=#]*?\b(tl_\w+)\([^;{}]*\)\n\{\n.*?^\}", re.MULTILINE | re.DOTALL)
MACRO = re.compile(r"^#define (TL_\w+)(?:.*\\\n)*.*$", re.MULTILINE)
HALVES = re.compile(r"^#define TL_HALVES$", re.MULTILINE)
FOR_HALVES = re.compile(r"^#define (tl_\w+) (\1_f16)$", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
INCLUDE = re.compile(r'^#include "(\w+\.\w+)"', re.MULTILINE)


@dataclass(frozen=True)
class Library:
    """The sources and headers, each with its text; a source has the micro-kernels (.inc) in its own."""

    sources: dict[Path, str]
    headers: dict[str, Path]
    inline: dict[str, str]  # functions and macros of headers
    defines: dict[str, Path]  # functions that others may call

    @staticmethod
    @cache
    def at(root: Path) -> Library:
        headers = {p.name: p for part in ("include", "ukernels") for p in sorted((root / part).iterdir())}
        texts = {name: p.read_text() for name, p in headers.items()}
        parts = {name: text for name, text in texts.items() if name.endswith(".inc")}
        inline = {m[1]: m[0] for text in texts.values() for what in (FUNCTION, MACRO) for m in what.finditer(text)}
        typed = {*inline, *(m[1] for text in texts.values() for m in FOR_HALVES.finditer(text))}

        def for_halves(text: str) -> str:
            return WORD.sub(lambda m: f"{m[0]}_f16" if m[0] in typed else m[0], text)

        sources = {}
        for path in sorted((root / "kernels").rglob("*.c")):
            text = path.read_text()
            whole = "\n".join((text, *(parts.get(name, "") for name in INCLUDE.findall(text))))
            sources[path] = for_halves(whole) if HALVES.search(text) else whole
        inline |= {f"{name}_f16": for_halves(text) for name, text in inline.items()}
        defines = {
            m[1]: path
            for path, text in sources.items()
            for m in FUNCTION.finditer(text)
            if not m[0].startswith("static")
        }
        return Library(sources, headers, inline, defines)

    def mentioned(self, texts: Iterable[str]) -> set[str]:
        """All names of the library in these texts, and in what headers make of them."""
        seen: set[str] = set()
        todo = list(texts)
        while todo:
            fresh = set(WORD.findall(todo.pop())) - seen
            seen |= fresh
            todo += [self.inline[name] for name in fresh if name in self.inline]
        return seen

    def needed(self, first: Iterable[Path], texts: Iterable[str]) -> list[Path]:
        """Close a set of sources under 'mentions what another one defines'. Of a header only those definitions count
        that are mentioned themselves."""
        chosen = list(dict.fromkeys(first))
        seen: set[str] = set()
        todo = [*texts, *(self.sources[path] for path in chosen)]
        while todo:
            fresh = [name for name in dict.fromkeys(WORD.findall(todo.pop())) if name not in seen]
            seen.update(fresh)
            todo += [self.inline[name] for name in fresh if name in self.inline]
            for path in (self.defines[name] for name in fresh if name in self.defines):
                if path not in chosen:
                    chosen.append(path)
                    todo.append(self.sources[path])
        return sorted(chosen)


def bare(text: str) -> str:
    """Without comments and without the breaks of lines: neither changes what a compiler makes of a kernel."""
    return " ".join(COMMENT.sub(" ", text).split())


def copy_library(folder: Path, rows: Iterable[str], texts: Iterable[str], half: DType = DType.F16) -> None:
    """The sources of kernels and what `texts` need besides, into one flat folder with their headers and the hardware
    layer. `half`: what halves are; the headers of another type than IEEE's take the place of those of the same name."""
    root = resources.c_lib_dir()
    folder.mkdir()
    library = Library.at(root)
    hal = [p for p in sorted((root / "hal").iterdir()) if p.is_file()]
    texts = list(texts)
    chosen = library.needed([root / "kernels" / row for row in rows], texts)
    wanted = headers_of([p.read_text() for p in (*chosen, *hal)] + texts, library.headers)
    for path in (*chosen, *hal, *wanted):
        own = root / half.name.lower() / path.name
        shutil.copyfile(own if own.is_file() else path, folder / path.name)


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
