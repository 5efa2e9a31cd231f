"""Matrix products of operands in half precision, which are packed by pairs of terms, however they lie."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.matmul import FOUR, TILE, fields, vector, vector_cycles
from trainlib_deployer.kernels.panels import BLOCK, FLOAT, PAIRS_PANEL, pair_cycles
from trainlib_deployer.kernels.row import PAIRS, Row
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.cuts import working

if TYPE_CHECKING:
    from trainlib_deployer.ops.matmul import MatMul

MOST_TILES = 16  # of rows that the team packs at a time


def panels(kind: MatMul, cores: int) -> int:
    """One a core, and the team's: of rows or, where the operands are exchanged, of columns. Then sums that are to be
    halves and take several blocks."""
    tiles = kind.batch * -(-max(kind.m, kind.n) // 4)
    own = (working(kind.team, cores) + min(tiles, MOST_TILES)) * PAIRS_PANEL
    if kind.result is DType.F32 or kind.k <= BLOCK:
        return own
    return own + 4 * 4 * FLOAT * MOST_TILES * -(-max(kind.m, kind.n) // 4)


def halves_times_vector(kind: MatMul, cores: int) -> bool:
    return vector(kind, cores) and not any(kind.rounds)


def cycles(kind: MatMul, cores: int, costs: Costs) -> float:
    team, most = working(kind.team, cores), 2 * MOST_TILES  # as if packed apart for each item and 32 rows
    return pair_cycles(kind.batch, kind.m, kind.n, kind.k, team, most, costs.pairs)


row = partial(
    Row,
    "matmul",
    struct="tl_matmul",
    header="tl_matmul.h",
    fields=fields,
    storage=DType.F16,
    arithmetic=PAIRS,
)

MATMUL_F16 = (
    row(
        "tl_matmul_vectors_f16",
        "matmul/matmul_vectors_f16.c",
        takes=halves_times_vector,
        cycles=vector_cycles,
        split="rows",
        grain=FOUR,
    ),
    row("tl_matmul_f16", "matmul/matmul_f16.c", scratch=panels, cycles=cycles, split="tiles", grain=TILE),
)
