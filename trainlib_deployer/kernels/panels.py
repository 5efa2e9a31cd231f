"""What kernels share that work on panels of packed operands: 4 x 4 results over blocks of 64 terms."""

from __future__ import annotations

from trainlib_deployer.formats import DType
from trainlib_deployer.machine.costs import PairCosts, PanelCosts

BLOCK = 64  # terms of a sum that are added up on their own: TL_KC of tl_block.h
FLOAT = DType.F32.size
PANEL = BLOCK * 4 * FLOAT  # bytes of [BLOCK][4]
PAIRS_PANEL = BLOCK * 4 * DType.F16.size  # of halves, in pairs of terms


def panel_cycles(
    batch: int,
    rows: int,
    columns: int,
    terms: int,
    cores: int,
    costs: PanelCosts,
    blocks: int = 0,
    packing: float = 1.0,
) -> float:
    """Cycles of the slowest core for tiles of 4 x 4 results, with a panel packed for each visit of 4 columns, at so
    many times the usual cycles a term. The terms have so many `blocks`, or, with 0, whole ones but for the last."""
    tiles = -(-rows // 4)
    share = -(-batch * -(-columns // 4) * tiles // cores)
    blocks = blocks or -(-terms // BLOCK)
    visits = -(-share // tiles) + 1
    tile = costs.tile_term * terms + costs.tile_block * blocks + costs.tile
    visit = packing * costs.visit_term * terms + costs.visit_block * blocks + costs.visit
    edge = costs.edge_term * terms + min(share, tiles) * costs.edge_block * blocks if columns % 4 else 0
    return share * tile + visits * visit + edge


def pair_cycles(
    batch: int, rows: int, columns: int, terms: int, cores: int, packed_rows: int, costs: PairCosts, blocks: int = 0
) -> float:
    """The same for halves, where the team packs so many rows at a time."""
    tiles, blocks = -(-rows // 4), blocks or -(-terms // BLOCK)
    share = -(-batch * -(-columns // 4) * tiles // cores)
    visits = -(-share // tiles) + 1 if tiles else 0
    tile = costs.tile_term * terms + costs.tile_block * blocks
    team = batch * -(-rows // packed_rows) * costs.block * blocks + costs.packed * batch * rows * terms / cores
    return share * tile + visits * costs.visit_block * blocks + team
