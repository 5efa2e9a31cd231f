"""Sizes in bytes: as people write them, and rounded up."""

from __future__ import annotations

import re

from trainlib_deployer.arguments import digits, quoted
from trainlib_deployer.errors import UsageError

UNITS = {"": 0, "k": 10, "m": 20, "g": 30}
SIZE = re.compile(r"(\d+)\s*([kmg]?)(?:i?b)?", re.IGNORECASE | re.ASCII)
ADDRESS_SPACE = 1 << 32


def aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def parse_size(text: str | int, what: str = "size") -> int:
    """Bytes from `65536`, `64k`, `64KiB`, `2M`: powers of two."""
    match = SIZE.fullmatch(str(text).strip())
    if match is None:
        raise UsageError(
            f"{what} {quoted(str(text))} is not a size", remedy="write bytes or a unit: 65536, 64k, 64KiB, 2M"
        )
    size = (digits(match[1]) or 0) << UNITS[match[2].lower()]
    if size >= ADDRESS_SPACE:
        raise UsageError(f"{what} {quoted(str(text))} is more than the 4 GiB address space of the target")
    return size


def show_size(size: int) -> str:
    """The shortest exact form: 65536 is 64k."""
    for unit, shift in (("G", 30), ("M", 20), ("k", 10)):
        if size and size % (1 << shift) == 0:
            return f"{size >> shift}{unit}"
    return str(size)
