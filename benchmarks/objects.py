"""What a compiler put into an object or a program: the sections of an ELF file of 32 bits, and who needs whom."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

SYMBOLS, RELA, NOBITS, REL = 2, 4, 8, 9  # types of sections
WRITE, ALLOC, EXECUTE = 1, 2, 4  # their flags
LOCAL, UNDEFINED, ABSOLUTE = 0, 0, 0xFFF1
RISCV = 243  # a machine, and of its relocations those of calls, of which a linker halves the eight bytes, and its leave
RISCV_CALLS, RISCV_RELAX = (18, 19), 51


@dataclass(frozen=True)
class Section:
    """`link` and `info` name other sections by number."""

    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int

    @property
    def loaded(self) -> bool:
        return bool(self.flags & ALLOC) and self.size > 0

    @property
    def kind(self) -> str:
        if self.flags & EXECUTE:
            return "code"
        if not self.flags & WRITE:
            return "constants"
        return "zeros" if self.type == NOBITS else "data"


@dataclass(frozen=True)
class Symbol:
    """A name in a section."""

    name: str
    value: int
    size: int
    local: bool
    section: int

    @property
    def undefined(self) -> bool:
        return self.section == UNDEFINED


@dataclass(frozen=True)
class Segment:
    """What a loader puts somewhere: `lies` is where its bytes lie before the program starts."""

    type: int
    address: int
    lies: int
    stored: int
    size: int


@dataclass(frozen=True)
class Elf:
    """The contents of a file."""

    data: bytes

    @staticmethod
    def of(path: Path) -> Elf:
        return Elf(path.read_bytes())

    @cached_property
    def sections(self) -> list[Section]:
        first, size, count, names = self.header("<I", 32)[0], *self.header("<HHH", 46)
        rows = [struct.unpack_from("<10I", self.data, first + i * size) for i in range(count)]
        text = rows[names][4]
        return [Section(self.string(text + r[0]), r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8]) for r in rows]

    @cached_property
    def symbols(self) -> list[Symbol]:
        table = next((s for s in self.sections if s.type == SYMBOLS), None)
        if table is None:
            return []
        text = self.sections[table.link].offset
        rows = struct.iter_unpack("<IIIBBH", self.data[table.offset : table.offset + table.size])
        return [Symbol(self.string(text + n), v, size, i >> 4 == LOCAL, at) for n, v, size, i, _, at in rows]

    @cached_property
    def segments(self) -> list[Segment]:
        first, (size, count) = self.header("<I", 28)[0], self.header("<HH", 42)
        rows = [struct.unpack_from("<8I", self.data, first + i * size) for i in range(count)]
        return [Segment(r[0], r[2], r[3], r[4], r[5]) for r in rows]

    def needs(self, section: int) -> Iterator[Symbol]:
        """What the relocations of a section mention."""
        return (self.symbols[info >> 8] for _, info in self.relocations(section))

    def relocations(self, section: int) -> Iterator[tuple[int, int]]:
        """Where, and of which symbol and type."""
        for s in self.sections:
            if s.type in (RELA, REL) and s.info == section:
                words = struct.iter_unpack("<III" if s.type == RELA else "<II", self.data[s.offset : s.offset + s.size])
                yield from ((w[0], w[1]) for w in words)

    def linked(self, section: int) -> int:
        """Bytes that a linker leaves of a section."""
        size = self.sections[section].size
        if self.header("<H", 18) != (RISCV,):
            return size
        found = {(at, info & 0xFF) for at, info in self.relocations(section)}
        return size - 4 * sum(kind in RISCV_CALLS and (at, RISCV_RELAX) in found for at, kind in found)

    def header(self, layout: str, at: int) -> tuple[int, ...]:
        return struct.unpack_from(layout, self.data, at)

    def string(self, at: int) -> str:
        return self.data[at : self.data.index(0, at)].decode()
