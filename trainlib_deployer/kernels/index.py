"""Indices, running sums, extremes and order: one kernel each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainlib_deployer.kernels.row import Fields, Row
from trainlib_deployer.program.call import Operand, strides
from trainlib_deployer.program.cuts import span
from trainlib_deployer.program.ir import View

if TYPE_CHECKING:
    from trainlib_deployer.ops.index import Put, Take
    from trainlib_deployer.ops.order import Extreme, Order, Running, Scan

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


def scan_fields(kind: Scan, reads: list[Operand], writes: list[Operand], _scratch: str) -> Fields:
    out: Found = [("x", reads[0].pointer), ("y", writes[0].pointer)]
    out += [("outer", kind.outer), ("extent", kind.extent), ("inner", kind.inner)]
    return [*out, *pitches("x", reads[0]), *pitches("y", writes[0]), ("product", int(kind.product))]


def extreme_fields(kind: Extreme, reads: list[Operand], writes: list[Operand], _scratch: str) -> Fields:
    out: Found = [("x", reads[0].pointer), ("y", writes[0].pointer), ("index", writes[1].pointer)]
    out += [("outer", kind.outer), ("extent", kind.extent), ("inner", kind.inner)]
    out += [*pitches("x", reads[0]), *pitches("y", writes[0]), *pitches("index", writes[1])]
    return [*out, ("smallest", int(kind.smallest))]


def order_fields(kind: Order, reads: list[Operand], writes: list[Operand], _scratch: str) -> Fields:
    out: Found = [("x", reads[0].pointer), ("y", writes[0].pointer), ("index", writes[1].pointer)]
    out += [("outer", kind.outer), ("extent", kind.extent), ("count", kind.count), ("inner", kind.inner)]
    out += [*pitches("x", reads[0]), *pitches("y", writes[0]), *pitches("index", writes[1])]
    return [*out, ("descending", int(kind.descending))]


def by_rows(kind: Take | Put, reads: Sequence[View], _writes: Sequence[View]) -> bool:
    """One index a row, whose elements lie side by side."""
    values, index = reads[:2]
    return kind.inner > 1 and index.strides[2] == 0 and values.strides[2] == 1


def running_fields(kind: Running, reads: list[Operand], writes: list[Operand], _scratch: str) -> Fields:
    out: Found = [("x", reads[0].pointer), ("y", writes[0].pointer), ("index", writes[1].pointer)]
    out += [("outer", kind.outer), ("extent", kind.extent), ("inner", kind.inner)]
    out += [*pitches("x", reads[0]), *pitches("y", writes[0]), *pitches("index", writes[1])]
    return [*out, ("descending", int(kind.largest))]


HEADER = "tl_index.h"
ROWS = "rows of the result"

INDEX = (
    Row("take", "tl_take_rows_32", "index/take_rows.c", "tl_take", HEADER, take_fields, fits=by_rows, split=ROWS),
    Row("take", "tl_take_32", "index/take.c", "tl_take", HEADER, take_fields, split=ROWS),
    Row("put", "tl_put_rows_f32", "index/put_rows.c", "tl_put", HEADER, put_fields, fits=by_rows, split=ROWS),
    Row("put", "tl_put_f32", "index/put.c", "tl_put", HEADER, put_fields, split=ROWS),
    Row("scan", "tl_scan_f32", "index/scan.c", "tl_scan", HEADER, scan_fields, split="lines"),
    Row("extreme", "tl_extreme_f32", "index/extreme.c", "tl_extreme", HEADER, extreme_fields, split="lines"),
    Row("running", "tl_running_f32", "index/running.c", "tl_order", HEADER, running_fields, split="lines"),
    Row("order", "tl_order_f32", "index/order.c", "tl_order", HEADER, order_fields, split="lines"),
)
