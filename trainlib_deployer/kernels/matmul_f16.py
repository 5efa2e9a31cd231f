"""Matrix products of operands in half precision, which are packed by pairs of terms, however they lie."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.matmul import FOUR, TILE, fields, seen, vector, vector_cycles
from trainlib_deployer.kernels.panels import FLOAT, pair_cycles
from trainlib_deployer.kernels.row import PAIRS, Row
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.cuts import working
from trainlib_deployer.program.ir import View

if TYPE_CHECKING:
    from trainlib_deployer.ops.conv import Conv
    from trainlib_deployer.ops.matmul import MatMul

MOST_PAIRS = 64  # of terms at a time; twice as many of results in halves: no sums wait for further blocks
TEAM_WORDS = 2048  # of rows that the team packs at a time; twice as many, too
ALL_WORDS = 4096  # of all rows, where they are packed at once


def panels(kind: MatMul, cores: int) -> int:
    """The operands may be exchanged."""
    most = max(kind.m, kind.n)
    tiles = kind.batch * -(-most // 4)
    return packed_panels(kind, tiles, tiles, kind.k, working(kind.team, cores))


def packed_panels(kind: MatMul | Conv, tiles: int, across: int, terms: int, cores: int, most: int = TEAM_WORDS) -> int:
    """One a core, and the team's of so many tiles of rows; then sums that are to be halves and take several blocks, so
    many panels of columns across."""
    blocks, panel = of_terms(terms, kind.result)
    at_once = min(tiles, team_words(kind.result) // panel, most)
    sums = 4 * 4 * at_once * across if kind.result.is_half and blocks > 1 else 0
    return FLOAT * ((cores + at_once) * panel + sums)


def of_terms(terms: int, result: DType) -> tuple[int, int]:
    """How many blocks, all but the last one alike, and words of four rows of one."""
    pairs = -(-terms // 2)
    blocks = -(-pairs // (MOST_PAIRS << result.is_half))
    return blocks, 4 * -(-pairs // blocks)


def team_words(result: DType) -> int:
    return TEAM_WORDS << result.is_half


def halves_times_vector(kind: MatMul, cores: int) -> bool:
    return vector(kind, cores) and not any(kind.rounds) and not kind.widens


def of_pairs(kind: MatMul, _cores: int) -> bool:
    return not kind.update and not kind.widens


def whole(kind: MatMul, cores: int) -> bool:
    """One block of terms, and all rows at once, whichever operand they are of."""
    blocks, panel = of_terms(kind.k, kind.result)
    tiles = kind.batch * -(-max(kind.m, kind.n) // 4)
    some = min(kind.batch, kind.m, kind.n) > 0 and of_pairs(kind, cores)
    return some and blocks == 1 and tiles * panel <= ALL_WORDS


def whole_panels(kind: MatMul, cores: int) -> int:
    """One a core, and those of all rows; the operands may be exchanged."""
    tiles = kind.batch * -(-max(kind.m, kind.n) // 4)
    return FLOAT * (working(kind.team, cores) + tiles) * of_terms(kind.k, kind.result)[1]


def whole_cycles(kind: MatMul, cores: int, costs: Costs) -> float:
    team = working(kind.team, cores)
    return pair_cycles(kind.batch, kind.m, kind.n, kind.k, team, max(kind.m, 1), costs.whole_pairs, 1)


def settled_whole(kind: MatMul, reads: Sequence[View], writes: Sequence[View], cores: int, costs: Costs) -> float:
    """Tiles that are partly outside begin and end in a way of their own."""
    p, team, c = seen(kind, reads, writes), working(kind.team, cores), costs.settled_pairs
    tiles, ragged, edges = -(-p.m // TILE.rows), p.m % TILE.rows > 0, p.n % TILE.columns > 0
    share = -(-kind.batch * -(-p.n // TILE.columns) * tiles // team)
    visits = -(-share // tiles) + 1 if tiles else 0
    work = share * (c.tile + c.term * kind.k) + visits * (c.visit + c.last * ragged)
    return work + min(share, tiles) * c.edge * edges + c.packed * kind.batch * p.m * kind.k / team


def cycles(kind: MatMul, cores: int, costs: Costs) -> float:
    return packed_cycles(kind.result, kind.batch, kind.m, kind.n, kind.k, working(kind.team, cores), costs)


def packed_cycles(result: DType, batch: int, rows: int, columns: int, terms: int, cores: int, costs: Costs) -> float:
    """As if packed apart for each item."""
    blocks, panel = of_terms(terms, result)
    return pair_cycles(batch, rows, columns, terms, cores, 4 * (team_words(result) // panel), costs.pairs, blocks)


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
    row(
        "tl_matmul_whole_f16",
        "matmul/matmul_whole_f16.c",
        takes=whole,
        scratch=whole_panels,
        cycles=whole_cycles,
        settled=settled_whole,
        split="tiles",
        grain=TILE,
    ),
    row(
        "tl_matmul_f16",
        "matmul/matmul_f16.c",
        takes=of_pairs,
        scratch=panels,
        cycles=cycles,
        split="tiles",
        grain=TILE,
    ),
)
