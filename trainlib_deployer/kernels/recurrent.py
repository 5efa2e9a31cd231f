"""Recurrent layers: one kernel a cell and direction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.row import Fields, Row, pointer
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.call import Operand, strides

if TYPE_CHECKING:
    from trainlib_deployer.ops.recurrent import Scan


def fields(kind: Scan, reads: list[Operand], writes: list[Operand], scratch: str) -> Fields:
    """`reads` and `writes` of the kind name its operands as the struct does."""
    operands = dict(zip((*kind.reads, *kind.writes), (*reads, *writes), strict=True))
    types = dict.fromkeys(kind.halves, kind.storage)
    out: list[tuple[str, str | int]] = [
        (pointer(name, types.get(name, DType.F32)), operand.pointer) for name, operand in operands.items()
    ]
    if "y" in operands:
        out += strides("y", "tbh", operands["y"].view)
    out += [("steps", kind.steps), ("batch", kind.batch), ("hidden", kind.hidden)]
    out += [("reverse", int(kind.reverse)), ("relu", int(kind.cell == "rnn_relu"))]
    out += [("initial", int(kind.initial or kind.more)), ("resume", int(kind.resume))]
    out += [("rows", kind.rows)] if kind.rows else []
    return [*out, ("scratch", scratch)] if kind.storage.is_half or kind.rows else out


def cycles(kind: Scan, cores: int, costs: Costs) -> float:
    """A step's units are shared out; all wait for the last one."""
    c = costs.scan if kind.direction == "fw" else costs.scan_back
    gates = kind.gates
    unit = c.unit + gates * (c.gate + c.mac * kind.hidden)
    return kind.steps * (c.step + -(-kind.batch * kind.hidden // cores) * unit)


def cycles_brought(kind: Scan, cores: int, costs: Costs) -> float:
    """Four rows of w with all states, or four units with a block's rows, at a time; then what is left of a unit."""
    c = costs.scan if kind.direction == "fw" else costs.scan_back
    every = kind.gates * kind.hidden
    units = -(-kind.batch * kind.hidden // cores)
    blocks = -(-every // kind.rows)
    if kind.direction == "fw":
        fours = blocks * -(-kind.batch * kind.rows // (4 * cores))
        products = fours * (4 * c.mac * kind.hidden + c.four)
    else:
        products = -(-units // 4) * (4 * c.mac * every + c.four * blocks)
    cells = kind.steps * (c.step + units * (c.unit + kind.gates * c.gate))
    return cells + kind.products * (products + c.block * blocks)


def states(kind: Scan, _cores: int) -> int:
    """Of rows for halves: what goes on from step to step, before and after one. Forward that is h, and c in one place;
    backward the gradients of the gates."""
    of_sample = 2 * kind.gates if kind.direction == "bw" else 3 if kind.cell == "lstm" else 2
    return DType.F32.size * of_sample * kind.batch * kind.hidden


def buffers(kind: Scan, cores: int) -> int:
    """Of rows that bring w: two blocks, the states, and forward all sums of a step, backward those of the units
    and of a block of terms."""
    sums = kind.batch * kind.hidden * (kind.gates if kind.direction == "fw" else 2)
    return DType.F32.size * (2 * kind.rows * kind.hidden + sums) + states(kind, cores)


def in_place(kind: Scan, _cores: int) -> bool:
    return not kind.rows


def bringing(kind: Scan, _cores: int) -> bool:
    return kind.rows > 0


def row(name: str) -> Row[Scan]:
    symbol, source = f"tl_{name}_f32", f"recurrent/{name}.c"
    return Row(
        name, symbol, source, "tl_recurrent", "tl_recurrent.h", fields, in_place, cycles=cycles, split="units of a step"
    )


def by_transfers(row: Row[Scan]) -> Row[Scan]:
    symbol, source = f"tl_{row.operation}_brought_f32", f"recurrent/{row.operation}_brought.c"
    split = "rows of w, then units of a step" if row.operation.endswith("fw") else row.split
    return replace(
        row, symbol=symbol, source=source, takes=bringing, scratch=buffers, cycles=cycles_brought, split=split
    )


def of_halves(row: Row[Scan]) -> Row[Scan]:
    symbol, source = f"{row.symbol.removesuffix('_f32')}_f16", f"{row.source.removesuffix('.c')}_f16.c"
    scratch = buffers if row.takes is bringing else states
    return replace(row, symbol=symbol, source=source, scratch=scratch, storage=DType.F16)


IN_PLACE = tuple(row(f"{cell}_{direction}") for cell in ("rnn", "lstm", "gru") for direction in ("fw", "bw"))
FLOATS = (*IN_PLACE, *(by_transfers(row) for row in IN_PLACE))
RECURRENT_F16 = tuple(of_halves(row) for row in FLOATS)
RECURRENT = (*FLOATS, *RECURRENT_F16)
