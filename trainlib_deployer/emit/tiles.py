"""A tiled operation as C: its streams, a table of what each tile moves and of the numbers that differ, and one loop."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from trainlib_deployer.emit.calls import Addresses, kernel_call
from trainlib_deployer.emit.loops import LoopLibrary, flat
from trainlib_deployer.passes.coalesce import merged
from trainlib_deployer.plan.early import first_bytes
from trainlib_deployer.plan.tiles import Stream, Tiling
from trainlib_deployer.program.call import Operand
from trainlib_deployer.program.chain import Chain
from trainlib_deployer.program.ir import Op, Part, View
from trainlib_deployer.program.loop import Loop

OFFSET = re.compile(r" \+ @(\d+)@")


@dataclass
class Values:
    """Numbers that differ from tile to tile: columns of a table; the others stand in the call."""

    tiles: int
    columns: list[list[int]] = field(default_factory=list)

    def expression(self, numbers: list[int]) -> str:
        if len(set(numbers)) == 1:
            return str(numbers[0])
        if numbers not in self.columns:
            self.columns.append(numbers)
        return f"v[{self.columns.index(numbers)}]"

    def declaration(self) -> list[str]:
        if not self.columns:
            return []
        widest = max(abs(n) for column in self.columns for n in column)
        c_type = "int16_t" if widest < 1 << 15 else "int32_t"
        rows = [", ".join(str(c[k]) for c in self.columns) for k in range(self.tiles)]
        body = ", ".join(f"{{{r}}}" for r in rows)
        return [f"    TL_CONST static const {c_type} values[{self.tiles}][{len(self.columns)}] = {{{body}}};"]


def tiled_lines(
    op: Op,
    tiling: Tiling,
    position: int,
    at: Addresses,
    library: LoopLibrary,
    early: Mapping[int, Tiling] | None = None,
) -> str:
    """The block that carries out an operation tile by tile; it starts the first tiles of later ones (`early`)."""
    values = Values(len(tiling.parts))
    calls = variants(op, tiling, position, at, library, values)
    count, tiles = len(tiling.streams), len(tiling.parts)
    lines = ["{", f"    TL_CONST static const tl_stream streams[{count}] = {{"]
    lines += [f"        {stream_text(tiling, k, position, at)}," for k in range(count)]
    lines += ["    };", f"    TL_CONST static const tl_part parts[{tiles}][{count}] = {{"]
    lines += ["        {" + ", ".join(move_text(s, k) for s in tiling.streams) + "}," for k in range(tiles)]
    lines += ["    };", *values.declaration()]
    guests = early or {}
    for guest, its in guests.items():
        lines += ["    " + line for line in early_table(guest, its, at)]
    ahead = int(tiling.ahead)
    mask = sum(s.early << k for k, s in enumerate(tiling.streams))
    team = f"LANES({position}), PLAN_CORES, {mask}"
    lines.append(f"    const tl_tiles t = {{streams, &parts[0][0], {count}, {tiles}, {ahead}, {team}}};")
    lines.append("    TRANSFERS(tl_tiles_open(&t));")
    lines += [f"    {early_call(guest, its)}" for guest, its in guests.items()]
    lines.append(f"    for (int k = 0; k < {tiles}; k++) {{")
    if values.columns:
        lines.append(
            f"        const {'int16_t' if 'int16_t' in values.declaration()[0] else 'int32_t'} *v = values[k];"
        )
    lines.append("        TRANSFERS(tl_tiles_begin(&t, k));")
    lines += ["        " + line for line in calls]
    lines += ["    }", "    TRANSFERS(tl_tiles_close(&t));", "}"]
    return "\n".join(lines)


def hosting_lines(call: str, early: Mapping[int, Tiling], at: Addresses) -> str:
    """An operation without tiles that starts the first tiles of later ones."""
    if not early:
        return call
    lines = [line for guest, its in early.items() for line in early_table(guest, its, at)]
    lines += [early_call(guest, its) for guest, its in early.items()]
    return "\n".join(["{", *("    " + line for line in (*lines, *call.splitlines())), "}"])


def early_table(guest: int, tiling: Tiling, at: Addresses) -> list[str]:
    """The streams' records as far as the first transfer needs them: second buffers do not live yet."""
    early = [(k, s) for k, s in enumerate(tiling.streams) if s.early]
    rows = [f"    {{{home_text(s, k, guest, at, '0')}, {move_text(s, 0)}, {k}}}," for k, s in early]
    return [f"TL_CONST static const tl_early early_{guest}[{len(rows)}] = {{", *rows, "};"]


def early_call(guest: int, tiling: Tiling) -> str:
    count = sum(s.early for s in tiling.streams)
    return f"TRANSFERS(tl_tiles_early(LANES({guest}), early_{guest}, {count}, PLAN_CORES));"


def stream_text(tiling: Tiling, number: int, position: int, at: Addresses) -> str:
    s = tiling.streams[number]
    place = number if s.shares is None else s.shares
    owner = tiling.streams[place]
    apart = owner.early and first_bytes(owner) < owner.nbytes
    second = f"SECOND({position}, {place})" if apart else str(s.size if s.buffers > 1 else 0)
    return home_text(s, number, position, at, second)


