"""The first tile of an operation, already on its way while operations before it are worked on.

What an operation reads and those just before it do not write (weights, saved activations) may come early: its first
buffers, and the records of its transfers, then live from the operation on that starts them, its host.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from trainlib_deployer.machine.machine import Link
from trainlib_deployer.plan.best_tiling import Choice
from trainlib_deployer.plan.cycles import fetched_once, transfer_cycles, untiled_cycles
from trainlib_deployer.plan.passage import Stream
from trainlib_deployer.plan.tiles import Room, Tiling
from trainlib_deployer.program.brought import brought
from trainlib_deployer.program.ir import Op, Program
from trainlib_deployer.program.lifetimes import lifetimes, shared_storage
from trainlib_deployer.program.segments import segments
from trainlib_deployer.program.together import Together

REACH = 4  # operations from a host to the one whose tile it brings


@dataclass(frozen=True)
class Offer:
    """A host, the streams of which it starts the first transfers, operations cut anew to make room; cycles saved."""

    host: int
    streams: tuple[int, ...]
    recut: Mapping[int, Tiling]
    hidden: float
    gain: float


@dataclass
class Board:
    """What is decided so far. Later operations come first: an operation is cut anew before its own tile is moved."""

    program: Program
    rooms: list[Room]  # of each operation
    tilings: dict[int, Tiling]
    taken: list[int] = field(default_factory=list)  # bytes of later operations' tiles, at each operation
    flights: list[int] = field(default_factory=list)  # and their transfers
    idle: dict[int, float] = field(default_factory=dict)  # cycles of an operation in which nothing moves
    choices: dict[int, Choice | None] = field(default_factory=dict)  # of those that were cut anew

    def __post_init__(self) -> None:
        self.taken = [0] * len(self.program.ops)
        self.flights = [0] * len(self.program.ops)
        self.storage = shared_storage(self.program, lifetimes(self.program))
        for at, t in self.tilings.items():
            if t.lingers is not None:
                self.taken[at + 1] += t.lanes
                self.flights[at + 1] += 1
        self.begins = {at: found.start for found in segments(self.program).values() for at in found}

    def bring(self, at: int) -> None:
        best = self.best_offer(at)
        if best is not None:
            self.take(at, best)

    def best_offer(self, at: int) -> Offer | None:
        """Of hosts nearer and farther, as long as there is something that they may bring; None where nothing gains."""
        best: Offer | None = None
        streams = [k for k, s in enumerate(self.tilings[at].streams) if may_come_early(s)]
        written: set[str] = set()
        for host in range(at - 1, max(self.begins[at], at - REACH) - 1, -1):
            written |= {self.stored(v.tensor) for v in self.program.ops[host].writes}
            written |= {self.stored(name) for name in self.leaving(host)}
            streams = [k for k in streams if self.stored(self.tilings[at].streams[k].tensor) not in written]
            for some in subsets(self.tilings[at], streams):
                floor = best.gain if best is not None else 0.0
                offer = self.offer(at, host, some)
                if offer.gain <= floor:
                    break
                fitting = self.with_room(at, offer)
                if fitting is not None:
                    best = fitting if fitting.gain > floor else best
                    break
        return best

    def offer(self, at: int, host: int, streams: list[int]) -> Offer:
        """As if there were room for it."""
        coming = first_cycles(self.tilings[at], streams, self.rooms[at].machine.link)
        hidden = min(coming, sum(self.idle_at(p) for p in range(host, at)))
        costs = self.rooms[host].machine.costs.tile
        gain = hidden - (costs.early_more if host in self.tilings else costs.early)
        return Offer(host, tuple(streams), {}, hidden, gain)

    def with_room(self, at: int, offer: Offer) -> Offer | None:
        """None where the tiles do not fit, or too many transfers would be under way."""
        need = early_bytes(self.tilings[at], offer.streams)
        recut: dict[int, Tiling] = {}
        loss = 0.0
        for p in range(offer.host, at):
            host_tiling = self.tilings.get(p)
            if self.used(p) + need > self.rooms[p].capacity:
                host_tiling = self.smaller(p, need)
                if host_tiling is None:
                    return None
                recut[p] = host_tiling
                loss += host_tiling.cycles - self.tilings[p].cycles
            own = own_flights(self.program.ops[p], host_tiling)
            if self.flights[p] + own + len(offer.streams) > self.rooms[p].machine.link.channels:
                return None  # a core that starts one more waits for ever
        return replace(offer, recut=recut, gain=offer.gain - loss)

    def take(self, at: int, offer: Offer) -> None:
        for p, tiling in offer.recut.items():
            self.tilings[p] = tiling
            self.idle.pop(p, None)
        tiling = marked(self.tilings[at], offer.host, list(offer.streams))
        cost = replace(
            tiling.cost, cycles=tiling.cost.cycles - offer.hidden, exposed=tiling.cost.exposed - offer.hidden
        )
        self.tilings[at] = replace(tiling, cost=cost)
        rest = offer.hidden
        for p in range(offer.host, at):
            self.taken[p] += early_bytes(tiling, offer.streams)
            self.flights[p] += len(offer.streams)
            used = min(rest, self.idle_at(p))
            self.idle[p] = self.idle_at(p) - used
            rest -= used

    def smaller(self, p: int, need: int) -> Tiling | None:
        """An operation in tiles, cut anew to leave so many bytes; not where tiles are found from one to the next."""
        if any(s.found is not None for at in (p, p + 1) if at in self.tilings for s in self.tilings[at].streams):
            return None
        capacity = self.rooms[p].capacity - self.taken[p] - need
        choice = self.choice(p) if capacity > 0 and p in self.tilings else None
        return None if choice is None else choice.within(capacity)

    def choice(self, p: int) -> Choice | None:
        if p not in self.choices:
            self.choices[p] = Choice.of(self.program, self.program.ops[p], self.rooms[p])
        return self.choices[p]

    def used(self, p: int) -> int:
        own = self.tilings[p].nbytes if p in self.tilings else self.program.ops[p].kind.scratch(self.rooms[p].cores)
        return own + self.taken[p]

    def idle_at(self, p: int) -> float:
        if p not in self.idle:
            self.idle[p] = self.quiet(p)
        return self.idle[p]

    def quiet(self, p: int) -> float:
        """Cycles of an operation in which its own transfers leave the DMA alone."""
        if p in self.tilings:
            return self.tilings[p].quiet
        op, room = self.program.ops[p], self.rooms[p]
        far = [v for v in (*op.reads, *op.writes) if v.tensor not in room.resident]
        return untiled_cycles(op, far, room.machine) + fetched_once(op.kind, room.machine.costs.tile)

    def leaving(self, at: int) -> list[str]:
        """What the operation before has left under way."""
        before = self.tilings.get(at - 1)
        return [] if before is None or before.lingers is None else [before.streams[before.lingers.stream].tensor]

    def stored(self, tensor: str) -> str:
        return self.storage.get(tensor, tensor)


def bring_early(program: Program, found: Mapping[int, Tiling], rooms: list[Room]) -> dict[int, Tiling]:
    """The tilings, some of them with a first tile that comes early, some smaller to make room for that."""
    board = Board(program, rooms, dict(found))
    for at in sorted(found, reverse=True):
        board.bring(at)
    return board.tilings


def may_come_early(s: Stream) -> bool:
    """Of several planes all but the last are awaited where they are started."""
    return not s.writes and s.found is None and s.moves[0].window.planes == 1


def subsets(tiling: Tiling, streams: list[int]) -> Iterator[list[int]]:
    """All of them; then without the one that takes the most bytes, and so on."""
    left = sorted(streams, key=lambda k: tiling.streams[k].first_bytes)
    while left:
        yield sorted(left)
        left.pop()


def marked(tiling: Tiling, host: int, streams: list[int]) -> Tiling:
    chosen = tuple(s._replace(early=k in streams) for k, s in enumerate(tiling.streams))
    return replace(tiling, streams=chosen, host=host)


def early_bytes(tiling: Tiling, streams: Iterable[int]) -> int:
    """What the tiles of an operation take before it begins, where these streams come early."""
    return sum(tiling.streams[k].first_bytes for k in streams) + tiling.lanes


def first_cycles(tiling: Tiling, streams: list[int], link: Link) -> float:
    return sum(transfer_cycles(tiling.streams[k].moves[0].window, link) for k in streams)


def own_flights(op: Op, tiling: Tiling | None) -> int:
    """Transfers of an operation itself. Of loops together a core may copy few numbers, with one transfer at a time, for
    which it waits until one is free."""
    return in_flight(tiling) + (brought(op.kind) is not None) + isinstance(op.kind, Together)


def in_flight(tiling: Tiling | None) -> int:
    """Transfers under way at once."""
    return tiling.flights if tiling else 0
