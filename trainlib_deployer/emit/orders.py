"""What a step with a third memory does, as rows of tables, which one function of C carries out.

An order starts a copy, awaits it, starts the first tiles of an operation to come, or runs a function that several
operations share (`shared.py`). All orders of a step lie in the third memory, and some at a time are brought near.
Orders that follow each other are carried out by one call. An operation that is none of these, or behind which something
is recorded, has a function of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

import numpy as np

from trainlib_deployer.emit.listing import Listing, copy_of, job_awaited
from trainlib_deployer.emit.operation_text import mask
from trainlib_deployer.emit.shared import Shared, key_of, streams_shared
from trainlib_deployer.ops.carry import ORDER_BYTES, ORDERS_AT_HAND

OUT, IN, AWAITS, RUNS, FIRSTS = range(5)  # what an order does
COPIED = ("near", "far", "row_bytes", "rows", "pitch")  # numbers of a copy; of other orders they say nothing
ORDER = np.dtype([*((name, "<u2") for name in ("what", "row")), *((name, "<u4") for name in COPIED)])  # order_t
assert ORDER.itemsize == ORDER_BYTES
NO_COPY = (0,) * len(COPIED)
RUN, FIRST, PLACE = 8, 12, 4  # bytes of a row of each table
Order = tuple[int, ...]


class Rows:
    """Of a table, each once: equal ones have equal keys, and the text of the first."""

    def __init__(self, found: Iterable[tuple[Hashable, str]]) -> None:
        texts: dict[Hashable, str] = {}
        for key, text in found:
            texts.setdefault(key, text)
        self.texts = tuple(texts.values())
        self.numbers = {key: number for number, key in enumerate(texts)}


@dataclass(frozen=True)
class Orders:
    """The tables, and what the functions of a step say. `alone`: operations that need a function; `persistent`: bytes
    before those that copies are in."""

    listing: Listing
    alone: Collection[int] = ()
    shared: Mapping[int, Shared] = field(default_factory=dict)
    persistent: int = 0

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
            number += self.count(at)
        return found

    @cached_property
    def orders(self) -> list[Order]:
        return [order for at in self.positions for order in self.of_operation(at)]

    @property
    def data(self) -> np.ndarray[tuple[int], np.dtype[np.void]]:
        """As they lie in the third memory."""
        return np.array(self.orders, ORDER)

    def count(self, at: int) -> int:
        """Of an operation's orders."""
        return 1 if at in self.shared else 1 + len(self.listing.operations[at].starts)

    def of_operation(self, at: int) -> Iterator[Order]:
        """A shared function starts first tiles itself."""
        if at in self.shared:
            yield RUNS, self.functions.numbers[self.shared[at].key], *NO_COPY
            return
        operation = self.listing.operations[at]
        for name in operation.starts:
            yield FIRSTS, self.first_tiles.numbers[self.first_key(name)], *NO_COPY
        job = job_awaited(operation)
        yield self.copy(at) if job is None else (AWAITS, job, *NO_COPY)

    def copy(self, at: int) -> Order:
        found = copy_of(self.listing.operations[at])
        assert found is not None, "it starts a copy"
        (_, near), (_, far) = (key_of(self.listing, pointer.home) for pointer in (found.near, found.far))
        rows = found.row_bytes, found.rows, found.pitch
        return (IN if found.inward else OUT, found.job, near - self.persistent, far + found.offset, *rows)

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

    @property
    def nbytes(self) -> int:
        """Of the tables near."""
        tables = {s.table: PLACE * len(s.general.places) for s in self.shared.values()}
        return RUN * len(self.functions.texts) + FIRST * len(self.first_tiles.texts) + sum(tables.values())

    def lines(self, function: Sequence[int]) -> Iterator[str]:
        """Of one function of the step."""
        mine = [at for at in function if at in self.positions]
        last = self.end(mine[-1]) if mine else 0
        begin = end = 0  # of the orders at hand
        for ordered, group in groupby(function, key=lambda at: at in self.positions):
            if not ordered:
                yield from (f"RUN({self.listing.operations[at].name});" for at in group)
                continue
            run: list[int] = []
            for at in group:
                if self.end(at) > end:
                    yield from self.carried(run, begin)
                    begin, run = self.positions[at], []
                    end = min(begin + ORDERS_AT_HAND, last)
                    assert self.end(at) <= end, "orders of one operation are at hand together"
                    yield f"BRING({begin}, {end - begin});"
                run.append(at)
            yield from self.carried(run, begin)

    def end(self, at: int) -> int:
        """Of an operation's orders: the number behind the last one."""
        return self.positions[at] + self.count(at)

    def carried(self, run: Sequence[int], begin: int) -> Iterator[str]:
        """The call for operations whose orders are at hand."""
        if run:
            first = self.positions[run[0]]
            name = self.listing.operations[run[0]].name
            yield f"CARRY({name}, {first - begin}, {self.end(run[-1]) - first});"
