"""torch.autocast in the user's own code. It asks for mixed precision, of which the program and its reference have their
own; so its regions change nothing, and only tell that they are there."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch


@dataclass
class Regions:
    """What has been entered."""

    open: list[bool] = field(default_factory=list)  # whether each is enabled
    wanted: bool = False
    taken_back: tuple[str, int] | None = None  # the file and line of one that is not, in another that is


@contextlib.contextmanager
def without_autocast() -> Iterator[Regions]:
    found = Regions()

    def made(region: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: Any = None) -> None:
        region.device, region._enabled = device_type, enabled  # also for a device that is not here

    def enter(region: Any) -> Any:
        if not region._enabled and any(found.open):
            frame = sys._getframe(1)
            found.taken_back = frame.f_code.co_filename, frame.f_lineno
        found.open.append(region._enabled)
        found.wanted |= region._enabled
        return region

    def leave(_region: Any, *_error: Any) -> None:
        found.open.pop()

    with mock.patch.multiple(torch.autocast, __init__=made, __enter__=enter, __exit__=leave):
        yield found
