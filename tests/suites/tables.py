"""PyTorch's own tables of modules and operators, as subjects: float32, every sample that has a gradient."""

from __future__ import annotations

import sys
import types
import unittest
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from tests.suites.subjects import Branch, spread

if "expecttest" not in sys.modules:
    try:
        import expecttest  # noqa: F401
    except ImportError:  # PyTorch's tables import it and make no use of it
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stand_in

MOST_SAMPLES = 6  # of one operator or module


class InMode(nn.Module):
    """A module as it was constructed, and its mode."""

    def __init__(self, module: nn.Module, training: bool) -> None:
        super().__init__()
        self.module = module.train(training)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)


def operators(most: int = MOST_SAMPLES) -> dict[str, Callable[[], Iterator[Branch]]]:
    """Name to the samples of each operator that has a gradient."""
    from torch.testing._internal.common_methods_invocations import op_db  # takes seconds to import

    found: dict[str, Callable[[], Iterator[Branch]]] = {}
    for op in op_db:
        if op.supports_autograd and torch.float32 in op.dtypes:
            found[f"op {op.formatted_name}"] = lambda op=op: operator_samples(op, most)
    return found


def operator_samples(op: Any, most: int) -> Iterator[Branch]:
    torch.manual_seed(zlib.crc32(op.formatted_name.encode()))
    samples = list(op.sample_inputs("cpu", torch.float32, requires_grad=True))
    for sample in spread(samples, most):

        def function(*args: Any, process: Any = sample.output_process_fn_grad, **kwargs: Any) -> Any:
            return process(op.op(*args, **kwargs))

        yield Branch(function, ((sample.input, *sample.args), sample.kwargs))


def modules(most: int = MOST_SAMPLES) -> dict[str, Callable[[], Iterator[Branch]]]:
    """Name to the samples of each module, in training and in evaluation where that differs."""
    from torch.testing._internal.common_modules import module_db  # takes seconds to import

    found: dict[str, Callable[[], Iterator[Branch]]] = {}
    for info in module_db:
        modes = (True, False) if info.train_and_eval_differ else (True,)
        for training in modes:
            word = "" if len(modes) == 1 else " train" if training else " eval"
            found[f"module {info.formatted_name.removeprefix('nn_')}{word}"] = lambda i=info, t=training: (
                module_samples(i, t, most)
            )
    return found


def module_samples(info: Any, training: bool, most: int) -> Iterator[Branch]:
    torch.manual_seed(zlib.crc32(info.formatted_name.encode()))
    options = {"device": "cpu", "dtype": torch.float32, "requires_grad": True, "training": training}
    samples = list(info.module_inputs_func(info, **options))
    for sample in spread(samples, most):
        made = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
        given = sample.forward_input
        if given is not None:
            yield Branch(InMode(made.to(torch.float32), training), (given.args, given.kwargs))
