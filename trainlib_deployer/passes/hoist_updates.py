"""Move each parameter's update right behind the last operation that needs the old value or makes its gradient.

Then the gradient dies at once and its memory serves the next layer. Clipping by the norm of all gradients needs every
gradient first: the updates then stay behind it by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from trainlib_deployer.program.ir import Op, Program


def hoist_updates(program: Program) -> Program:
    """Where gradients are accumulated, it is the accumulation that moves: the updates run in some of the steps only."""
    moving = "accumulate" if any(op.phase == "accumulate" for op in program.ops) else "update"
    line = Line()
    for op in program.ops:
        line.add(op, line.last_before(op) if op.phase == moving else line.end)
    return program.with_ops(list(line.ops()))


@dataclass(eq=False)
class Place:
    """An operation in a line; keys ascend along it."""

    op: Op | None
    key: tuple[int, ...]
    next: Place | None = None
    inserted: int = 0  # right behind it
    ahead: Place | None = None  # with nothing but operations of the forward pass on the way


@dataclass
class Line:
    """Operations in order, to which others are added anywhere in constant time."""

    start: Place = field(default_factory=lambda: Place(None, ()))
    readers: dict[str, Place] = field(default_factory=dict)  # of each tensor the last
    writers: dict[str, Place] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.end = self.start
        self.count = 0

    def add(self, op: Op, behind: Place) -> None:
        """Right behind this place and what follows it of the forward pass."""
        behind = self.behind_forward(behind)
        if behind is self.end:
            self.count += 1
            place = self.end = Place(op, (self.count,))
        else:
            behind.inserted += 1
            place = Place(op, (*behind.key, -behind.inserted), behind.next)
        behind.next = place
        for views, users in ((op.reads, self.readers), (op.writes, self.writers)):
            for view in views:
                users[view.tensor] = later(place, users.get(view.tensor, place))

    def last_before(self, op: Op) -> Place:
        """Of those that must stay before `op`: they write what it touches, or read what it writes."""
        touched = [self.writers.get(v.tensor, self.start) for v in (*op.reads, *op.writes)]
        read = [self.readers.get(v.tensor, self.start) for v in op.writes]
        return max((*touched, *read), key=lambda p: p.key, default=self.start)

    def behind_forward(self, place: Place) -> Place:
        """What was walked over once is jumped over from then on."""
        passed = []
        while True:
            if place.ahead is None and place.next is not None and is_forward(place.next):
                place.ahead = place.next
            if place.ahead is None:
                break
            passed.append(place)
            place = place.ahead
        for p in passed:
            p.ahead = place
        return place

    def ops(self) -> Iterator[Op]:
        place = self.start.next
        while place is not None:
            assert place.op is not None
            yield place.op
            place = place.next


def later(one: Place, other: Place) -> Place:
    return one if one.key >= other.key else other


def is_forward(place: Place) -> bool:
    return place.op is not None and place.op.phase == "forward"
