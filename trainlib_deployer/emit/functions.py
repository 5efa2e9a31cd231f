"""The functions of net.c and the tables before them: each table and each shared function once, before its use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from trainlib_deployer.emit.listing import Listing
from trainlib_deployer.emit.operation_text import body_text, table_text
from trainlib_deployer.emit.shared import Shared
from trainlib_deployer.emit.tables import Tables


@dataclass
class Functions:
    """`streams`: under each operation in tiles the one whose table of streams is its own, too; `tables`: what these
    refer to."""

    listing: Listing
    streams: Mapping[str, str]
    shared: Mapping[int, Shared]
    tables: Tables
    written: set[str] = field(default_factory=set)

    def before(self, at: int) -> list[str]:
        """Tables that stand before what an operation adds."""
        return [text for name, text in self.tables_of(at) if self.first(name)]

    def tables_of(self, at: int) -> Iterator[tuple[str, str]]:
        listing, operation = self.listing, self.listing.operations[at]
        for name in (operation.name, *operation.starts):
            if name in self.streams:
                owner = self.streams[name]
                yield (
                    f"streams_{owner}",
                    "\n".join(table_text(listing.operations[listing.positions[owner]], self.tables)),
                )
        if at in self.shared:
            yield self.shared[at].table, self.shared[at].table_text

    def function(self, at: int) -> Shared | None:
        """The shared one that is not there yet."""
        share = self.shared.get(at)
        return share if share is not None and self.first(share.function) else None

    def first(self, name: str) -> bool:
        new = name not in self.written
        self.written.add(name)
        return new

    def lines(self, at: int) -> list[str]:
        """Of the operation's own function."""
        if at in self.shared:
            return [f"{self.shared[at].function}({self.shared[at].table});"]
        listing, operation = self.listing, self.listing.operations[at]
        guests = [listing.operations[listing.positions[name]] for name in operation.starts]
        return body_text(operation, guests, self.streams, self.tables)
