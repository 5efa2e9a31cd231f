"""Operations, one file per family; importing this package fills the registry."""

from trainlib_deployer.ops import (
    conv,
    index,
    matmul,
    movement,
    norm,
    optim,
    pointwise,
    pool,
    reduce,
    softmax,
)

__all__ = ["conv", "index", "matmul", "movement", "norm", "optim", "pointwise", "pool", "reduce", "softmax"]
