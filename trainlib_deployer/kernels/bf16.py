"""Kernels of bfloat16: those of halves, whose sources say nothing of the type (c_lib/bf16). Winograd's are not among
them: eight bits are too few for what they round on the way."""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.conv_f16 import CONV_F16
from trainlib_deployer.kernels.depthwise_f16 import DEPTHWISE_F16
from trainlib_deployer.kernels.matmul_f16 import MATMUL_F16
from trainlib_deployer.kernels.matmul_update import MATMUL_UPDATE_F16
from trainlib_deployer.kernels.pool import POOL
from trainlib_deployer.kernels.recurrent import RECURRENT_F16
from trainlib_deployer.kernels.row import AnyRow
from trainlib_deployer.kernels.widened import WIDENED

POOL_F16 = tuple(r for r in POOL if r.storage is DType.F16)
HALVES: tuple[AnyRow, ...] = (
    *MATMUL_F16,
    *MATMUL_UPDATE_F16,
    *WIDENED,
    *CONV_F16,
    *DEPTHWISE_F16,
    *POOL_F16,
    *RECURRENT_F16,
)


def of_bfloat(row: AnyRow) -> AnyRow:
    return replace(row, symbol=f"{row.symbol.removesuffix('_f16')}_bf16", storage=DType.BF16)


BF16 = tuple(of_bfloat(row) for row in HALVES)
