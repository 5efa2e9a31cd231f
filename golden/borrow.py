"""The user's own module for the time of a run: other contents in another precision, and then its own again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from golden.precision import cast


@dataclass(frozen=True)
class Contents:
    """What a module holds: tensors by name, the modules in training mode, the parameters that are trained."""

    tensors: Mapping[str, torch.Tensor]
    training: frozenset[str]
    trainable: frozenset[str]


def contents(module: nn.Module) -> Contents:
    tensors = {n: t.detach().clone() for n, t in (*module.named_parameters(), *module.named_buffers())}
    training = frozenset(n for n, m in module.named_modules() if m.training)
    return Contents(tensors, training, frozenset(n for n, p in module.named_parameters() if p.requires_grad))


@contextlib.contextmanager
def borrowed(module: nn.Module, start: Contents, dtype: torch.dtype) -> Iterator[None]:
    """The module itself, not a copy, since a loss may read `model.parameters()`: with the contents of `start` in
    another precision. Afterwards it holds what it held before."""
    parameters = [(p, p.data, p.grad, p.requires_grad) for p in module.parameters()]
    modules = [(m, dict(m._buffers), m._forward_hooks.copy(), m.training) for m in module.modules()]
    for name, p in module.named_parameters():
        p.grad = None
        p.data = cast(start.tensors[name].clone(), dtype)
        p.requires_grad_(name in start.trainable)
    buffers = {id(b): cast(start.tensors[n].clone(), dtype) for n, b in module.named_buffers()}
    for name, m in module.named_modules():
        m.training = name in start.training
        m._buffers.update({n: buffers[id(b)] for n, b in m._buffers.items() if b is not None})
    try:
        yield
    finally:
        for p, value, gradient, trained in parameters:
            p.grad = None
            p.data, p.grad = value, gradient
            p.requires_grad_(trained)
        for m, before, hooks, training in modules:
            m._buffers.update(before)
            m._forward_hooks, m.training = hooks, training


def own(module: nn.Module) -> dict[int, Any]:
    """For deepcopy: the module and what belongs to it are not copied."""
    return {id(v): v for v in (*module.modules(), *module.parameters(), *module.buffers())}
