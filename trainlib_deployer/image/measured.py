"""What compilers made of the C library, section by section: `measured/NAME.sections`, written by `make code-sizes`.

A line is a section: its name (of a function or a variable; behind its file's where others cannot see it), kind, bytes,
and the sections that it mentions. `NAME.words` has the bytes of a word of generated code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from trainlib_deployer.image.words import counted
from trainlib_deployer.machine.build import CODE


@dataclass(frozen=True)
class Section:
    """What a linker takes or leaves as a whole."""

    kind: str
    size: int
    needs: tuple[str, ...]


@dataclass(frozen=True)
class Measured:
    """All that is known of a compiler's sizes."""

    compiler: str
    flags: str
    sections: Mapping[str, Section]
    words: Mapping[str, Mapping[str, float]]  # of the step, of generated loops

    @staticmethod
    @cache
    def by(name: str) -> Measured:
        folder = resources.files(__package__) / "measured"
        compiler, flags, *lines = (folder / f"{name}.sections").read_text().splitlines()
        rows = (line.split() for line in lines)
        sections = {n: Section(kind, int(size), tuple(needs)) for n, kind, size, *needs in rows}
        words: dict[str, dict[str, float]] = {}
        for where, word, size in (line.split() for line in (folder / f"{name}.words").read_text().splitlines()):
            words.setdefault(where, {})[word] = float(size)
        return Measured(compiler.strip("# "), flags.strip("# "), sections, words)

    @property
    def largest(self) -> int:
        """Code of one section: what a kernel is taken for that is not known."""
        return max(s.size for s in self.sections.values() if s.kind == CODE)

    def linked(self, names: Iterable[str]) -> Counter[str]:
        """Bytes by kind of the sections that have these names, and of all that they need."""
        return sum((Counter({s.kind: s.size}) for s in self.needed(names)), Counter[str]())

    def needed(self, names: Iterable[str]) -> Iterator[Section]:
        todo, seen = list(names), set[str]()
        while todo:
            name = todo.pop()
            if name in self.sections and name not in seen:
                seen.add(name)
                todo += self.sections[name].needs
                yield self.sections[name]

    def counted(self, where: str, counts: Mapping[str, int]) -> int:
        """Bytes of one thing that has so many of others."""
        words = self.words[where]
        once = words["function"] + words.get("project", 0)
        return round(once + sum(words.get(what, 0) * n for what, n in counts.items()))

    def estimated(self, where: str, texts: Iterable[str], sets: Iterable[str] = ()) -> int:
        """Bytes of functions, each of one text; some words are shorter where there are such instruction sets."""
        words = dict(self.words[where])
        for name in sets:
            words |= self.words.get(f"{where}.{name}", {})
        unknown, unrolled = words["unknown"], int(words["unrolled"])
        total = sum(
            words["function"] + sum(n * words.get(word, unknown if word.startswith("tl_") else 0) for word, n in found)
            for found in (counted(text, unrolled).items() for text in texts)
        )
        return round(total + words.get("project", 0))
