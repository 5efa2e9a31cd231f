"""Generated loops as C functions: parallel over the outer dimensions, readable, in a fixed order of arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

from trainlib_deployer.emit.adaptive import adaptive_of, update_row
from trainlib_deployer.emit.curves import curve_of, curve_row
from trainlib_deployer.emit.folds import fold
from trainlib_deployer.emit.loop_text import (
    Text,
    instructions,
    loads,
    of_record,
    stores,
    times,
    unless_recording,
)
from trainlib_deployer.emit.rows import Pointer, Row, at_even_places, innermost
from trainlib_deployer.emit.scaled import add_rows, add_scaled, rows_of, scaled_of
from trainlib_deployer.emit.shares import split_of
from trainlib_deployer.program.ir import Shape, View
from trainlib_deployer.program.loop import LANES, Loop, middle_of_rows


def flat(kind: Loop, reads: tuple[View, ...], writes: tuple[View, ...]) -> bool:
    """One dense or constant dimension: the extent becomes an argument, so that layers share the function."""
    return len(kind.extents) == 1 and not kind.reductions and all(v.strides[0] in (0, 1) for v in (*reads, *writes))


def body_text(kind: Loop, reads: tuple[View, ...], writes: tuple[View, ...]) -> str:
    t = Text()
    parameters = [f"{d.c_name} *w{i}" for i, d in enumerate(kind.outputs)]
    parameters += [f"const {d.c_name} *r{i}" for i, d in enumerate(kind.inputs)]
    if flat(kind, reads, writes):
        parameters.append("int n")
    t.open(f"void @NAME@({', '.join(parameters)})\n{{")
    for i in range(len(kind.outputs) - kind.recorded, len(kind.outputs)):
        t.add(f"(void)w{i};")
    if kind.reductions:
        folded(t, kind, reads, writes)
    elif not kind.extents:
        single(t, kind)
    elif flat(kind, reads, writes):
        straight(t, kind, reads, writes)
    elif lined := rows_of(kind, reads, writes):
        with unless_recording(t, kind, partial(nested, t, kind, reads, writes, innermost)):
            add_rows(t, kind, reads, lined)
    else:
        nested(t, kind, reads, writes, along)
    t.close()
    return "\n".join(t.lines)


def single(t: Text, kind: Loop) -> None:
    t.add("if (tl_core_id() != 0)")
    t.add("    return;")
    loads(t, kind, {i: f"r{i}[0]" for i in range(kind.at_body)})
    instructions(t, kind, kind.body, kind.at_body)
    stores(t, kind, "w")


def straight(t: Text, kind: Loop, reads: tuple[View, ...], writes: tuple[View, ...]) -> None:
    t.add("int lo, hi;")
    fixed = {i: f"r{i}[0]" for i, v in enumerate(reads) if v.strides[0] == 0}
    moving = {i: Pointer(f"r{i}", even=at_even_places(v)) for i, v in enumerate(reads) if v.strides[0]}
    row = Row("lo", "hi", moving, [Pointer(f"w{i}", even=at_even_places(v)) for i, v in enumerate(writes)])
    grain = 1 if adaptive_of(kind, row) else LANES  # of 72 parameters each of eight cores has nine, and none twelve
    t.add(f"tl_split(n, {grain}, &lo, &hi);")
    loads(t, kind, fixed)
    along(t, kind, row)


def nested(
    t: Text,
    kind: Loop,
    reads: tuple[View, ...],
    writes: tuple[View, ...],
    each: Callable[[Text, Loop, Row], None],
) -> None:
    outer, inner = kind.extents[:-1], kind.extents[-1]
    rows = prod(outer)
    shared(t, kind)
    begin, end = "lo", "hi"
    if rows > 1:
        begin, end = shared_rows(t, inner) if middle_of_rows(rows, inner) else whole_rows(t, inner)
    indices(t, outer, "row")
    pointers(t, kind, reads, writes, len(outer))
    loads(t, kind, {i: f"p{i}[0]" for i, v in enumerate(reads) if v.strides[-1] == 0})
    split_evenly = rows == 1 or inner % 2 == 0  # cores may begin in the middle of a row
    moving = {
        i: Pointer(f"p{i}", v.strides[-1], split_evenly and at_even_places(v))
        for i, v in enumerate(reads)
        if v.strides[-1]
    }
    written = [Pointer(f"q{i}", v.strides[-1], split_evenly and at_even_places(v)) for i, v in enumerate(writes)]
    each(t, kind, Row(begin, end, moving, written, rows > 1, inner % LANES == 0))
    if end == "end":
        t.add("lo += end - begin;")
    if rows > 1:
        t.close()


def along(t: Text, kind: Loop, row: Row) -> None:
    plainly = partial(innermost, t, kind, row)
    if scaled := scaled_of(kind, row):
        with unless_recording(t, kind, plainly):
            add_scaled(t, kind, row, scaled)
    elif update := adaptive_of(kind, row):
        with unless_recording(t, kind, plainly):
            update_row(t, kind, row, update)
    elif curve := curve_of(kind, row):
        with unless_recording(t, kind, plainly):
            curve_row(t, kind, row, curve)
    else:
        plainly()


def shared(t: Text, kind: Loop) -> None:
    t.add("int lo, hi;")
    split = split_of(kind)
    t.add(f"tl_split({split.units}, {split.grain}, &lo, &hi);")


def shared_rows(t: Text, inner: int) -> tuple[str, str]:
    """Few long rows: each core takes as many elements as the others, from the middle of a row on."""
    t.open("while (lo < hi) {")
    t.add(f"const int row = (unsigned)lo / {inner};")
    t.add(f"const int begin = lo - row * {inner};")
    t.add(f"const int end = begin + hi - lo < {inner} ? begin + hi - lo : {inner};")
    return "begin", "end"


def whole_rows(t: Text, inner: int) -> tuple[str, str]:
    t.open("for (int row = lo; row < hi; row++) {")
    return "0", str(inner)


def folded(t: Text, kind: Loop, reads: tuple[View, ...], writes: tuple[View, ...]) -> None:
    outer = kind.parallel
    units = prod(outer)
    if units == 1:
        t.add("if (tl_core_id() != 0)")
        t.add("    return;")
    else:
        shared(t, kind)
        t.open("for (int u = lo; u < hi; u++) {")
        indices(t, outer, "u")
    pointers(t, kind, reads, writes, len(outer))
    fold(t, kind, reads, kind.needed(r.value for r in kind.reductions))
    again = needed_behind(kind)
    loads(t, kind, {i: f"p{i}[0]" for i in sorted(again) if i < kind.at_body})
    instructions(t, kind, kind.body, kind.at_body, again)
    instructions(t, kind, kind.post, kind.at_post)
    stores(t, kind, "q")
    if units > 1:
        t.close()


def needed_behind(kind: Loop) -> set[int]:
    """Inputs and values of the body that the part behind the reductions reads: constants, or constant along them."""
    return kind.needed({a for s in kind.post for a in s.args if isinstance(a, int)} | set(kind.results))


def indices(t: Text, outer: Shape, row: str) -> None:
    """i0, i1, ... from the flat row number."""
    wide = [d for d, e in enumerate(outer) if e > 1]
    for position, d in enumerate(wide):
        after = prod(outer[d + 1 :])
        value = row if after == 1 else f"(unsigned){row} / {after}"
        if position:
            value = f"{value} % {outer[d]}" if after > 1 else f"(unsigned){row} % {outer[d]}"
        t.add(f"const int i{d} = {value};")


def pointers(t: Text, kind: Loop, reads: tuple[View, ...], writes: tuple[View, ...], rank: int) -> None:
    names = [f"i{d}" for d in range(rank)]
    for i, v in enumerate(reads):
        t.add(f"const {kind.inputs[i].c_name} *p{i} = r{i}{plus(offset(names, v.strides[:rank], v.shape[:rank]))};")
    for i, v in enumerate(writes):
        place = plus(offset(names, v.strides[:rank], v.shape[:rank]))
        t.add(of_record(kind, i, f"{kind.outputs[i].c_name} *q{i} = w{i}{place};"))


def plus(value: str) -> str:
    return "" if value == "0" else f" + {value}"


def offset(names: list[str], strides: Shape, extents: Shape | None = None) -> str:
    wide = extents or (2,) * len(strides)
    terms = [times(n, s) for n, s, e in zip(names, strides, wide, strict=True) if s and e > 1]
    return " + ".join(terms) or "0"
