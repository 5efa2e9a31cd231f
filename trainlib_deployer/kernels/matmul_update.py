"""Products that move weights by their sums: init - rate * sum over init."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.matmul import PACKED, PANELS, ROWS, TILE, fields, lying, seen, transposed
from trainlib_deployer.kernels.panels import BLOCK, FLOAT
from trainlib_deployer.kernels.row import PAIRS, Fields, Row
from trainlib_deployer.machine.costs import Costs, UpdateCosts
from trainlib_deployer.program.call import Operand, strides
from trainlib_deployer.program.cuts import working

if TYPE_CHECKING:
    from trainlib_deployer.ops.matmul import MatMul


def can_update(kind: MatMul) -> bool:
    """Does it pay to use its sums up at once? Floats of many terms lie better where they are than in panels."""
    plain = not (kind.init or kind.accumulate) and kind.batch == 1 and min(kind.m, kind.n) >= 4
    return plain and 2 < kind.k <= (BLOCK if kind.storage.is_half else BLOCK // 2)


def where_they_lie(kind: MatMul, _cores: int) -> bool:
    """Whole tiles of rows and of columns that lie side by side, as they do in weight gradients of linear layers."""
    return kind.update and kind.layouts in (None, (PANELS, PANELS)) and kind.m % 4 == kind.n % 4 == 0


def rows_of_terms(kind: MatMul, _cores: int) -> bool:
    """Whole tiles of rows, and columns, whose terms lie side by side, as pixels do in convolutions by one tap."""
    return kind.update and kind.layouts in (None, (ROWS, ROWS)) and kind.m % 4 == kind.n % 4 == 0


def is_update(kind: MatMul, _cores: int) -> bool:
    return kind.update


def packed(kind: MatMul, cores: int) -> bool:
    return kind.update and (kind.layouts is None or not (where_they_lie(kind, cores) or rows_of_terms(kind, cores)))


def update_fields(kind: MatMul, reads: list[Operand], writes: list[Operand], scratch: str) -> Fields:
    p, sums = seen(kind, [o.view for o in reads], [o.view for o in writes[:1]]), writes[1].view
    product = [(f"product.{name}", value) for name, value in fields(kind, reads[:3], writes[:1], scratch)]
    _, *record = strides("r", "bmn", transposed(sums) if p.turned else sums)
    return [*product, ("rate", reads[3].pointer), ("record", writes[1].pointer), *record]


def all_panels(kind: MatMul, _cores: int) -> int:
    """Of all rows and columns."""
    return FLOAT * update_steps(kind) * 4 * (-(-kind.m // 4) + -(-kind.n // 4))


def own_panel(kind: MatMul, cores: int) -> int:
    """Of four columns, for each core."""
    return FLOAT * 4 * kind.k * working(kind.team, cores)


def update_steps(kind: MatMul) -> int:
    """Terms, or pairs of halves."""
    return -(-kind.k // 2) if kind.storage.is_half else kind.k


def panels_cycles(kind: MatMul, cores: int, costs: Costs) -> float:
    return tiles_cycles(kind, cores, costs.update_panels)


def rows_cycles(kind: MatMul, cores: int, costs: Costs) -> float:
    """A core packs the columns of its tiles."""
    c, rows, columns, team = costs.update_rows, -(-kind.m // 4), -(-kind.n // 4), working(kind.team, cores)
    share = -(-rows * columns // team)
    packing = (c.panel + c.panel_step * kind.k) * (-(-share // rows) + (rows * columns % team > 0))
    return c.start + packing + (c.tile + c.step * kind.k) * share


def packed_cycles(kind: MatMul, cores: int, costs: Costs) -> float:
    return tiles_cycles(kind, cores, costs.update)


def pairs_cycles(kind: MatMul, cores: int, costs: Costs) -> float:
    return tiles_cycles(kind, cores, costs.update_pairs)


def tiles_cycles(kind: MatMul, cores: int, c: UpdateCosts) -> float:
    steps, rows, columns = update_steps(kind), -(-kind.m // 4), -(-kind.n // 4)
    packing = (c.panel + c.panel_step * steps) * -(-(rows + columns) // cores)
    return c.start + packing + (c.tile + c.step * steps) * -(-rows * columns // working(kind.team, cores))


row = partial(
    Row,
    "matmul",
    struct="tl_matmul_update",
    header="tl_matmul.h",
    fields=update_fields,
    split="tiles",
    grain=TILE,
)

packed_row = partial(row, scratch=all_panels)

MATMUL_UPDATE = (
    row(
        "tl_matmul_update_panels_f32",
        "matmul/matmul_update_panels.c",
        takes=where_they_lie,
        fits=lying(PANELS, PANELS),
        cycles=panels_cycles,
    ),
    row(
        "tl_matmul_update_rows_f32",
        "matmul/matmul_update_rows.c",
        takes=rows_of_terms,
        fits=lying(ROWS, PACKED),
        scratch=own_panel,
        cycles=rows_cycles,
    ),
    packed_row("tl_matmul_update_f32", "matmul/matmul_update.c", takes=packed, cycles=packed_cycles),
)
MATMUL_UPDATE_F16 = (
    packed_row(
        "tl_matmul_update_f16",
        "matmul/matmul_update_f16.c",
        takes=is_update,
        cycles=pairs_cycles,
        storage=DType.F16,
        arithmetic=PAIRS,
    ),
)
