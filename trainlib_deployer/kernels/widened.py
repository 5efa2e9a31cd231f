"""Products of a vector of halves with a matrix of floats, such as weights at batch 1.

To round the matrix would take longer than to use it, so the vector is widened as it is read, and floats are multiplied:
the bits are those of floats between conversions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.matmul import (
    FOUR,
    dense_vector,
    fields,
    one_vector_cycles,
    parts,
    scarce,
    seen,
    split_vector_cycles,
    step,
    vector_cycles,
)
from trainlib_deployer.kernels.row import Row
from trainlib_deployer.program.ir import View

if TYPE_CHECKING:
    from trainlib_deployer.ops.matmul import MatMul


def widens(kind: MatMul, _cores: int) -> bool:
    return kind.widens


def widens_few(kind: MatMul, cores: int) -> bool:
    """Too few rows for the team, whose sums are added up as floats."""
    return kind.widens and not kind.result.is_half and scarce(kind, cores)


def dense(kind: MatMul, reads: Sequence[View], writes: Sequence[View]) -> bool:
    """One vector, whose elements are neighbours."""
    return kind.batch == 1 and step(seen(kind, reads, writes).b, 1) == 1


row = partial(Row, "matmul", struct="tl_matmul", header="tl_matmul.h", fields=fields, storage=DType.F16, grain=FOUR)

WIDENED = (
    row(
        "tl_matmul_split_widened_f16",
        "matmul/matmul_split_widened_f16.c",
        takes=widens_few,
        fits=dense_vector,
        scratch=parts,
        cycles=split_vector_cycles,
        split="blocks of rows",
    ),
    row(
        "tl_matmul_widened_f16",
        "matmul/matmul_widened_f16.c",
        takes=widens,
        fits=dense,
        cycles=one_vector_cycles,
        split="rows",
    ),
    row(
        "tl_matmul_widened_any_f16",
        "matmul/matmul_widened_any_f16.c",
        takes=widens,
        cycles=vector_cycles,
        split="rows",
    ),
)
