"""What people give to functions, checked where it comes in."""

from __future__ import annotations

import numbers
import os
from pathlib import Path
from typing import Any

from trainlib_deployer.errors import UsageError

DIGITS = 100  # of which the first ones say enough: too large
MOST = 2**31 - 1  # that the program counts


def natural(value: Any, what: str) -> int:
    """A whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise UsageError(f"{what} is {shortly(value)}; it must be a whole number")
    found = int(value)
    if not 1 <= found <= MOST:
        raise UsageError(f"{what} is {found}; it must be at least 1" + (f" and at most {MOST}" if found > 1 else ""))
    return found


def digits(text: str) -> int | None:
    """The number that a text of digits is, None for any other. Python reads no more than 4,300 of them: what has that
    many is too large wherever it stands."""
    if not (text.isascii() and text.isdigit()):
        return None
    return int(text[:DIGITS])


def path_of(value: Any, what: str) -> Path:
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise UsageError(f"{what} is {shortly(value)}; it must be a path")
    return Path(value)


def one_of_type(value: Any, kind: type | tuple[type, ...], what: str, wanted: str) -> None:
    """`None` is what was left out."""
    if value is not None and not isinstance(value, kind):
        raise UsageError(f"{what} is {shortly(value)}; it must be {wanted}")


def quoted(text: str) -> str:
    """For messages, which are lines."""
    return f"'{text}'" if len(text) < 60 else f"'{text[:40]}...' ({len(text):,} characters)"


def shortly(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 and "\n" not in text else f"of type {type(value).__name__}"