def home_text(s: Stream, number: int, position: int, at: Addresses, second: str) -> str:
    w = s.moves[0].window
    pitch = next((m.window.pitch for m in s.moves if m.window.rows > 1), w.pitch)
    plane_pitch = next((m.window.plane_pitch for m in s.moves if m.window.planes > 1), w.plane_pitch)
    buffers = number if s.shares is None else s.shares
    home = f"(char *){at.base(s.tensor) if any(m.moves for m in s.moves) else 0}, TILE({position}, {buffers})"
    return f"{{{home}, {second}, {pitch}, {plane_pitch}, {int(s.writes)}}}"


def move_text(s: Stream, tile: int) -> str:
    m = s.moves[tile]
    w = m.window
    return f"{{{w.offset}, {w.row_bytes}, {w.rows}, {w.planes}, {m.buffer}, {int(m.moves)}}}"


def variants(op: Op, tiling: Tiling, position: int, at: Addresses, library: LoopLibrary, values: Values) -> list[str]:
    """The call of a tile; where tiles call different loops, a choice between them."""
    texts, numbers = [], []
    for part in tiling.parts:
        text, found = template(op, part, tiling, position, at, library)
        texts.append(text)
        numbers.append(found)
    kinds = list(dict.fromkeys(texts))
    if len(kinds) == 1:
        return filled(kinds[0], numbers, values).splitlines()
    which = values.expression([kinds.index(t) for t in texts])
    lines = []
    for i, kind in enumerate(kinds):
        rows = [numbers[k] if texts[k] == kind else numbers[texts.index(kind)] for k in range(len(texts))]
        head = "if" if i == 0 else "else if"
        test = f"{head} ({which} == {i}) {{" if i + 1 < len(kinds) else "else {"
        lines += [test, *("    " + line for line in filled(kind, rows, values).splitlines()), "}"]
    return lines


NUMBER = "\x00"


def template(
    op: Op, part: Part, tiling: Tiling, position: int, at: Addresses, library: LoopLibrary
) -> tuple[str, list[int]]:
    """The text of a part's call with holes, and the numbers for the holes."""
    if isinstance(part.kind, Chain):
        return chain_template(op, part, tiling, position, at, library)
    return link_template(op, part, tiling.of_operand, position, at, library)


def chain_template(
    op: Op, part: Part, tiling: Tiling, position: int, at: Addresses, library: LoopLibrary
) -> tuple[str, list[int]]:
    """One call after the other, with a barrier between."""
    assert isinstance(part.kind, Chain)
    reads = len(part.reads)
    views = part.kind.links(part.reads, part.writes)
    slots = part.kind.links(tiling.of_operand[:reads], tiling.of_operand[reads:])
    texts, numbers = [], []
    for (kind, read, written), (_, from_, to) in zip(views, slots, strict=True):
        text, found = link_template(op, Part(kind, read, written), (*from_, *to), position, at, library)
        texts.append(text)
        numbers += found
    return "\ntl_barrier();\n".join(texts), numbers


def link_template(
    op: Op, part: Part, of_operand: tuple[int | None, ...], position: int, at: Addresses, library: LoopLibrary
) -> tuple[str, list[int]]:
    numbers: list[int] = []

    def hole(number: int) -> str:
        numbers.append(number)
        return NUMBER

    def pointer(i: int, view: View, offset: str | None = None) -> str:
        s = of_operand[i]
        if s is not None:
            return f"tl_tiles_at(&t, {s}, k)"
        if at.recorded(view.tensor):
            return f"RECORDED({hole(view.offset)})"
        return f"{at.base(view.tensor)} + {hole(view.offset) if offset is None else offset}"

    reads = len(part.reads)
    if isinstance(part.kind, Loop):
        small = merged(Op(op.name, part.kind, part.reads, part.writes, op.phase, op.layer, op.function), fold=False)
        assert isinstance(small.kind, Loop)
        name = library.function(
            Op(op.name, small.kind, small.reads, small.writes, op.phase, op.layer, op.function, fused=op.fused)
        )
        pointers = [pointer(reads + i, v) for i, v in enumerate(small.writes)]
        pointers += [pointer(i, v) for i, v in enumerate(small.reads)]
        if flat(small.kind, small.reads, small.writes):
            pointers.append(hole(small.kind.extents[0]))
        return f"{name}({', '.join(pointers)});", numbers
    views = (*part.reads, *part.writes)
    operands = [Operand(pointer(i, v, f"@{i}@"), v) for i, v in enumerate(views)]
    call = kernel_call(part.kind, operands[:reads], operands[reads:], at, position)
    fields = []
    for name, value in call.fields:
        if isinstance(value, int) or value.lstrip("-").isdigit():
            fields.append(f".{name} = {hole(int(value))}")
        else:
            fields.append(f".{name} = {OFFSET.sub(lambda m: ' + ' + hole(views[int(m[1])].offset), value)}")
    return f"const {call.struct} a = {{{', '.join(fields)}}};\n{call.function}(&a);", numbers


def filled(text: str, numbers: list[list[int]], values: Values) -> str:
    """Holes become constants or columns of the table; fields and offsets of zero disappear."""
    pieces = text.split(NUMBER)
    out = pieces[0]
    for i, piece in enumerate(pieces[1:]):
        out += values.expression([row[i] for row in numbers]) + piece
    out = re.sub(r" \+ 0\b", "", out)
    return re.sub(r"(, )?\.[\w.]+ = 0(?=[,}])", "", out).replace("{, ", "{")
