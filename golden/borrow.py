"""The user's own module for the time of a run: what it held at the start, in another precision; then its own again."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch import nn

from golden import precision
from golden.snapshot import Snapshot, plain_tensor


@contextlib.contextmanager
def borrowed(start: Snapshot, dtype: torch.dtype) -> Iterator[None]:
    """The things themselves, not copies, since a loss may read `model.parameters()`. Afterwards all of them hold what
    they hold now."""
    now = Snapshot(*start.things.values(), like=start)
    with now.undone(), start.undone():
        start.restore()
        gradients = {id(t.grad) for t in start.things.values() if isinstance(t, nn.Parameter)}
        for p in (t for t in start.things.values() if isinstance(t, nn.Parameter) and plain_tensor(t)):
            p.grad = None
            p.data = in_precision(p.data, dtype)
        held = (t for t in start.things.values() if isinstance(t, torch.Tensor) and id(t) in start.places)
        constants = (t for t in held if plain_tensor(t) and not t.requires_grad and not isinstance(t, nn.Parameter))
        start.put({id(t): in_precision(t, dtype) for t in constants})
        for t in (t for t in start.things.values() if isinstance(t, torch.Tensor) and id(t) not in start.places):
            if (
                plain_tensor(t) and not t.requires_grad and id(t) not in gradients
            ):  # in a tuple, where it cannot be replaced
                t.data = in_precision(t.data, dtype)
        yield


def in_precision(t: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The float32 of the user's model, complex or not, in the precision of a run; anything else as it is."""
    return precision.in_precision(t, dtype) if t.dtype in (torch.float32, torch.complex64) else t


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    """torch.cond, which compiles its branches, as Python's own."""
    return (true_fn if pred else false_fn)(*operands)


@contextlib.contextmanager
def uncompiled() -> Iterator[None]:
    """What torch.compile has been applied to runs as it was written, and so does attention without gradients."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with unchanged():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


@contextlib.contextmanager
def unchanged() -> Iterator[None]:
    dynamo: Any = sys.modules.get("torch._dynamo")  # seconds to import, where nothing is compiled
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(torch, "cond", cond))
        if dynamo is not None:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            stack.enter_context(dynamo.config.patch(error_on_nested_fx_trace=False))
        yield


def unwrapped(module: nn.Module) -> nn.Module:
    """The module that DataParallel or torch.compile was given."""
    while (inner := inside(module)) is not None:
        module = inner
    return module


def inside(module: nn.Module) -> nn.Module | None:
    if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
        return module.module  # type: ignore[no-any-return]
    inner = getattr(module, "_orig_mod", None)
    return inner if isinstance(inner, nn.Module) else None
