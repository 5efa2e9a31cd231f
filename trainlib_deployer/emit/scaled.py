"""A row that is a multiple of one row, or of its product with a number, added to another row: one call; or so many
rows, each by a number of its own. With PULP's own instructions that is a hardware loop. A build that records keeps what
is on the way, and makes it element by element."""

from __future__ import annotations

from dataclasses import dataclass

from trainlib_deployer.emit.loop_text import Text, closed, instructions, loads
from trainlib_deployer.emit.rows import Pointer, Row
from trainlib_deployer.program.expr import Arg, Const
from trainlib_deployer.program.ir import View
from trainlib_deployer.program.loop import Loop, many_rows


@dataclass(frozen=True)
class Scaled:
    """s x + y, or s (r x + 0) + y, by the numbers of the values; s and r do not move along the row."""

    s: int
    x: int
    y: int
    r: int | None

    @property
    def factors(self) -> tuple[int, ...]:
        return (self.s,) if self.r is None else (self.r, self.s)


def scaled_of(kind: Loop, row: Row) -> Scaled | None:
    """Where that is all that a row of dense operands keeps."""
    last = kind.body[-1] if kind.body else None
    kept = kind.results[: len(kind.results) - kind.recorded]
    if last is None or last.op != "fma" or kept != (kind.at_reductions - 1,):
        return None
    if not all(p.stride == 1 for p in (*row.reads.values(), *row.writes)):
        return None
    moving = kind.depending(row.reads)
    s, x = sorted(last.args[:2], key=lambda a: a in moving)
    y: Arg = last.args[2]
    r: Arg | None = None
    if isinstance(x, int) and x >= kind.at_body:
        product = kind.body[x - kind.at_body]
        if product.op != "fma" or product.args[2] != Const(0.0):
            return None
        r, x = sorted(product.args[:2], key=lambda a: a in moving)
    if not isinstance(s, int) or x not in row.reads or y not in row.reads or {s, r} & moving:
        return None
    return None if isinstance(r, Const) else Scaled(s, x, y, r)


def add_scaled(t: Text, kind: Loop, row: Row, scaled: Scaled) -> None:
    instructions(t, kind, kind.body, kind.at_body, closed(kind, set(scaled.factors)))
    begin = "" if row.begin == "0" else f" + {row.begin}"
    rows = [f"{p.name}{begin}" for p in (row.writes[0], row.reads[scaled.y], row.reads[scaled.x])]
    count = row.end if row.begin == "0" else f"{row.end} - {row.begin}"
    function = "tl_add_scaled" if scaled.r is None else "tl_add_product"
    t.add(f"{function}({', '.join([*rows, *(f'v{f}' for f in scaled.factors), count])});")


def products_of(kind: Loop, reads: tuple[View, ...], writes: tuple[View, ...]) -> Scaled | None:
    """Where all rows are added to multiples of one row's products, each with a number of its own."""
    if not many_rows(kind.extents):
        return None
    moving = {i: Pointer(f"r{i}", v.strides[1]) for i, v in enumerate(reads) if v.strides[1]}
    row = Row("0", str(kind.extents[1]), moving, [Pointer(f"w{i}", v.strides[1]) for i, v in enumerate(writes)])
    scaled = scaled_of(kind, row)
    if scaled is None or scaled.r is None or scaled.r >= kind.at_body:
        return None
    alone = all(reads[i].strides == (0, 0) for i in closed(kind, {scaled.s}) if i < kind.at_body)
    lined = (reads[scaled.r].strides, reads[scaled.x].strides) == ((1, 0), (0, 1))
    return scaled if alone and lined and reads[scaled.y].strides == writes[0].strides else None


def add_products(t: Text, kind: Loop, reads: tuple[View, ...], scaled: Scaled) -> None:
    once = closed(kind, {scaled.s})
    loads(t, kind, {i: f"r{i}[0]" for i in sorted(once) if i < kind.at_body})
    instructions(t, kind, kind.body, kind.at_body, once)
    rows, columns = kind.extents
    operands = f"w0, r{scaled.y}, {reads[scaled.y].strides[0]}, r{scaled.x}, r{scaled.r}, v{scaled.s}"
    t.add(f"tl_add_products({operands}, {rows}, {columns});")
