"""How an operand passes through buffers, tile by tile: the same wherever the others live."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.plan.cycles import transfer_cycles
from trainlib_deployer.plan.window import Window

MOST_BUFFERS = 4  # of a stream (tl_part)


class Move(NamedTuple):
    """What one part takes of one stream."""

    window: Window
    buffer: int
    moves: bool


class Stream(NamedTuple):
    """An operand on its way: its tensor, its buffer's size, and a move for each part."""

    tensor: str
    writes: bool
    size: int  # of one buffer, aligned
    buffers: int
    moves: tuple[Move, ...]
    shares: int | None = None  # results that take the place of what was read: the stream in whose buffers they lie
    early: bool = False  # its first transfer is started by the operation's host
    found: int | None = None  # first tiles that lie where the operation before left them: its stream

    @property
    def nbytes(self) -> int:
        """Of L1, beside what other streams take."""
        return self.size * self.buffers if self.shares is None else 0

    @property
    def first_bytes(self) -> int:
        """What lives from the host on, if it comes early: of two buffers one."""
        return self.size if self.buffers <= 2 else self.nbytes

    @property
    def apart(self) -> bool:
        """Does the second buffer lie elsewhere than the first?"""
        return self.early and self.first_bytes < self.nbytes


class Passage:
    """The moves of an operand that has so many buffers, each of which is used."""

    def __init__(self, windows: Sequence[Window], buffers: int, writes: bool) -> None:
        self.windows, self.buffers, self.writes = windows, buffers, writes
        self.cycles_on: dict[Machine, list[float]] = {}

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        return tuple(moves_of(self.windows, self.buffers, self.writes))

    def cycles(self, machine: Machine) -> list[float]:
        """Of each move; most are alike."""
        if machine not in self.cycles_on:
            known: dict[object, float] = {}
            found = []
            for w, _, moves in self.moves:
                alike = w.row_bytes, w.rows, w.planes
                if moves and alike not in known:
                    known[alike] = transfer_cycles(w, machine.link)
                found.append(known[alike] if moves else 0.0)
            self.cycles_on[machine] = found
        return self.cycles_on[machine]


class Crossing:
    """The windows that parts take of an operand, one after the other; equal ones are one object."""

    def __init__(self, windows: list[Window], writes: bool) -> None:
        different = {id(w): w for w in windows}.values()
        self.windows, self.writes = windows, writes
        self.different = len(different)
        self.largest = max(w.nbytes for w in different)
        self.passages: dict[int, Passage] = {}

    def passage(self, count: int) -> Passage:
        """Through so many buffers at the most."""
        buffers = min(count, self.different)
        if buffers not in self.passages:
            self.passages[buffers] = Passage(self.windows, buffers, self.writes)
        return self.passages[buffers]

    @cached_property
    def recurring(self) -> int:
        """How many windows there are, if they are few and one comes back after another; else 0."""
        few = 1 < self.different <= MOST_BUFFERS
        changes = sum(a is not b for a, b in pairwise(self.windows)) if few else 0
        return self.different if few and changes >= self.different else 0


def moves_of(windows: Sequence[Window], count: int, writes: bool) -> Iterator[Move]:
    """Each window has one of `count` buffers to itself, or else takes the next. Reads move unless they are there
    already; results leave before their window changes. Equal windows are one object."""
    own = {key: at for at, key in enumerate(dict.fromkeys(map(id, windows)))}
    held: dict[int, Window] = {}
    buffer = 0
    before: Window | None = None
    for w, behind in zip(windows, (*windows[1:], None), strict=True):
        if len(own) <= count:
            buffer = own[id(w)]
        elif before is not None and w is not before:
            buffer = (buffer + 1) % count
        yield Move(w, buffer, w is not behind if writes else held.get(buffer) is not w)
        held[buffer] = before = w
