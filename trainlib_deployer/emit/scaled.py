"""A row that is a multiple of another one, added to a third: one call; or so many rows, each by a number of its own,
where numbers and the multiplied row may be halves. With PULP's own instructions that is a hardware loop. A build that
records keeps what is on the way, and goes element by element."""

from __future__ import annotations

from dataclasses import dataclass

from trainlib_deployer.emit.loop_text import Text, instructions, loads
from trainlib_deployer.emit.rows import Pointer, Row
from trainlib_deployer.formats import LOADS
from trainlib_deployer.program.expr import Arg
from trainlib_deployer.program.ir import View
from trainlib_deployer.program.loop import Loop, many_rows


@dataclass(frozen=True)
class Scaled:
    """s x + y, by the numbers of the values; s does not move along the row."""

    s: int
    x: int
    y: int


def scaled_of(kind: Loop, row: Row, halves: bool = False) -> Scaled | None:
    """Where that is all that a row of dense operands keeps. `halves`: x may be one."""
    last = kind.body[-1] if kind.body else None
    if last is None or last.op != "fma" or kind.kept != (kind.at_reductions - 1,):
        return None
    if not all(p.stride == 1 for p in (*row.reads.values(), *row.writes)):
        return None
    moving = kind.depending(row.reads)
    s, x = sorted(last.args[:2], key=lambda a: a in moving)
    x, y = as_it_lies(kind, x) if halves else x, last.args[2]
    if not isinstance(s, int) or x not in row.reads or y not in row.reads or s in moving:
        return None
    return Scaled(s, x, y)


def as_it_lies(kind: Loop, value: Arg) -> Arg:
    """The half that a value is, if it is one."""
    made = kind.body[value - kind.at_body] if isinstance(value, int) and value >= kind.at_body else None
    return made.args[0] if made is not None and made.op in LOADS else value


def add_scaled(t: Text, kind: Loop, row: Row, scaled: Scaled) -> None:
    instructions(t, kind, kind.body, kind.at_body, kind.needed({scaled.s}))
    rows = [row.first(p) for p in (row.writes[0], row.reads[scaled.y], row.reads[scaled.x])]
    t.add(f"tl_add_scaled({', '.join([*rows, f'v{scaled.s}', row.elements])});")


@dataclass(frozen=True)
class Rows:
    """s r[i] x[j] + y[i][j]"""

    s: int
    r: int
    x: int
    y: int


def rows_of(kind: Loop, reads: tuple[View, ...], writes: tuple[View, ...]) -> Rows | None:
    """Where multiples of one row are added to all rows, each by a number of its own."""
    if not many_rows(kind.extents):
        return None
    moving = {i: Pointer(f"r{i}", v.strides[1]) for i, v in enumerate(reads) if v.strides[1]}
    row = Row("0", str(kind.extents[1]), moving, [Pointer(f"w{i}", v.strides[1]) for i, v in enumerate(writes)])
    scaled = scaled_of(kind, row, halves=True)
    number = kind.body[scaled.s - kind.at_body] if scaled is not None and scaled.s >= kind.at_body else None
    if scaled is None or number is None or number.op != "mul":
        return None
    s, r = number.args[0], as_it_lies(kind, number.args[1])
    if not isinstance(s, int) or not isinstance(r, int) or r >= kind.at_body:
        return None
    alone = all(reads[i].strides == (0, 0) for i in kind.needed({s}) if i < kind.at_body)
    lined = (reads[r].strides, reads[scaled.x].strides) == ((1, 0), (0, 1))
    return Rows(s, r, scaled.x, scaled.y) if alone and lined and reads[scaled.y].strides == writes[0].strides else None


def add_rows(t: Text, kind: Loop, reads: tuple[View, ...], found: Rows) -> None:
    once = kind.needed({found.s})
    loads(t, kind, {i: f"r{i}[0]" for i in sorted(once) if i < kind.at_body})
    instructions(t, kind, kind.body, kind.at_body, once)
    rows, columns = kind.extents
    halves = [int(kind.inputs[i].is_half) for i in (found.x, found.r)]
    x, r = (f"r{i}, {half}" if any(halves) else f"r{i}" for i, half in zip((found.x, found.r), halves, strict=True))
    name = "tl_add_rows_of" if any(halves) else "tl_add_rows"
    t.add(f"{name}(w0, r{found.y}, {reads[found.y].strides[0]}, {x}, {r}, v{found.s}, {rows}, {columns});")
