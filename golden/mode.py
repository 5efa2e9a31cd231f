"""What stands between PyTorch and its operations, at each of them: so it must be quick."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Without PyTorch's guard against compiling what such a mode does: nothing is compiled here."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


def among_ourselves() -> Any:
    """While this is on no mode sees what is calculated: where some do, that takes several times as long."""
    return torch._C._DisableTorchDispatch()


def leaves(values: Iterable[Any]) -> Iterator[Any]:
    """Of arguments or results as operations have them: tensors, numbers, and lists of these."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from leaves(value)
        else:
            yield value


def mapped(change: Callable[[Any], Any], values: Any) -> Any:
    """The same with other leaves."""
    if isinstance(values, list | tuple):
        return type(values)([mapped(change, v) for v in values])
    return change(values)


def address(t: torch.Tensor) -> int:
    """Of its storage."""
    return t.untyped_storage().data_ptr()
