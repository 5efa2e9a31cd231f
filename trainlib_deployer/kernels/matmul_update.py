"""Products that move weights by their sums: init - rate * sum over init."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.matmul import TILE, fields, seen, transposed
from trainlib_deployer.kernels.panels import BLOCK, FLOAT
from trainlib_deployer.kernels.row import PAIRS, Fields, Row
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.call import Operand, strides

if TYPE_CHECKING:
    from trainlib_deployer.ops.matmul import MatMul


def can_update(kind: MatMul) -> bool:
    """Does it pay to use its sums up at once? Floats of many terms lie better where they are than in panels."""
    plain = not (kind.init or kind.accumulate) and kind.batch == 1 and min(kind.m, kind.n) >= 4
    return plain and 2 < kind.k <= (BLOCK if kind.storage.is_half else BLOCK // 2)


def is_update(kind: MatMul, _cores: int) -> bool:
    return kind.update


def update_fields(kind: MatMul, reads: list[Operand], writes: list[Operand], scratch: str) -> Fields:
    p, sums = seen(kind, [o.view for o in reads], [o.view for o in writes[:1]]), writes[1].view
    product = [(f"product.{name}", value) for name, value in fields(kind, reads[:3], writes[:1], scratch)]
    _, *record = strides("r", "bmn", transposed(sums) if p.turned else sums)
    return [*product, ("rate", reads[3].pointer), ("record", writes[1].pointer), *record]


def all_panels(kind: MatMul, _cores: int) -> int:
    """Of all rows and columns."""
    return FLOAT * update_steps(kind) * 4 * (-(-kind.m // 4) + -(-kind.n // 4))


def update_steps(kind: MatMul) -> int:
    """Terms, or pairs of halves."""
    return -(-kind.k // 2) if kind.storage.is_half else kind.k


def update_cycles(kind: MatMul, cores: int, costs: Costs) -> float:
    c, steps = costs.update_pairs if kind.storage.is_half else costs.update, update_steps(kind)
    rows, columns = -(-kind.m // 4), -(-kind.n // 4)
    packing = (c.panel + c.panel_step * steps) * -(-(rows + columns) // cores)
    return c.start + packing + (c.tile + c.step * steps) * -(-rows * columns // cores)


row = partial(
    Row,
    "matmul",
    struct="tl_matmul_update",
    header="tl_matmul.h",
    fields=update_fields,
    takes=is_update,
    scratch=all_panels,
    cycles=update_cycles,
    split="tiles",
    grain=TILE,
)

MATMUL_UPDATE = (row("tl_matmul_update_f32", "matmul/matmul_update.c"),)
MATMUL_UPDATE_F16 = (row("tl_matmul_update_f16", "matmul/matmul_update_f16.c", storage=DType.F16, arithmetic=PAIRS),)
