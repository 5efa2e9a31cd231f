"""Arrays as C initialisers."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch.utils import _pytree as pytree

from trainlib_deployer.emit.names import literal
from trainlib_deployer.program.ir import DType, Tensor
from trainlib_deployer.user.model import UserModel

Array = np.ndarray[Any, Any]


def numbers(values: Array, dtype: DType) -> str:
    """All elements in order, as literals that read back exactly."""
    flat = values.reshape(-1)
    if dtype is not DType.F32:
        return ", ".join(map(str, flat.tolist()))
    plain = bool(np.isfinite(flat).all()) and not bool((np.signbit(flat) & (flat == 0)).any())
    if not plain:
        return ", ".join([literal(v, dtype) for v in flat.tolist()])
    return ", ".join([f"{v:.9g}" for v in flat.astype(np.float64).tolist()])


def initial_value(values: object, tensor: Tensor) -> str:
    array = np.asarray(values)
    if not tensor.shape:
        return numbers(array, tensor.dtype)
    if not array.any():
        return "{0}"
    return "{" + numbers(array, tensor.dtype) + "}"


def sample_arrays(user: UserModel, side: int, index: int, count: int) -> list[Array]:
    """The values of one input (side 0) or target (side 1) over the samples of the verification run."""
    return [np.asarray(leaves(sample[side])[index].detach()) for sample in user.samples[:count]]


def leaves(value: Any) -> list[Any]:
    return list(pytree.tree_leaves(value))
