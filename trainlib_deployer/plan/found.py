"""What an operation made as one tile, and the next one reads as one, is still in L1: nothing comes, nobody waits.

A convolution and the normalisation behind it, in the place of whose operand the result lies, which the next convolution
reads. The result goes to the outer level all the same, since backward reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trainlib_deployer.machine.machine import Link
from trainlib_deployer.plan.best_tiling import Choice
from trainlib_deployer.plan.cycles import transfer_cycles
from trainlib_deployer.plan.links import links
from trainlib_deployer.plan.passage import Stream
from trainlib_deployer.plan.tiles import Lingering, Room, Tiling
from trainlib_deployer.program.ir import Op, Program
from trainlib_deployer.program.lifetimes import lifetimes, shared_storage
from trainlib_deployer.program.segments import segments

Place = tuple[int, int]  # an operation's, and the number of the stream whose buffer is meant


def found_there(program: Program, tilings: Mapping[int, Tiling], rooms: list[Room]) -> dict[int, Tiling]:
    """The tilings, some of which find tiles where the operation before left them; some of one tile in place of several,
    where that is fewer cycles with what follows."""
    begins = {found.start for found in segments(program).values()}
    out = dict(tilings)
    for at in sorted(tilings):
        before = None if at in begins else out.get(at - 1)
        behind = None if at + 1 in begins else out.get(at + 1)
        whole = as_one(program, at, rooms[at]) if out[at].count > 1 else None
        link = rooms[at].machine.link
        some = [finding(before, t, link) for t in (out[at], whole) if t is not None]
        out[at] = min(some, key=lambda t: t.cycles + (0 if behind is None else finding(t, behind, link).cycles))
    return with_lingering(program, out, rooms)


def with_lingering(program: Program, tilings: Mapping[int, Tiling], rooms: list[Room]) -> dict[int, Tiling]:
    """What is found still leaves while it is worked on, where nobody needs to see it in the outer level meanwhile."""
    out, storage = dict(tilings), shared_storage(program, lifetimes(program))
    seen = {*program.shown, *(t for _, t in program.gradients)}
    for at in sorted(tilings):
        for s in (s for s in tilings[at].streams if s.found is not None and s.tensor not in seen):
            op, own, before, room = program.ops[at], out[at], out[at - 1], rooms[at]
            assert s.found is not None
            alone = sum(t.tensor == s.tensor for t in own.streams) == 1
            over = any(storage.get(v.tensor) == storage.get(s.tensor, s.tensor) for v in op.writes)
            full = own.nbytes + before.lanes > room.capacity or own.flights >= room.machine.link.channels
            until = first_over(op, own, own.streams.index(s), room.cores)
            if alone and not over and not full and until != 0 and before.lingers is None:
                out[at - 1], out[at] = lingering(before, own, Lingering(s.found, until), room.machine.link)
    return out


def first_over(op: Op, tiling: Tiling, stream: int, cores: int) -> int | None:
    """The first call that writes where a stream's tile lies, by its number."""
    (calls,) = links(op, tiling, cores)
    there = [k for k, s in enumerate(tiling.streams) if stream in (k, s.shares)]
    return next((at for at, c in enumerate(calls) if {*c.slots[len(c.part.reads) :]} & {*there}), None)


def lingering(before: Tiling, tiling: Tiling, which: Lingering, link: Link) -> tuple[Tiling, Tiling]:
    """The DMA is busy with it while the second one is worked on."""
    taken = min(transfer_cycles(before.streams[which.stream].moves[0].window, link), tiling.quiet)
    cost = replace(before.cost, cycles=before.cost.cycles - taken, exposed=before.cost.exposed - taken)
    busy = replace(tiling.cost, transfer=tiling.cost.transfer + taken)
    return replace(before, lingers=which, cost=cost), replace(tiling, cost=busy)


def as_one(program: Program, at: int, room: Room) -> Tiling | None:
    """An operation as one tile, if that fits."""
    choice = Choice.of(program, program.ops[at], room)
    return None if choice is None else choice.whole(room.capacity)


def finding(before: Tiling | None, tiling: Tiling, link: Link) -> Tiling:
    """With what the one before leaves."""
    streams, spared = list(tiling.streams), 0.0
    for k, s in enumerate(tiling.streams):
        at = None if before is None else next(left_by(before, s), None)
        if at is not None:
            (move,) = s.moves
            streams[k] = s._replace(found=at, moves=(move._replace(moves=False),))
            spared += transfer_cycles(move.window, link)
    cost = tiling.cost
    cost = replace(cost, cycles=cost.cycles - spared, exposed=cost.exposed - spared, transfer=cost.transfer - spared)
    return replace(tiling, streams=tuple(streams), cost=cost)


def left_by(before: Tiling, s: Stream) -> Iterator[int]:
    """The result that a stream brings back, as one tile both times."""
    if s.writes or len(s.moves) > 1:
        return
    for at, made in enumerate(before.streams):
        leaves = made.writes and made.tensor == s.tensor and len(made.moves) == 1 and made.moves[0].moves
        if leaves and made.moves[0].window[:-1] == s.moves[0].window[:-1]:
            yield at


def root(tilings: Mapping[int, Tiling], place: Place) -> Place:
    """Where the buffer of a stream really is."""
    at, number = place
    s = tilings[at].streams[number]
    if s.shares is not None:
        return root(tilings, (at, s.shares))
    return place if s.found is None else root(tilings, (at - 1, s.found))


def last_uses(tilings: Mapping[int, Tiling]) -> dict[Place, int]:
    """The operation behind the last one that finds something in a stream's buffer."""
    finds = ((at, k) for at in sorted(tilings) for k, s in enumerate(tilings[at].streams) if s.found is not None)
    return {root(tilings, place): place[0] + 1 for place in finds}
