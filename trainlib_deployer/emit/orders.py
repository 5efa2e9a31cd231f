"""What a step with a third memory does, as rows of tables, which one function of C carries out.

An order starts a copy, awaits it, starts the first tiles of an operation to come, or runs a function that several
operations share (`shared.py`); orders that follow each other are carried out by one call. An operation that is none of
these, or behind which something is recorded, has a function of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

from trainlib_deployer.emit.listing import CARRY, Call, Listing, Pointer, copy_of, job_awaited
from trainlib_deployer.emit.operation_text import mask
from trainlib_deployer.emit.shared import Shared, key_of, streams_shared

STARTS, RUNS, AWAITS, FIRSTS = (how << 14 for how in range(4))  # in an order, beside the number of its row
ORDER, MANNER, RUN, FIRST, PLACE = 2, 16, 8, 12, 4  # bytes of a row of each table
UNIT = 16  # bytes: every buffer begins at a multiple of them
NARROW = UNIT << 16  # bytes of a memory in which two bytes say which
IN_A_LINE = 16


class Rows:
    """Of a table, each once: equal ones have equal keys, and the text of the first."""

    def __init__(self, found: Iterable[tuple[Hashable, str]]) -> None:
        texts: dict[Hashable, str] = {}
        for key, text in found:
            texts.setdefault(key, text)
        self.texts = tuple(texts.values())
        self.numbers = {key: number for number, key in enumerate(texts)}
        assert len(texts) <= RUNS, "there are numbers for all of them"


@dataclass(frozen=True)
class Orders:
    """The tables, and what the functions of a step say. `alone`: operations that need a function; `near`: bytes of the
    memory that copies are in."""

    listing: Listing
    alone: Collection[int] = ()
    shared: Mapping[int, Shared] = field(default_factory=dict)
    near: int = NARROW
    runs, awaits, firsts, unit = RUNS, AWAITS, FIRSTS, UNIT

    @cached_property
    def copies_at(self) -> list[int]:
        """Operations that start or await a copy."""
        ops, awaited = self.listing.operations, self.listing.awaited
        return [at for at, op in enumerate(ops) if (copy_of(op) or at in awaited) and at not in self.alone]

    @cached_property
    def positions(self) -> dict[int, int]:
        """Operations that are orders, and which of the orders is the first of each."""
        found, number = {}, 0
        for at in sorted({*self.copies_at, *self.shared} - {*self.alone}):
            found[at] = number
            number += len(list(self.of_operation(at)))
        return found

    @cached_property
    def orders(self) -> list[int]:
        rows = {RUNS: self.functions, FIRSTS: self.first_tiles, STARTS: self.copies, AWAITS: self.copies}
        return [how | rows[how].numbers[key] for at in self.positions for how, key in self.of_operation(at)]

    def of_operation(self, at: int) -> Iterator[tuple[int, Hashable]]:
        """Its orders: what each does with which row. A shared function starts first tiles itself."""
        if at in self.shared:
            yield RUNS, self.shared[at].key
            return
        operation = self.listing.operations[at]
        yield from ((FIRSTS, self.first_key(name)) for name in operation.starts)
        yield STARTS if job_awaited(operation) is None else AWAITS, self.begun(at)

    def begun(self, at: int) -> int:
        """The operation that starts a copy which this one starts or awaits."""
        return self.listing.awaited.get(at, at)

    @cached_property
    def manners(self) -> Rows:
        """What copies have in common."""
        return Rows((self.manner(at), self.manner(at)) for at in self.copies_at)

    @cached_property
    def copies(self) -> Rows:
        return Rows((self.begun(at), self.row(at)) for at in self.copies_at)

    @cached_property
    def functions(self) -> Rows:
        """With their places."""
        runs = (s for at, s in self.shared.items() if at not in self.alone)
        return Rows((s.key, f"{{{s.function}, {s.table}}}") for s in runs)

    @cached_property
    def first_tiles(self) -> Rows:
        names = (name for at in self.copies_at for name in self.listing.operations[at].starts)
        return Rows((self.first_key(name), self.first_text(name)) for name in names)

    @cached_property
    def streams(self) -> dict[str, str]:
        return streams_shared(self.listing)

    def first_key(self, name: str) -> Hashable:
        tiles = self.listing.tiles_of(name)
        return self.streams[name], key_of(self.listing, tiles.lanes), mask(tiles)

    def first_text(self, name: str) -> str:
        tiles = self.listing.tiles_of(name)
        return f"{{streams_{self.streams[name]}, {tiles.lanes.text}, {mask(tiles):#x}}}"

    def call(self, at: int) -> Call:
        calls = self.listing.operations[self.begun(at)].calls
        return next(c for tile in calls for c in tile if c.struct == CARRY)

    def manner(self, at: int) -> str:
        given = dict(self.call(at).arguments)
        return f"{{{', '.join(str(given[name]) for name in ('row_bytes', 'rows', 'pitch', 'job', 'inward'))}}}"

    def row(self, at: int) -> str:
        given = dict(self.call(at).arguments)
        near, far = given["near"], given["far"]
        assert isinstance(near, Pointer) and isinstance(far, Pointer)
        manner = self.manners.numbers[self.manner(at)]
        return f"{{{far.home.text} + {given['offset']}, OFFSET_{near.home.name} / {UNIT}, {manner}}}"

    @property
    def place_type(self) -> str:
        """Of a place nearby, in units."""
        return "uint16_t" if self.near <= NARROW else "uint32_t"

    @property
    def text(self) -> Iterator[str]:
        """The orders."""
        for begin in range(0, len(self.orders), IN_A_LINE):
            yield "".join(f"{order}, " for order in self.orders[begin : begin + IN_A_LINE]).rstrip()

    @property
    def nbytes(self) -> int:
        tables = {s.table: PLACE * len(s.general.places) for s in self.shared.values()}
        row = 8 if self.near <= NARROW else 12
        rows = ((row, self.copies), (MANNER, self.manners), (RUN, self.functions), (FIRST, self.first_tiles))
        whole = sum(size * len(found.texts) for size, found in rows) + sum(tables.values())
        return whole + -(-ORDER * len(self.orders) // 4) * 4

    def lines(self, function: Sequence[int]) -> Iterator[str]:
        """Of one function of the step."""
        for ordered, group in groupby(function, key=lambda at: at in self.positions):
            found = list(group)
            names = [self.listing.operations[at].name for at in found]
            if ordered:
                count = sum(len(list(self.of_operation(at))) for at in found)
                yield f"CARRY({names[0]}, {self.positions[found[0]]}, {count});"
            else:
                yield from (f"RUN({name});" for name in names)
