"""What compilers made of the C library, section by section: `measured/NAME.sections`, written by `make code-sizes`.

A line is a section: its name (of a function or a variable; behind its file's where others cannot see it), kind, bytes,
and the sections that it mentions; or a source: its name, what its text was when it was measured, and its sections.
`NAME.SET.sections` has those that are others with an instruction set that not all chips of the compiler have.
`NAME.words` has the bytes of a word of generated code, and of constants.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from trainlib_deployer.image.words import STORED, apart, counted, stored

MEASURED = "measured"
SOURCE = "source"  # in place of a section's kind


@dataclass(frozen=True)
class Section:
    """What a linker takes or leaves as a whole."""

    kind: str
    size: int
    needs: tuple[str, ...]
    estimated: bool = False  # its source has changed, or is new


@dataclass(frozen=True)
class Source:
    """A file of the library by what it was when it was measured, and its sections."""

    content: str
    sections: tuple[str, ...]


@dataclass(frozen=True)
class Measured:
    """All that is known of a compiler's sizes."""

    compiler: str
    flags: str
    sections: Mapping[str, Section]
    words: Mapping[str, Mapping[str, float]]  # of the step, of generated loops, of constants by what has them
    sources: Mapping[str, Source] = field(default_factory=dict)

    @staticmethod
    @cache
    def by(name: str, sets: frozenset[str] = frozenset()) -> Measured:
        """With what is otherwise where there are these instruction sets."""
        folder = resources.files(__package__) / MEASURED
        compiler, flags, *lines = (folder / f"{name}.sections").read_text().splitlines()
        more = [folder / f"{name}.{of}.sections" for of in sorted(sets)]
        rows = [line.split() for line in (*lines, *(line for p in more if p.is_file() for line in lines_of(p)))]
        sections = {n: Section(kind, int(size), tuple(needs)) for n, kind, size, *needs in rows if kind != SOURCE}
        sources = {n: Source(content, tuple(own)) for n, kind, content, *own in rows if kind == SOURCE}
        words: dict[str, dict[str, float]] = {}
        for where, word, size in (line.split() for line in lines_of(folder / f"{name}.words")):
            words.setdefault(where, {})[word] = float(size)
        for where, of in ((where, of) for where in list(words) for of in sorted(sets) if f"{where}.{of}" in words):
            words[where] |= words[f"{where}.{of}"]
        return Measured(compiler.strip("# "), flags.strip("# "), sections, words, sources)

    def linked(self, names: Iterable[str]) -> Counter[tuple[str, bool]]:
        """Bytes of the sections that have these names, and of all that they need, by kind and whether they are
        estimated."""
        return sum((Counter({(s.kind, s.estimated): s.size}) for s in self.needed(names)), Counter[tuple[str, bool]]())

    def needed(self, names: Iterable[str]) -> Iterator[Section]:
        todo, seen = list(names), set[str]()
        while todo:
            name = todo.pop()
            if name in self.sections and name not in seen:
                seen.add(name)
                todo += self.sections[name].needs
                yield self.sections[name]

    def constants(self, what: str) -> int:
        return round(self.words["constants"][what])

    @property
    def spare(self) -> int:
        """What the estimates of a step, its loops and its interface lack together, at the most."""
        return math.ceil(self.words["spare"]["project"])

    @property
    def structs(self) -> dict[str, float]:
        """Bytes of those that the compiler keeps; of a compiler that makes them by instructions, none."""
        return {word: size for word, size in self.words.get("constants", {}).items() if word.startswith("tl_")}

    def stored(self, texts: Iterable[str]) -> int:
        """Bytes of the structs of constants in functions; of one that is not known, as of the largest."""
        sizes = self.structs
        most = max(sizes.values(), default=0)
        return round(sum(sizes.get(match[1], most) for text in texts for match in stored(text)))

    def counted(self, where: str, counts: Mapping[str, int]) -> int:
        """Bytes of one thing that has so many of others."""
        words = self.words[where]
        return math.ceil(words["function"] + sum(words.get(what, 0) * n for what, n in counts.items()))

    def estimated(self, where: str, texts: Iterable[str]) -> int:
        """Bytes of functions, each of one text."""
        words = self.words[where]
        unknown, unrolled = words["unknown"], int(words["unrolled"])
        functions = map(apart, texts) if self.structs else texts
        total = sum(
            words["function"]
            + sum(n * words.get(word, unknown if word.startswith(("tl_", STORED)) else 0) for word, n in found)
            for found in (counted(text, unrolled).items() for text in functions)
        )
        return math.ceil(total)


def lines_of(path: Traversable) -> list[str]:
    return path.read_text().splitlines()
