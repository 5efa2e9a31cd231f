"""Where operations of a list read and write tensors, kept true while some of them move."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass

from trainlib_deployer.program.ir import Op, Program, View, readers, writers


@dataclass(frozen=True)
class Places:
    """Tensor name to the positions of the operations that read it, and of those that write it, in order."""

    read: dict[str, list[int]]
    written: dict[str, list[int]]

    @staticmethod
    def of(program: Program) -> Places:
        return Places(readers(program), writers(program))

    def move(self, op: Op, old: int, new: int) -> None:
        """What `op` did at one position is done at another, by what is there."""
        for views, places in ((op.reads, self.read), (op.writes, self.written)):
            for name in {v.tensor for v in views}:
                drop(places[name], old)
                drop(places[name], new)
                insort(places[name], new)

    def reads_no_more(self, name: str, at: int) -> None:
        drop(self.read.get(name, []), at)

    def disturb(self, op: Op, start: int, stop: int) -> bool:
        """True where an operation between the two positions writes what `op` reads."""
        return between(self.written, op.reads, start, stop)

    def conflict(self, op: Op, start: int, stop: int) -> bool:
        """True where `op` may not pass all operations between the two positions."""
        touched = (*op.reads, *op.writes)
        return between(self.written, touched, start, stop) or between(self.read, op.writes, start, stop)


def between(places: dict[str, list[int]], views: Iterable[View], start: int, stop: int) -> bool:
    found = (places.get(v.tensor, []) for v in views)
    return any(bisect_right(p, start) < bisect_left(p, stop) for p in found)


def drop(places: list[int], position: int) -> None:
    """If it is there."""
    at = bisect_left(places, position)
    if places[at : at + 1] == [position]:
        del places[at]
