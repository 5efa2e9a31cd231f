"""Operations, one file per family; importing this package fills the registry."""

from trainlib_deployer.ops import (
    conv,
    index,
    labels,
    matmul,
    movement,
    norm,
    optim,
    order,
    pad,
    pointwise,
    pool,
    random,
    recurrent,
    reduce,
    resize,
    softmax,
)

__all__ = [
    "conv",
    "index",
    "labels",
    "matmul",
    "movement",
    "norm",
    "optim",
    "order",
    "pad",
    "pointwise",
    "pool",
    "random",
    "recurrent",
    "reduce",
    "resize",
    "softmax",
]
