"""Calls between which the cores do not meet: none of them touches what another one writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trainlib_deployer.check.in_place import accesses
from trainlib_deployer.emit.listing import Call, Listing, Operation, Pointer


def unmet(listing: Listing) -> Iterator[str]:
    """Operations in which a core may come upon what another one has not done yet, in words."""
    for at, operation in enumerate(listing.operations):
        if not operation.meets:
            yield from (f"operation {at}: {words}" for words in meddling(operation))


def meddling(operation: Operation) -> Iterator[str]:
    """By their names: what bears another one lies elsewhere."""
    (calls,) = operation.calls if len(operation.calls) == 1 else ((),)
    if operation.tiles is not None or not calls or not all(map(is_known, calls)):
        yield "the cores do not meet, and nothing is known of what they do"
        return
    touched = Counter(name for call in calls for name in {a.name for a in accesses(call)})
    written = {a.name for call in calls for a in accesses(call) if a.written}
    yield from (f"the cores do not meet, but {name} is written" for name in sorted(written) if touched[name] > 1)


def is_known(call: Call) -> bool:
    """A generated loop, whose operands lie where they are."""
    lying = (isinstance(a, Pointer | int) for _, a in call.arguments)
    return call.loop is not None and all(lying)
