"""Networks that set parameters by the first input they ever see, as ActNorm does: a step begins behind that."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from golden.examples import leaves
from golden.precision import InOrder, one_thread
from golden.snapshot import Snapshot

Tensors = Mapping[str, torch.Tensor]


def first_called(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[str, ...]:
    """The parameters that the first call sets and later ones leave. They are set then, and what says so is noted in the
    module; all else is as it was. Where a step from there is not the very same first step, nothing is done."""
    start, before = Snapshot(module), contents(module)
    with start.undone():
        called(module, inputs)
        after = contents(module)
        parameters = [n for n, _ in module.named_parameters() if changed(before, after, n)]
        if not parameters:
            return ()
        called(module, inputs)
        later = contents(module)
        found = tuple(n for n in parameters if not changed(after, later, n))
        if not found or constrained(module, inputs, found):
            return ()
    wanted = called(module, inputs)
    passing = [n for n in before if changed(before, after, n) and changed(after, later, n)]
    put(module, {n: before[n] for n in passing})
    with Snapshot(module).undone():
        same = alike(called(module, inputs), wanted) and not any(changed(after, contents(module), n) for n in after)
    if not same:
        start.restore()
        return ()
    return found


def constrained(module: nn.Module, inputs: tuple[Any, ...], names: tuple[str, ...]) -> bool:
    """Whether every call may change these, as one that clamps weights or bounds their norm: tried with values that no
    bound lets pass."""
    values = {n: p.detach().clone() for n, p in module.named_parameters() if n in names}
    for factor in (16.0, -16.0):
        put(module, {n: factor * (v + 1.0) for n, v in values.items()})
        before = contents(module)
        try:
            called(module, inputs)
        except Exception:  # with such values it does not even run
            return True
        after = contents(module)
        if any(changed(before, after, n) for n in names):
            return True
    return False


def called(module: nn.Module, inputs: tuple[Any, ...]) -> list[torch.Tensor]:
    """What it returns in its own mode; the generators of random numbers notice nothing."""
    with Snapshot().undone(), torch.enable_grad(), one_thread(), InOrder():
        return [t.detach().clone() for t in leaves(module(*copy.deepcopy(inputs)))]


def contents(module: nn.Module) -> dict[str, torch.Tensor]:
    return {n: t.detach().clone() for n, t in (*module.named_parameters(), *module.named_buffers())}


def changed(before: Tensors, after: Tensors, name: str) -> bool:
    return name not in before or name not in after or not alike([before[name]], [after[name]])


def alike(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    """Bit by bit; what is no number is one like another."""
    if len(one) != len(other):
        return False
    return all(
        a.shape == b.shape and a.dtype is b.dtype and torch.equal(a.nan_to_num(), b.nan_to_num())
        for a, b in zip(one, other, strict=True)
    )


def put(module: nn.Module, values: Tensors) -> None:
    for name, value in values.items():
        path, _, leaf = name.rpartition(".")
        held = getattr(module.get_submodule(path), leaf)
        held.data = value
