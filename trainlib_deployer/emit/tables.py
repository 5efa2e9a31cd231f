"""Tables of constants that operations share: equal ones stand in net.c once, named after their contents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from zlib import crc32

from trainlib_deployer.emit.listing import Way

NARROW = 1 << 15  # numbers below it take two bytes
WORD = 4
WAY, PART = 2 * WORD, 3 * WORD  # tl_way without its parts, tl_part (tl_stream.h)


@dataclass
class Tables:
    """Declarations by name."""

    found: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Of all of them, each from a whole word on."""
        return sum(-(-size // WORD) * WORD for size in self.sizes.values())

    def text(self) -> list[str]:
        """By name: a further table moves none of the others."""
        return [self.found[name] for name in sorted(self.found)]

    def way(self, way: Way) -> str:
        """The tl_way of a stream."""
        rows = [f"    {{{m.offset}, {m.row_bytes * m.moves}, {m.rows}, {m.planes}, {m.buffer}}}," for m in way.moves]
        body = "\n".join((f"{{{way.pitch}, {way.plane_pitch}, {{", *rows, "}}"))
        name = self.named("tl_way", f"way_{len(way.moves)}x{max(m.nbytes for m in way.moves)}", "", body)
        self.sizes[name] = WAY + PART * len(way.moves)
        return name

    def numbers(self, rows: Sequence[Sequence[int]]) -> tuple[str, str]:
        """Of each tile: the type of one, and the name of them all."""
        widest = max(abs(n) for row in rows for n in row)
        c_type = "int16_t" if widest < NARROW else "int32_t"
        body = "\n".join(("{", *(f"    {{{', '.join(map(str, row))}}}," for row in rows), "}"))
        name = self.named(c_type, "numbers", f"[{len(rows)}][{len(rows[0])}]", body)
        self.sizes[name] = len(rows) * len(rows[0]) * (2 if widest < NARROW else WORD)
        return c_type, name

    def named(self, c_type: str, stem: str, extents: str, body: str) -> str:
        name = f"{stem}_{crc32(f'{c_type}{extents}{body}'.encode()):08x}"
        text = f"TL_CONST static const {c_type} {name}{extents} = {body};"
        assert self.found.setdefault(name, text) == text, f"two tables are called {name}"
        return name
