"""Copies from and to what lies behind the outer memory: rows of one table, which one function of C carries out.

An order starts a copy or awaits it; orders that follow each other are carried out by one call. An operation that starts
tiles of others, or behind which something is recorded, keeps a function for that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from trainlib_deployer.emit.listing import CARRY, Listing, copy_of, job_awaited
from trainlib_deployer.emit.operation_text import fields_text

ROW, ORDER = 36, 2  # bytes of a tl_carry and of an order
AWAITS = 1 << 15  # in an order, beside the number of its copy
IN_A_LINE = 16


@dataclass(frozen=True)
class Orders:
    """The table, and what the functions of a step say. `alone`: operations that need a function."""

    listing: Listing
    alone: Collection[int] = ()
    awaits = AWAITS

    @cached_property
    def positions(self) -> dict[int, int]:
        """Operations that are orders, and which row of the orders they are."""
        ops = self.listing.operations
        copies = (at for at, op in enumerate(ops) if copy_of(op) or at in self.listing.awaited)
        found = (at for at in copies if at not in self.alone and not ops[at].starts)
        return {at: number for number, at in enumerate(found)}

    @cached_property
    def copies(self) -> list[str]:
        """The rows, each once."""
        return list(dict.fromkeys(self.row(at) for at in self.positions))

    @cached_property
    def orders(self) -> list[int]:
        numbers = {row: number for number, row in enumerate(self.copies)}
        assert len(numbers) < AWAITS
        awaits = (AWAITS if job_awaited(self.listing.operations[at]) is not None else 0 for at in self.positions)
        return [numbers[self.row(at)] | how for at, how in zip(self.positions, awaits, strict=True)]

    @property
    def text(self) -> Iterator[str]:
        """The orders."""
        for begin in range(0, len(self.orders), IN_A_LINE):
            yield "".join(f"{order}, " for order in self.orders[begin : begin + IN_A_LINE]).rstrip()

    @property
    def nbytes(self) -> int:
        return ROW * len(self.copies) + -(-ORDER * len(self.orders) // 4) * 4

    def row(self, at: int) -> str:
        """The copy that an operation starts or awaits."""
        begun = self.listing.operations[self.listing.awaited.get(at, at)]
        call = next(c for calls in begun.calls for c in calls if c.struct == CARRY)
        return f"{{{fields_text(call)}}}"

    def lines(self, function: Sequence[int]) -> Iterator[str]:
        """Of one function of the step."""
        for ordered, group in groupby(function, key=lambda at: at in self.positions):
            found = list(group)
            names = [self.listing.operations[at].name for at in found]
            if ordered:
                yield f"CARRY({names[0]}, {self.positions[found[0]]}, {len(found)});"
            else:
                yield from (f"RUN({name});" for name in names)
