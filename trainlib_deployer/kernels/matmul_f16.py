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
    from trainlib_deployer.ops.conv import Conv
    from trainlib_deployer.ops.matmul import MatMul

MOST_TILES = 16  # of rows that the team packs at a time


def panels(kind: MatMul, cores: int) -> int:
    """The operands may be exchanged."""
    most = max(kind.m, kind.n)
    return packed_panels(kind, kind.batch * -(-most // 4), most, kind.k, working(kind.team, cores))


def packed_panels(kind: MatMul | Conv, tiles: int, columns: int, terms: int, cores: int) -> int:
    """One a core, and the team's of so many tiles of rows; then sums that are to be halves and take several blocks."""
    at_once = min(tiles, MOST_TILES)
    several = kind.result is DType.F16 and terms > BLOCK
    return (cores + at_once) * PAIRS_PANEL + 4 * 4 * FLOAT * at_once * -(-columns // 4) * several


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
