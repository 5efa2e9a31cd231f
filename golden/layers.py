"""Which operations belong to chosen layers: those of a module's forward, and the gradients of these."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn


def named(module: nn.Module, patterns: Sequence[str]) -> dict[str, list[str]]:
    """The layers that each pattern means: by their whole path, or by its end."""
    layers = [n for n, _ in module.named_modules() if n]
    return {p: [n for n in layers if fnmatchcase(n, p) or fnmatchcase(n, f"*.{p}")] for p in patterns}


def outside(module: nn.Module, layers: Sequence[str]) -> list[str]:
    """The parameters that do not lie in these."""
    return [n for n, _ in module.named_parameters() if not any(n.startswith(f"{layer}.") for layer in layers)]


class Inside:
    """Tells for the operation that runs now, forward or backward, whether it is one of the chosen layers."""

    def __init__(self) -> None:
        self.depth = 0
        self.started = 0
        self.spans: list[range] = []  # of the numbers that autograd gives its nodes
        self.made: list[Any] = []  # what the outermost of them have returned

    def __bool__(self) -> bool:
        node: Any = torch._C._current_autograd_node()
        return self.depth > 0 if node is None else any(node._sequence_nr() in span for span in self.spans)

    def enter(self, _module: nn.Module, _args: Any) -> None:
        if not self.depth:
            self.started = torch.autograd._get_sequence_nr()  # type: ignore[attr-defined]
        self.depth += 1

    def leave(self, _module: nn.Module, _args: Any, result: Any) -> None:
        self.depth -= 1
        if not self.depth:
            self.made.append(result)
            self.spans.append(range(self.started, torch.autograd._get_sequence_nr()))  # type: ignore[attr-defined]


@contextlib.contextmanager
def inside(module: nn.Module, layers: Sequence[str]) -> Iterator[Inside]:
    """While this is on, of these layers and of all in them."""
    found = Inside()
    hooks = []
    for layer in map(module.get_submodule, layers):
        hooks += [layer.register_forward_pre_hook(found.enter), layer.register_forward_hook(found.leave)]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()
