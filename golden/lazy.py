"""nn.Lazy* modules, which get their shapes from a first call, for good; nothing else changes by it."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import is_lazy

from golden.snapshot import Snapshot


def materialize(module: nn.Module, call: Callable[[], None]) -> None:
    waiting = [m for m in module.modules() if waits(m)]
    modes = [m.training for m in waiting]
    if waiting:
        with Snapshot(module, skip=waiting).undone():
            call()
    for m, training in zip(waiting, modes, strict=True):
        m.training = training


def waits(module: nn.Module) -> bool:
    """One that was given values has its shapes from them, and waits for the call that makes it an ordinary one."""
    if isinstance(module, LazyModuleMixin) and hasattr(module, "_initialize_hook"):
        return True
    return any(map(is_lazy, (*module.parameters(recurse=False), *module.buffers(recurse=False))))
