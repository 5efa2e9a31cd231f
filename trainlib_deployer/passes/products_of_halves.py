"""Which products of mixed precision multiply halves, what they round themselves, and what they store."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from trainlib_deployer.kernels import depthwise_f16
from trainlib_deployer.kernels.matmul import vector
from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.ops.pool import MaxPool
from trainlib_deployer.program.ir import DType, Kind, Op, View

MOST_TERMS = 128  # of sums that are halves: whole ones have to lie in L1, as they do not go on from tile to tile


def is_product(kind: Kind) -> bool:
    """It multiplies its first two operands, as halves, and adds up. Of a matrix that is used with one vector alone, a
    copy in halves would take longer to make than it saves."""
    return isinstance(kind, Conv) or (isinstance(kind, MatMul) and min(kind.m, kind.n, kind.k) > 1)


def has_vector(op: Op, halves: Container[str]) -> bool:
    """Of halves, that a matrix meets."""
    kind = op.kind
    return isinstance(kind, MatMul) and vector(kind) and op.reads[vector_at(kind)].tensor in halves


def vector_at(kind: MatMul) -> int:
    """Which operand is the vector."""
    return 0 if kind.m == 1 else 1


def widening(kind: MatMul, half: DType, result: DType) -> MatMul:
    """Of a vector of halves and a matrix of floats."""
    at = vector_at(kind)
    return replace(kind, storage=half, result=result, rounds=(at != 0, at != 1), widens=True)


def only_whole(kind: MatMul | Conv) -> bool:
    """Whether its kernels of halves store nothing else."""
    return isinstance(kind, Conv) and kind.direction != "bw_w" and depthwise_f16.widens(kind)


def packable(kind: MatMul | Conv) -> tuple[int, ...]:
    """Operands that may lie as floats: its kernels of halves round them as they pack them."""
    if isinstance(kind, MatMul):
        return (0, 1) if is_product(kind) else ()
    return () if kind.direction == "bw_w" else (1,)


def of_halves(kind: MatMul | Conv, packed: set[int], half: DType, result: DType) -> MatMul | Conv:
    if isinstance(kind, MatMul):
        return replace(kind, storage=half, result=result, rounds=(0 in packed, 1 in packed))
    twos, widens = depthwise_f16.pays(kind), depthwise_f16.widens(kind)
    return replace(kind, storage=half, result=result, rounds=1 in packed, twos=twos, widens=widens)


def stored_as_halves(op: Op, halves: Container[str]) -> tuple[View, ...]:
    """Results that a kernel of halves rounds as it stores them. Long sums and those of weight gradients go on
    from tile to tile. `halves`: tensors that are."""
    kind = op.kind
    if isinstance(kind, MaxPool):
        return op.writes
    if not isinstance(kind, MatMul | Conv) or not (is_product(kind) or has_vector(op, halves)):
        return ()
    return () if goes_on(kind) else op.writes


def goes_on(kind: MatMul | Conv) -> bool:
    """Whether its sums are better cut, from tile to tile. A convolution by one tap is a product, too."""
    if isinstance(kind, MatMul):
        return kind.k > MOST_TERMS
    s = kind.shape
    return kind.direction == "bw_w" or (s.pointwise and (s.ci if kind.direction == "fw" else s.co) > MOST_TERMS)
