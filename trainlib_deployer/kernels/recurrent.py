"""Recurrent layers: one kernel a cell and direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainlib_deployer.kernels.row import Fields, Row
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.call import Operand, strides

if TYPE_CHECKING:
    from trainlib_deployer.ops.recurrent import Scan


def fields(kind: Scan, reads: list[Operand], writes: list[Operand], _scratch: str) -> Fields:
    """`reads` and `writes` of the kind name its operands as the struct does."""
    operands = dict(zip((*kind.reads, *kind.writes), (*reads, *writes), strict=True))
    out: list[tuple[str, str | int]] = [(name, operand.pointer) for name, operand in operands.items()]
    if "y" in operands:
        out += strides("y", "tbh", operands["y"].view)
    out += [("steps", kind.steps), ("batch", kind.batch), ("hidden", kind.hidden)]
    out += [("reverse", int(kind.reverse)), ("relu", int(kind.cell == "rnn_relu"))]
    return [*out, ("initial", int(kind.initial or kind.more)), ("resume", int(kind.resume))]


def cycles(kind: Scan, cores: int, costs: Costs) -> float:
    """A step's units are shared out; all wait for the last one."""
    c = costs.scan if kind.direction == "fw" else costs.scan_back
    gates = kind.gates
    unit = c.unit + gates * (c.gate + c.mac * kind.hidden)
    return kind.steps * (c.step + -(-kind.batch * kind.hidden // cores) * unit)


def row(name: str) -> Row[Scan]:
    symbol, source = f"tl_{name}_f32", f"recurrent/{name}.c"
    return Row(name, symbol, source, "tl_recurrent", "tl_recurrent.h", fields, cycles=cycles, split="units of a step")


RECURRENT = tuple(row(f"{cell}_{direction}") for cell in ("rnn", "lstm", "gru") for direction in ("fw", "bw"))
