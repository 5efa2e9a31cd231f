"""What tiles take: their work, what is around it, and the transfers that neither hides."""

from __future__ import annotations

from dataclasses import dataclass

from trainlib_deployer.machine.machine import Link, Machine


@dataclass(frozen=True)
class Cost:
    """Cycles, estimated: of the operation, of tiles beside their work, of its transfers, and of those not hidden."""

    cycles: float
    tiles: float
    transfer: float
    exposed: float


def cost(work: list[float], came: list[float], gone: list[float], machine: Machine, ahead: int) -> Cost:
    """Of each part: its work, what comes for it and what leaves from it. With more than one buffer, transfers hide
    behind the work of the parts before, and what is around it; the first and the last do not."""
    around = machine.costs.tile.tile
    bare = sum(work) + around * len(work)
    pairs = zip([*came, 0.0], [0.0] * (1 + ahead) + gone, strict=False)
    moved = [at_once(i, o, machine.link) for i, o in pairs]  # what comes for a tile, and what leaves meanwhile
    if ahead:
        end = queued([w + around for w in work], moved, ahead, machine.costs.tile.idle) + gone[-1]
    else:
        end = bare + sum(moved)
    return Cost(end, around * len(work), sum(moved) + gone[-1], end - bare)


def queued(work: list[float], moved: list[float], ahead: int, idle: float) -> float:
    """When the last tile is worked on: what one reads is asked for as the one `ahead` of it begins, and comes behind
    what was asked for before."""
    begun: list[float] = []
    arrived = end = 0.0
    for k, cycles in enumerate(work):
        if moved[k]:
            arrived = max(arrived, begun[k - ahead] + idle if k >= ahead else 0.0) + moved[k]
        begun.append(max(end, arrived))
        end = begun[k] + cycles
    return max(end, begun[-1] + moved[-1])


def at_once(inwards: float, outwards: float, link: Link) -> float:
    """Cycles of transfers in both directions."""
    return max(inwards, outwards) + link.back * min(inwards, outwards)
