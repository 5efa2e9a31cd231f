"""The listing: what the C of a step says, as plain records. The text of net.c is written from it
(`operation_text.py`), and the certificate reads it (`check/`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from trainlib_deployer.program.ir import DType, Part


@dataclass(frozen=True)
class Place:
    """Where something lies, and the operations [birth, death) that may use it."""

    level: str
    offset: int
    size: int
    birth: int
    death: int


@dataclass(frozen=True)
class Home:
    """A place by its name in C, in the level where C looks for it, and the expression that points there, to what."""

    name: str
    level: str
    text: str
    dtype: DType = DType.U8


@dataclass(frozen=True)
class Pointer:
    """Into what lies still: elements behind its first one."""

    home: Home
    offset: int = 0


@dataclass(frozen=True)
class Tile:
    """The tile at work of a stream, so many bytes behind its first one."""

    stream: int
    past: int = 0


@dataclass(frozen=True)
class Recorded:
    """Into what only a build that records keeps, outside of the plan."""

    offset: int


Argument = Pointer | Tile | Recorded | int | str  # str: a constant by its name


@dataclass(frozen=True)
class Call:
    """A kernel with the fields of its struct, or, where that has no name, a generated loop with its arguments in order:
    what it writes, what it reads, perhaps a count."""

    function: str
    struct: str
    arguments: tuple[tuple[str, Argument], ...]
    loop: Part | None = None  # what a generated loop does, on which views

    @property
    def pointers(self) -> Iterator[Pointer]:
        return (a for _, a in self.arguments if isinstance(a, Pointer))


@dataclass(frozen=True)
class Move:
    """What a tile takes of a stream: planes x rows x row_bytes, from so many bytes behind the first one."""

    offset: int
    row_bytes: int
    rows: int
    planes: int
    buffer: int
    moves: bool

    @property
    def nbytes(self) -> int:
        return self.row_bytes * self.rows * self.planes


@dataclass(frozen=True)
class Way:
    """Of a stream through all tiles."""

    pitch: int
    plane_pitch: int
    moves: tuple[Move, ...]


@dataclass(frozen=True)
class Stream:
    """An operand on its way. `second` is how many bytes its next buffer is further, or where that lies."""

    home: Home | None  # None: it never leaves L1
    buffer: Home
    second: int | Home
    leaves: bool
    early: bool  # its first tile is started by an operation before
    way: Way
    found: bool = False  # its first tiles lie where the operation before has left them


@dataclass(frozen=True)
class Tiles:
    """An operation in tiles; the streams that leave come last."""

    lanes: Home
    ahead: int  # how many come while one is worked on
    streams: tuple[Stream, ...]
    lingers: int | None = None  # the stream that still leaves when the operation ends


@dataclass(frozen=True)
class Left:
    """What the operation before has left under way: its stream. It is awaited before a call is made, by its number, or
    behind all tiles."""

    lanes: Home
    stream: int
    before: int | None


@dataclass(frozen=True)
class Operation:
    """One function of net.c."""

    name: str
    tiles: Tiles | None
    starts: tuple[str, ...]  # operations behind this one whose early tiles it starts
    calls: tuple[tuple[Call, ...], ...]  # of each tile
    meets: bool = True  # do the cores, between two of them?
    apart: frozenset[int] = frozenset()  # but not before these, where the team has as many cores as is planned
    left: Left | None = None


CARRY, ARRIVAL = "tl_carry", "tl_arrival"  # structs of the calls that start and await a copy


@dataclass(frozen=True)
class Copy:
    """Between what lies far away, `offset` bytes behind its first one, and what is near."""

    near: Pointer
    far: Pointer
    offset: int
    row_bytes: int
    rows: int
    pitch: int
    job: int
    inward: bool

    @property
    def end(self) -> int:
        return self.offset + (self.rows - 1) * self.pitch + self.row_bytes


def copy_of(operation: Operation) -> Copy | None:
    """What it starts."""
    found = next((dict(c.arguments) for calls in operation.calls for c in calls if c.struct == CARRY), None)
    if found is None:
        return None
    near, far = found["near"], found["far"]
    assert isinstance(near, Pointer) and isinstance(far, Pointer)
    offset, row_bytes, rows, pitch, job = (
        int(str(found[name])) for name in ("offset", "row_bytes", "rows", "pitch", "job")
    )
    return Copy(near, far, offset, row_bytes, rows, pitch, job, found["inward"] == 1)


def job_awaited(operation: Operation) -> int | None:
    found = (dict(c.arguments)["job"] for calls in operation.calls for c in calls if c.struct == ARRIVAL)
    return next((int(str(job)) for job in found), None)


@dataclass(frozen=True)
class Listing:
    """A step."""

    places: Mapping[str, Place]  # by C name
    operations: tuple[Operation, ...]
    functions: tuple[range, ...]  # operations that always run together
    kept: tuple[Home, ...]  # what the interface hands out after a step
    cores: int = 1  # that share the work, unless a build has fewer

    @cached_property
    def positions(self) -> dict[str, int]:
        return {o.name: at for at, o in enumerate(self.operations)}

    @cached_property
    def levels(self) -> list[str]:
        return sorted({place.level for place in self.places.values()})

    @cached_property
    def awaited(self) -> dict[int, int]:
        """Under an operation that awaits a copy, the one that has started it; none where no copy has that number."""
        started: dict[int, int] = {}
        out = {}
        for at, operation in enumerate(self.operations):
            copy, job = copy_of(operation), job_awaited(operation)
            if copy is not None:
                started[copy.job] = at
            elif job is not None and job in started:
                out[at] = started.pop(job)
        return out

    def tiles_of(self, name: str) -> Tiles:
        """Of an operation that has some."""
        tiles = self.operations[self.positions[name]].tiles
        assert tiles is not None, f"{name} has no tiles"
        return tiles

    def used(self, at: int) -> Iterator[Home]:
        """Everything that an operation mentions, early tiles that it starts among them."""
        operation = self.operations[at]
        yield from own(operation)
        if at in self.awaited:
            yield from own(self.operations[self.awaited[at]])
        for name in operation.starts:
            guest = self.tiles_of(name)
            yield guest.lanes
            for s in guest.streams:
                if s.early:
                    yield from (h for h in (s.home, s.buffer) if h is not None)


def own(operation: Operation) -> Iterator[Home]:
    """What an operation mentions for its own work."""
    for call in (c for calls in operation.calls for c in calls):
        yield from (p.home for p in call.pointers)
    if operation.tiles is not None:
        yield operation.tiles.lanes
        yield from () if operation.left is None else (operation.left.lanes,)
        for s in operation.tiles.streams:
            yield from (h for h in (s.home, s.buffer, s.second) if isinstance(h, Home))
