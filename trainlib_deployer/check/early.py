"""Tiles that come early: their source is finished, and the function that starts them awaits them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainlib_deployer.emit.listing import Listing


def too_early(listing: Listing, plan: Mapping[str, Any]) -> Iterator[str]:
    """Sources that an operation between the start and the tile's own writes, in words; transfers left under way."""
    function = {at: number for number, found in enumerate(listing.functions) for at in found}
    sizes = {t["c_name"]: int(t["bytes"]) for t in plan["tensors"].values()}
    started: list[tuple[int, int]] = []
    for host, operation in enumerate(listing.operations):
        for name in operation.starts:
            guest = listing.positions[name]
            if guest <= host or function.get(guest) != function.get(host):
                yield f"operation {host} starts transfers of operation {guest}, which does not run behind it"
            for number, s in enumerate(listing.tiles_of(name).streams):
                if not s.early or s.home is None:
                    continue
                started.append((guest, number))
                source = s.home.name
                at = next((p for p in range(host, guest) if source in written(plan, p, source, listing, sizes)), None)
                if at is not None:
                    yield f"operation {at} writes {source}, which comes early for operation {guest}"
    tiled = [(at, o.tiles.streams) for at, o in enumerate(listing.operations) if o.tiles is not None]
    awaited = [(at, number) for at, streams in tiled for number, s in enumerate(streams) if s.early]
    for at, number in sorted({*started, *awaited}):
        if (started.count((at, number)), awaited.count((at, number))) != (1, 1):
            yield f"operation {at}: stream {number} is not started where it is expected"


def written(plan: Mapping[str, Any], at: int, name: str, listing: Listing, sizes: Mapping[str, int]) -> set[str]:
    """C names of what an operation writes; `name` among them where it shares bytes with that."""
    out = {plan["tensors"][t]["c_name"] for t in plan["ops"][at]["writes"]}
    own = listing.places[name]
    for other in tuple(out & listing.places.keys()):
        place = listing.places[other]
        apart = place.level != own.level or own.offset >= place.offset + sizes[other]
        if not apart and place.offset < own.offset + sizes[name]:
            out.add(name)
    return out
