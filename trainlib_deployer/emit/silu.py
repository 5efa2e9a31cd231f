"""A row of x sigmoid(x) and its slope: one call. With PULP's own instructions that is a hardware loop. A build that
records makes it element by element."""

from __future__ import annotations

from trainlib_deployer.emit.loop_text import Text
from trainlib_deployer.emit.rows import Row
from trainlib_deployer.program.expr import Const, Instr
from trainlib_deployer.program.ir import DType
from trainlib_deployer.program.loop import Loop


def is_silu(kind: Loop, row: Row) -> bool:
    """Where a dense row of floats keeps what `silu` and the factor of its gradient in ops/activations.py are."""
    if kind.inputs != (DType.F32,) or any(p.stride != 1 for p in (*row.reads.values(), *row.writes)):
        return False
    x, s, y, rest, slope = range(5)
    steps = ("sigmoid", (x,)), ("mul", (x, s)), ("sub", (Const(1.0), s)), ("fma", (y, rest, s))
    body = tuple(Instr(op, args, DType.F32) for op, args in steps)
    return (kind.body, kind.kept, kind.outputs) == (body, (y, slope), (DType.F32,) * 2)


def silu_row(t: Text, row: Row) -> None:
    rows = [row.first(p) for p in (*row.writes, *row.reads.values())]
    t.add(f"tl_silu_row({', '.join([*rows, row.elements])});")
