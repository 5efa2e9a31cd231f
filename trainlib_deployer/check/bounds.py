"""Does a generated loop reach beyond the end of what it points into, or before its beginning?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainlib_deployer.check.in_place import operands
from trainlib_deployer.emit.listing import Call, Listing, Pointer
from trainlib_deployer.program.loop import Loop


def beyond(listing: Listing, sizes: Mapping[str, int]) -> Iterator[str]:
    """Loops that do, in words; `sizes` in bytes, by C name."""
    for at, operation in enumerate(listing.operations):
        different = {id(call): call for calls in operation.calls for call in calls}.values()
        for name, first, end in (found for call in different for found in reaches(call)):
            if first < 0 or end > sizes[name]:
                yield f"operation {at}: bytes {first} to {end} of {name}, which has {sizes[name]}"


def reaches(call: Call) -> Iterator[tuple[str, int, int]]:
    """Of each operand that lies still: its name, where the first byte is that a loop touches, and where the last one
    ends."""
    if call.loop is None or not isinstance(call.loop.kind, Loop):
        return
    for _, view, size, given in operands(call):
        if isinstance(given, Pointer) and view.numel:
            steps = [(extent - 1) * stride for extent, stride in zip(view.shape, view.strides, strict=True)]
            low, high = (sum(bound(0, step) for step in steps) for bound in (min, max))
            yield given.home.name, size * (given.offset + low), size * (given.offset + high + 1)
