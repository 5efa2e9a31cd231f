"""The table of kernels, and which of them carries out an operation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import cast

from trainlib_deployer.kernels.bf16 import BF16
from trainlib_deployer.kernels.carry import CARRY
from trainlib_deployer.kernels.conv import CONV
from trainlib_deployer.kernels.conv_around import AROUND
from trainlib_deployer.kernels.conv_block import IN_A_BLOCK
from trainlib_deployer.kernels.conv_f16 import CONV_F16
from trainlib_deployer.kernels.conv_inside import INSIDE
from trainlib_deployer.kernels.conv_plane import PLANES
from trainlib_deployer.kernels.depthwise import DEPTHWISE
from trainlib_deployer.kernels.depthwise_f16 import DEPTHWISE_F16
from trainlib_deployer.kernels.index import INDEX
from trainlib_deployer.kernels.matmul import MATMUL
from trainlib_deployer.kernels.matmul_f16 import MATMUL_F16
from trainlib_deployer.kernels.matmul_update import MATMUL_UPDATE, MATMUL_UPDATE_F16
from trainlib_deployer.kernels.pool import POOL
from trainlib_deployer.kernels.recurrent import RECURRENT
from trainlib_deployer.kernels.row import AnyRow, Row, any_layout
from trainlib_deployer.kernels.widened import WIDENED
from trainlib_deployer.kernels.winograd import WINOGRAD
from trainlib_deployer.kernels.winograd_f16 import WINOGRAD_F16
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.ir import Kind, View

ROWS: tuple[AnyRow, ...] = (
    *MATMUL,
    *MATMUL_F16,
    *WIDENED,
    *MATMUL_UPDATE,
    *MATMUL_UPDATE_F16,
    *PLANES,
    *DEPTHWISE,  # before those of any groups: some take one channel and any number of others
    *IN_A_BLOCK,
    *INSIDE,
    *AROUND,
    *CONV,
    *CONV_F16,
    *WINOGRAD,
    *WINOGRAD_F16,
    *DEPTHWISE_F16,
    *POOL,
    *RECURRENT,
    *INDEX,
    *CARRY,
    *BF16,
)
BY_OPERATION: dict[str, tuple[AnyRow, ...]] = {
    name: tuple(r for r in ROWS if r.operation == name) for name in dict.fromkeys(r.operation for r in ROWS)
}


@lru_cache(maxsize=1 << 16)
def rows_for(kind: Kind, cores: int) -> list[Row[Kind]]:
    """Those that take an operation of this shape and these operands; the better ones first."""
    named = cast("tuple[Row[Kind], ...]", BY_OPERATION.get(kind.name, ()))  # rows of its name are for kinds like it
    return [r for r in named if r.storage is kind.storage and r.takes(kind, cores)]


@lru_cache(maxsize=1 << 16)
def scratch(kind: Kind, cores: int) -> int:
    """Bytes, whatever the strides turn out to be."""
    return max((r.scratch(kind, cores) for r in within_reach(kind, rows_for(kind, cores))), default=0)


def within_reach(kind: Kind, rows: Sequence[Row[Kind]]) -> Sequence[Row[Kind]]:
    """Those that are chosen for some strides: no further than to the first one that takes any, or all of this kind."""
    last = (at for at, r in enumerate(rows, 1) if r.fits is any_layout or r.surely(kind))
    return rows[: next(last, len(rows))]


def cycles(kind: Kind, cores: int, costs: Costs) -> float:
    """Of the slowest core, by the row that takes fewest."""
    return min(r.cycles(kind, cores, costs) for r in rows_for(kind, cores))


def fitting(kind: Kind, reads: Sequence[View], writes: Sequence[View], cores: int) -> list[Row[Kind]]:
    """All that take it, on operands that lie like this."""
    return [r for r in rows_for(kind, cores) if r.fits(kind, reads, writes)]


def chosen(kind: Kind, reads: Sequence[View], writes: Sequence[View], cores: int, rather: str = "") -> Row[Kind] | None:
    """The row that carries out an operation, or a tile, on operands that lie like this; None for a generated loop.
    `rather` is the symbol of one that goes before the others where it fits."""
    found = fitting(kind, reads, writes, cores)
    assert found or kind.name not in BY_OPERATION, f"no kernel takes {kind}"
    return next((r for r in found if r.symbol == rather), found[0]) if found else None
