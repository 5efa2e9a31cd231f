"""Which numbers of a target must be classes: those that the loss hands to cross entropy, itself or by a function."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from golden.examples import leaves
from golden.snapshot import Snapshot
from trainlib_deployer.user.samples import cloned

ASKING = {f: signature(f) for f in (functional.cross_entropy, functional.nll_loss)}


@dataclass(frozen=True)
class Labels:
    """0 to classes - 1, or `ignored`."""

    classes: int
    ignored: int


class Watch(TorchFunctionMode):
    """Takes down what cross entropy is asked for, of which of the given targets."""

    def __init__(self, targets: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.targets = targets
        self.found: dict[int, Labels] = {}

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if function in ASKING:
            given = ASKING[function].bind(*args, **(kwargs or {}))
            given.apply_defaults()
            self.take(**{k: given.arguments[k] for k in ("input", "target", "ignore_index")})
        return function(*args, **(kwargs or {}))

    def take(self, input: torch.Tensor, target: torch.Tensor, ignore_index: int) -> None:
        if target.is_floating_point() or not input.dim():
            return
        number = next((i for i, t in enumerate(self.targets) if same(t, target)), None)
        if number is not None:
            self.found[number] = Labels(int(input.shape[1 if input.dim() > 1 else 0]), ignore_index)


def same(given: torch.Tensor, asked: torch.Tensor) -> bool:
    """In whatever shape and type."""
    integers = not given.is_floating_point() and given.numel() == asked.numel() > 0
    return integers and torch.equal(given.flatten().long(), asked.flatten().long())


def labels_asked(module: nn.Module, loss: Any, start: Snapshot, inputs: Any, target: Any) -> dict[int, Labels]:
    """By the number of the target's tensor."""
    if loss is None:
        return {}
    watch = Watch(leaves(target))
    unheard = contextlib.redirect_stdout(io.StringIO())
    with start.undone(), torch.no_grad(), unheard, contextlib.suppress(Exception):
        output = module(*cloned(inputs))
        with watch:
            loss(output, cloned(target))
    return watch.found
