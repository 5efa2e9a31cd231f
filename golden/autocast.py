"""torch.autocast and conversions to halves in the user's own code. They ask for mixed precision, of which the program
and its reference have their own, and memory holds halves. So they change nothing, and only tell that they are there."""

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
    """What has been entered, or converted."""

    open: list[bool] = field(default_factory=list)  # whether each is enabled
    wanted: bool = False
    taken_back: tuple[str, int] | None = None  # the file and line of one that is not, in another that is


@contextlib.contextmanager
def without_autocast(bfloat: bool = False) -> Iterator[Regions]:
    """`bfloat`: halves are bfloat16, and conversions to these ask for nothing else either."""
    found = Regions()
    halves = (torch.float16, torch.bfloat16) if bfloat else (torch.float16,)

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

    def float_for(value: torch.Tensor) -> torch.dtype:
        found.wanted = True
        return value.dtype if value.is_floating_point() else torch.get_default_dtype()

    def converted(value: torch.Tensor, *given: Any, **settings: Any) -> torch.Tensor:
        """Another tensor, as a conversion makes: what is written there in place leaves this one alone."""
        made: torch.Tensor = plain(value, *given, **settings)
        return made.clone() if made is value and made.dtype not in halves else made

    def is_half(value: Any) -> bool:
        return isinstance(value, torch.dtype) and value in halves

    def half(value: torch.Tensor, **settings: Any) -> torch.Tensor:
        return converted(value, float_for(value), **settings)

    def to(value: torch.Tensor, *given: Any, **settings: Any) -> torch.Tensor:
        for_halves = {k: float_for(value) for k, v in (*enumerate(given), *settings.items()) if is_half(v)}
        places = (for_halves.get(i, v) for i, v in enumerate(given))
        change = converted if for_halves else plain
        return change(value, *places, **{k: for_halves.get(k, v) for k, v in settings.items()})

    plain = torch.Tensor.to
    methods: dict[str, Any] = {"half": half, "to": to} | ({"bfloat16": half} if bfloat else {})
    with (
        mock.patch.multiple(torch.autocast, __init__=made, __enter__=enter, __exit__=leave),
        mock.patch.multiple(torch.Tensor, **methods),
    ):
        yield found
