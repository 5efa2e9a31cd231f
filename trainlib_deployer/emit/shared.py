"""Operations that differ in places alone are one function, which each of them hands a table of its places.

Where there is a third memory: pieces of one operation differ like that, and their code would take what they save. Else
every operation is a function, as a word of a table takes longer than one of the code (docs/decisions/listing.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from trainlib_deployer.emit.listing import (
    Argument,
    Call,
    Home,
    Listing,
    Operation,
    Pointer,
    Recorded,
    Stream,
    Tiles,
    copy_of,
)
from trainlib_deployer.emit.operation_text import early_text, pointer_text, statements_text
from trainlib_deployer.emit.tables import Tables

PLACES = "p"  # the parameter of such a function
Key = tuple[str, int]  # of a place: a level or a table, and where in it


@dataclass(frozen=True)
class Place:
    """As C says it, and what is the same for equal ones."""

    text: str
    key: Key


@dataclass(frozen=True)
class General:
    """An operation as others might have it: its statements, and what they find in the table."""

    lines: tuple[str, ...]
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Shared:
    """A function, and the table that one operation hands it: others may hand it the same."""

    function: str
    table: str
    general: General

    @property
    def key(self) -> tuple[str, str]:
        return self.function, self.table

    @property
    def table_text(self) -> str:
        rows = (f"    {place.text}," for place in self.general.places)
        return "\n".join((f"TL_CONST static void *const {self.table}[] = {{", *rows, "};"))


def streams_shared(listing: Listing) -> dict[str, str]:
    """Under each operation in tiles the first one with the same table of streams."""
    first: dict[object, str] = {}
    tiled = ((o.name, o.tiles.streams) for o in listing.operations if o.tiles is not None)
    return {name: first.setdefault(tuple(stream_key(listing, s) for s in streams), name) for name, streams in tiled}


def stream_key(listing: Listing, s: Stream) -> object:
    homes = (key_of(listing, h) if isinstance(h, Home) else h for h in (s.home, s.buffer, s.second))
    return (*homes, s.way)


def key_of(listing: Listing, home: Home) -> Key:
    place = listing.places[home.name]
    return place.level, place.offset


def shared(listing: Listing, streams: dict[str, str], tables: Tables) -> dict[int, Shared]:
    """By position, those whose statements another operation has, too."""
    alike: dict[tuple[str, ...], list[int]] = {}
    found = {}
    for at, operation in enumerate(listing.operations):
        if copy_of(operation) is None and at not in listing.awaited:
            found[at] = Table(listing, streams, fixed_pointers(operation.calls)).general(operation, tables)
            alike.setdefault(found[at].lines, []).append(at)
    several = (positions for positions in alike.values() if len(positions) > 1)
    names = {at: f"like_{listing.operations[same[0]].name}" for same in several for at in same}
    first: dict[tuple[Key, ...], str] = {}
    out = {}
    for at, function in sorted(names.items()):
        keys = tuple(place.key for place in found[at].places)
        table = first.setdefault(keys, f"places_{listing.operations[at].name}")
        out[at] = Shared(function, table, found[at])
    return out


Use = tuple[int, int, Home | None]  # in which of a tile's calls, as which argument, and of what


def fixed_pointers(tiles: Sequence[Sequence[Call]]) -> set[Use]:
    """Those that are the same for every tile."""
    found: dict[Use, set[int]] = {}
    for calls in tiles:
        for number, call in enumerate(calls):
            for k, (_, a) in enumerate(call.arguments):
                if isinstance(a, Pointer | Recorded):
                    found.setdefault((number, k, home_of(a)), set()).add(a.offset)
    return {use for use, offsets in found.items() if len(offsets) == 1}


def home_of(a: Pointer | Recorded) -> Home | None:
    return a.home if isinstance(a, Pointer) else None


@dataclass
class Table:
    """Of one operation: places as they are met."""

    listing: Listing
    streams: dict[str, str]
    fixed: set[Use]
    places: list[Place] = field(default_factory=list)

    def general(self, operation: Operation, tables: Tables) -> General:
        starts = [early_text(*self.tiles(name, self.listing.tiles_of(name))) for name in operation.starts]
        streams, tiles = "", operation.tiles
        if tiles is not None:
            tiles, streams = self.tiles(operation.name, tiles)
        known: dict[int, tuple[Call, ...]] = {}  # equal tiles are one object
        for calls in operation.calls:
            known.setdefault(id(calls), tuple(self.call(number, call) for number, call in enumerate(calls)))
        calls_ = tuple(known[id(calls)] for calls in operation.calls)
        lines = statements_text(replace(operation, tiles=tiles, calls=calls_), starts, streams, tables)
        return General(tuple(lines), tuple(self.places))

    def place(self, text: str, key: Key) -> str:
        found = Place(text, key)
        if found not in self.places:
            self.places.append(found)
        return f"{PLACES}[{self.places.index(found)}]"

    def tiles(self, name: str, tiles: Tiles) -> tuple[Tiles, str]:
        """Of this operation, and its table of streams."""
        table = f"streams_{self.streams[name]}"
        streams = self.place(f"(void *){table}", (table, 0))
        lanes = self.place(tiles.lanes.text, key_of(self.listing, tiles.lanes))
        return replace(tiles, lanes=replace(tiles.lanes, text=lanes)), streams

    def call(self, number: int, call: Call) -> Call:
        arguments = tuple((name, self.argument(number, k, a)) for k, (name, a) in enumerate(call.arguments))
        return replace(call, arguments=arguments)

    def argument(self, number: int, k: int, a: Argument) -> Argument:
        """What moves from tile to tile does so from a place on."""
        if not isinstance(a, Pointer | Recorded):
            return a
        home = home_of(a)
        fixed = (number, k, home) in self.fixed
        if home is None:
            recorded = Place(f"RECORD({a.offset})", ("recorded", a.offset))
            return Pointer(Home("", "", self.place(recorded.text, recorded.key))) if fixed else a
        level, offset = key_of(self.listing, home)
        if fixed:
            key = level, offset + a.offset * home.dtype.size
            return Pointer(Home("", "", self.place(pointer_text(home, a.offset), key)))
        return Pointer(replace(home, text=f"({home.dtype.stored} *){self.place(home.text, (level, offset))}"), a.offset)
