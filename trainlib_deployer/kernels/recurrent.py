"""Recurrent layers: one kernel a cell and direction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.row import AnyRow, Fields, Row, pointer
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.call import Operand, strides
from trainlib_deployer.program.ir import Kind

if TYPE_CHECKING:
    from trainlib_deployer.ops.recurrent import Scan, Scans


K = TypeVar("K", bound=Kind)


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


def fields_both(kind: Scans, reads: list[Operand], writes: list[Operand], scratch: str) -> Fields:
    """The second one's scratch lies behind the first one's."""
    first, second = kind.scans
    given, made = len(first.reads), len(first.writes)
    own = fields(first, reads[:given], writes[:made], scratch)
    other = [*fields(second, reads[given:], writes[made:], scratch)]
    if second.storage.is_half:
        other += [("taken", states(first, 0) // DType.F32.size)]
    return [*((f"first.{name}", value) for name, value in own), *((f"second.{name}", value) for name, value in other)]


def cycles(kind: Scan, cores: int, costs: Costs) -> float:
    """A step's units are shared out; all wait for the last one. Those of a sample go in groups."""
    c = costs.scan if kind.direction == "fw" else costs.scan_back
    samples, rest = divmod(-(-kind.batch * kind.hidden // cores), kind.hidden)
    return kind.steps * (c.step + samples * of_units(kind, kind.hidden, costs) + of_units(kind, rest, costs))


def of_units(kind: Scan, units: int, costs: Costs) -> float:
    """What so many take of a core. Forward functions are called for four units, however many there are."""
    forward, gates = kind.direction == "fw", kind.gates
    c = costs.scan if forward else costs.scan_back
    found = 0.0
    for group in groups(units, 4 if forward and gates > 1 else 6):
        if not forward:
            sums, functions = gates * lines(group), group * gates
        elif gates > 1:
            sums, functions = 8 * gates + 1 if group == 4 else group * lines(gates), 4 * gates
        else:
            sums, functions = lines(group), 0
        found += c.group + c.line * kind.hidden * sums + group * c.unit + functions * c.gate
    return found


def groups(units: int, most: int) -> Iterator[int]:
    """Those that a core works on at a time (tl_moment.h)."""
    while units:
        group = min(units, 4) if units > 6 or most == 4 else 3 if units == 5 else units
        yield group
        units -= group


def lines(count: int) -> int:
    """Instructions for a term of so many sums."""
    return 7 if count < 4 else 2 * count + 1


def cycles_both(kind: Scans, cores: int, costs: Costs) -> float:
    """Half of the cores each; a single core does one behind the other."""
    first, second = kind.scans
    if cores == 1:
        return cycles(first, 1, costs) + cycles(second, 1, costs)
    return max(cycles(first, cores // 2, costs), cycles(second, cores - cores // 2, costs))


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


def states_both(kind: Scans, cores: int) -> int:
    return sum(states(scan, cores) for scan in kind.scans)


def buffers(kind: Scan, cores: int) -> int:
    """Of rows that bring w: two blocks, the states, and forward all sums of a step, backward those of the units
    and of a block of terms."""
    sums = kind.batch * kind.hidden * (kind.gates if kind.direction == "fw" else 2)
    return DType.F32.size * (2 * kind.rows * kind.hidden + sums) + states(kind, cores)


def in_place(kind: Scan, _cores: int) -> bool:
    return not kind.rows


def bringing(kind: Scan, _cores: int) -> bool:
    return kind.rows > 0


def both(name: str) -> Row[Scans]:
    symbol, source = f"tl_{name}_both_f32", f"recurrent/{name}_both.c"
    split = "scans, then units of a step"
    return Row(
        f"{name}_both",
        symbol,
        source,
        "tl_recurrent_both",
        "tl_recurrent.h",
        fields_both,
        cycles=cycles_both,
        split=split,
    )


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


def of_halves(row: Row[K], scratch: Callable[[K, int], int]) -> Row[K]:
    symbol, source = f"{row.symbol.removesuffix('_f32')}_f16", f"{row.source.removesuffix('.c')}_f16.c"
    return replace(row, symbol=symbol, source=source, scratch=scratch, storage=DType.F16)


NAMES = tuple(f"{cell}_{direction}" for cell in ("rnn", "lstm", "gru") for direction in ("fw", "bw"))
IN_PLACE = tuple(row(name) for name in NAMES)
BY_TRANSFERS = tuple(by_transfers(row) for row in IN_PLACE)
BOTH = tuple(both(name) for name in NAMES)
RECURRENT_F16: tuple[AnyRow, ...] = (
    *(of_halves(row, states) for row in IN_PLACE),
    *(of_halves(row, buffers) for row in BY_TRANSFERS),
    *(of_halves(row, states_both) for row in BOTH),
)
RECURRENT: tuple[AnyRow, ...] = (*IN_PLACE, *BY_TRANSFERS, *BOTH, *RECURRENT_F16)
