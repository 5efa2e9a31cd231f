"""Indices, running sums, extremes and order: one kernel each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from trainlib_deployer.kernels.row import AnyRow, Fields, Row
from trainlib_deployer.program.call import Operand, strides
from trainlib_deployer.program.cuts import span
from trainlib_deployer.program.ir import View

if TYPE_CHECKING:
    from trainlib_deployer.ops.index import Put, Take
    from trainlib_deployer.ops.order import Lines

Found = list[tuple[str, str | int]]
NOTHING = "INT32_MIN"  # an index that no tensor has


def take_fields(kind: Take, reads: list[Operand], writes: list[Operand], _scratch: str) -> Fields:
    x, index = reads
    out: Found = [("x", x.pointer), ("index", index.pointer), ("y", writes[0].pointer), *extents(kind)]
    out += strides("x", ("outer", "row", "inner"), x.view)
    out += strides("index", ("outer", "count", "inner"), index.view)
    out += pitches("y", writes[0])
    return [*out, ignored(kind)]


def put_fields(kind: Put, reads: list[Operand], writes: list[Operand], _scratch: str) -> Fields:
    g, index, *init = reads
    out: Found = [("g", g.pointer), ("index", index.pointer), ("y", writes[0].pointer)]
    out += [("first", kind.rows[0]), ("rows", span(kind.rows)), *extents(kind)]
    for v in init:
        out += [("init", v.pointer), *pitches("init", v)]
    out += strides("g", ("outer", "count", "inner"), g.view)
    out += strides("index", ("outer", "count", "inner"), index.view)
    out += pitches("y", writes[0])
    return [*out, ignored(kind), ("set", int(kind.set))]


def extents(kind: Take | Put) -> Found:
    return [("outer", kind.outer), ("extent", kind.extent), ("count", kind.count), ("inner", kind.inner)]


def ignored(kind: Take | Put) -> tuple[str, str | int]:
    return "ignore", NOTHING if kind.ignore is None else kind.ignore


def pitches(name: str, operand: Operand) -> Found:
    """Elements between neighbours but for the innermost, which lie side by side."""
    rank = len(operand.view.shape) - 1
    return [*strides(name, ("outer", "row")[:rank], operand.view, rank)]


def line_fields(kind: Lines, reads: list[Operand], writes: list[Operand], _scratch: str) -> Fields:
    """What a kind says of itself has the names of the struct's members."""
    operands = list(zip(("x", "y", "index"), (*reads, *writes), strict=False))
    out: Found = [(name, operand.pointer) for name, operand in operands]
    out += [(name, int(value)) for name, value in asdict(kind).items()]
    return [*out, *(pitch for name, operand in operands for pitch in pitches(name, operand))]


def by_rows(kind: Take | Put, reads: Sequence[View], _writes: Sequence[View]) -> bool:
    """One index a row, whose elements lie side by side."""
    values, index = reads[:2]
    return kind.inner > 1 and index.strides[2] == 0 and values.strides[2] == 1


HEADER = "tl_index.h"
ROWS = "rows of the result"


def lines(name: str) -> Row[Lines]:
    """Of a kind that does something with each line."""
    return Row(name, f"tl_{name}_f32", f"index/{name}.c", "tl_lines", HEADER, line_fields, split="lines")


INDEX: tuple[AnyRow, ...] = (
    Row("take", "tl_take_rows_32", "index/take_rows.c", "tl_take", HEADER, take_fields, fits=by_rows, split=ROWS),
    Row("take", "tl_take_32", "index/take.c", "tl_take", HEADER, take_fields, split=ROWS),
    Row("put", "tl_put_rows_f32", "index/put_rows.c", "tl_put", HEADER, put_fields, fits=by_rows, split=ROWS),
    Row("put", "tl_put_f32", "index/put.c", "tl_put", HEADER, put_fields, split=ROWS),
    *(lines(name) for name in ("scan", "extreme", "running", "order", "mode")),
)
