"""Layers that stay fp32 in mixed precision, as people name them."""

from __future__ import annotations

import difflib

from torch import nn

from golden.layers import named, outside
from golden.loss_scale import LossScale
from trainlib_deployer.errors import UsageError
from trainlib_deployer.formats import DType
from trainlib_deployer.program.precision import HALVES, Precision


def precision_of(
    module: nn.Module, dtype: str, names: tuple[str, ...] = (), loss_scale: LossScale | None = None
) -> Precision:
    """What `--dtype` means for this module, with layers of these names kept."""
    keep = kept_layers(module, names)
    weights = frozenset(outside(module, keep) if dtype == "fp16" else ())
    return Precision(dtype != "fp32", keep, weights, loss_scale, HALVES.get(dtype, DType.F16))


def kept_layers(module: nn.Module, names: tuple[str, ...]) -> tuple[str, ...]:
    """Their paths, each of which stands for all that is in it."""
    found = named(module, names)
    known = [n for n, _ in module.named_modules() if n]
    for name in (n for n, layers in found.items() if not layers):
        close = difflib.get_close_matches(name, known, 3, 0.4) or known[:3]
        raise UsageError(f"there is no layer '{name}' to keep in fp32", remedy=f"did you mean: {', '.join(close)}")
    return tuple(dict.fromkeys(n for layers in found.values() for n in layers))
