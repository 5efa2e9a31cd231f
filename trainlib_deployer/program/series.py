"""Loops over the same lines, such as the channels of a normalisation: its sums, what they give, and all that is made
of a line with them, before the next lines come. So a tensor that several of them read crosses once.

A line is what belongs to one place of a dimension that all the loops have. In a tensor it is `step` elements, again
and again behind those of the other lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar, cast

from trainlib_deployer.program.cuts import Cuttable, Range, outer_cuts, span, tapered
from trainlib_deployer.program.ir import Op, Part, Shape, View
from trainlib_deployer.program.linked import Linked
from trainlib_deployer.program.loop import Loop, inside

T = TypeVar("T")
Views = tuple[View, ...]


@dataclass(frozen=True)
class Stage:
    """One of the loops, whose first dimension are the lines, and the numbers of its operands."""

    loop: Loop
    reads: tuple[int, ...]
    writes: tuple[int, ...]

    def over(self, write: int, reads: Views, writes: Views) -> list[int]:
        """Operands of which it reads each byte just where it writes the same one of a result."""
        size = self.loop.outputs[self.writes.index(write)].size
        found = zip(self.reads, self.loop.inputs, strict=True)
        near = [i for i, dtype in found if dtype.size == size and alike(reads[i], writes[write])]
        return [i for i in near if all(reads[k] == reads[i] for k in self.reads if reads[k].tensor == reads[i].tensor)]


@dataclass(frozen=True)
class Series(Cuttable[Range], Linked):
    """Operands have the lines as their first dimension."""

    stages: tuple[Stage, ...]
    made: tuple[int | None, ...]  # of each operand read: the result that it is, if a stage before has made it
    passing: frozenset[int]  # results that are never whole in memory
    first: int = 0  # of the lines, in operands that a tile has whole

    name = "series"

    def macs(self) -> int:
        return sum(s.loop.macs() for s in self.stages)

    @property
    def lines(self) -> int:
        return self.stages[0].loop.extents[0]

    def cuts(self) -> Iterator[Sequence[Range]]:
        return ([box[0] for box in boxes] for boxes in outer_cuts((self.lines,)))

    def tapered(self, cuts: Sequence[Range]) -> Sequence[Range] | None:
        return tapered(cuts)

    def part(self, cut: Range, reads: Views, writes: Views) -> Part:
        """Operands of one element a line stay whole: one transfer, not one a tile."""

        def of_tile(views: tuple[View, ...]) -> tuple[View, ...]:
            return tuple(v if single(v) else inside(v, (cut,)) for v in views)

        return Part(self.of_lines(cut), of_tile(reads), of_tile(writes))

    def of_lines(self, cut: Range) -> Series:
        if cut not in self.known:
            self.known[cut] = replace(self, stages=self.resized(span(cut)), first=cut[0])
        return self.known[cut]

    def resized(self, lines: int) -> tuple[Stage, ...]:
        """Tiles of so many lines share these."""
        if lines not in self.stages_of:
            resized = (s.loop.sized((lines, *s.loop.extents[1:])) for s in self.stages)
            stages = (replace(s, loop=loop) for s, loop in zip(self.stages, resized, strict=True))
            self.stages_of[lines] = tuple(stages)
        return self.stages_of[lines]

    @cached_property
    def stages_of(self) -> dict[int, tuple[Stage, ...]]:
        return {}

    @cached_property
    def known(self) -> dict[Range, Series]:
        return {}

    def links(self, reads: Sequence[T], writes: Sequence[T]) -> list[tuple[Loop, tuple[T, ...], tuple[T, ...]]]:
        given, made = [*map(self.own, reads)], [*map(self.own, writes)]
        return [(s.loop, tuple(given[i] for i in s.reads), tuple(made[i] for i in s.writes)) for s in self.stages]

    def own(self, operand: T) -> T:
        """What its lines have of one that is whole."""
        if not isinstance(operand, View) or operand.shape[0] == self.lines:
            return operand
        return cast("T", inside(operand, ((self.first, self.first + self.lines),)))

    def made_by(self, read: int) -> int | None:
        return self.made[read]

    def over(self, write: int) -> dict[int, Sequence[int]]:
        using = [(s, [i for i in s.reads if self.made[i] == write]) for s in self.stages]
        last = [(s, its) for s, its in using if its][-1:]
        return {w: its for s, its in last if not s.loop.reductions for w in s.writes}

    def in_place_of(self, reads: Views, writes: Views) -> dict[int, int]:
        """Results that may lie where operands were: the one made to the one read, element by element and for the last
        time, or to that in whose place the one read lies."""
        found: dict[int, int] = {}
        for at, stage in enumerate(self.stages):
            later = {reads[i].tensor for s in self.stages[at + 1 :] for i in s.reads}
            for w in () if stage.loop.reductions else stage.writes:
                taken = {r for v, r in found.items() if v not in self.passing or writes[v].tensor in later}
                near = stage.over(w, reads, writes)
                roots = (self.root(i, found) for i in near if reads[i].tensor not in later)
                place = next((r for r in roots if r is not None and r not in taken), None)
                if place is not None:
                    found[w] = place
        return found

    def overlaid(self, reads: Views, writes: Views) -> Iterator[tuple[View, Views, Views]]:
        """Each result of a loop that has no sums, with what that loop reads for the last time, and with what only those
        before have read, line by line as the result is written."""
        for at, stage in enumerate(self.stages):
            own = {reads[i].tensor for i in stage.reads}
            later = {reads[i].tensor for s in self.stages[at + 1 :] for i in s.reads}
            dying = tuple(reads[i] for i in stage.reads if reads[i].tensor not in later)
            before = [reads[i] for s in self.stages[:at] for i in s.reads]
            gone = [v for v in before if v.tensor not in own | later and apart(v)]
            for w in () if stage.loop.reductions else stage.writes:
                lined = (v for v in gone if v.strides[0] == writes[w].strides[0] and not single(writes[w]))
                yield writes[w], dying, tuple(lined)

    def root(self, read: int, found: dict[int, int]) -> int | None:
        """The operand that comes from outside in whose place this one is."""
        made = self.made[read]
        return read if made is None else found.get(made)


@dataclass(frozen=True)
class Led:
    """A loop whose first dimension are the lines, and its operands."""

    loop: Loop
    reads: tuple[View, ...]
    writes: tuple[View, ...]

    @property
    def views(self) -> tuple[View, ...]:
        return (*self.reads, *self.writes)

    def steps(self) -> dict[str, int] | None:
        """Of each tensor; None where it is seen in two ways."""
        found: dict[str, int] = {}
        alike = all(found.setdefault(v.tensor, v.strides[0]) == v.strides[0] for v in self.views)
        return found if alike else None


def by_reduction(op: Op) -> Led | None:
    """Its own first dimension, of what is not summed."""
    loop = op.kind
    several = isinstance(loop, Loop) and loop.reductions and loop.parallel and loop.parallel[0] > 1
    return Led(loop, op.reads, op.writes) if several and isinstance(loop, Loop) else None


def led(op: Op, tensor: str, step: int, lines: int) -> Led | None:
    """The loop with these lines of one of its tensors as its first dimension; None where it goes otherwise."""
    loop = op.kind
    assert isinstance(loop, Loop)
    views = (*op.reads, *op.writes)
    view = next(v for v in views if v.tensor == tensor)
    parallel = len(loop.extents) - loop.reduced
    for d, (extent, stride) in enumerate(zip(view.shape[:parallel], view.strides, strict=False)):
        size = step // stride if stride else 0
        if size and size * stride == step and extent % (size * lines) == 0:
            order = (d + 1, *range(d + 1), *range(d + 2, len(loop.extents) + 2))
            split = (extent // (size * lines), lines, size)
            extents = permuted((*loop.extents[:d], *split, *loop.extents[d + 1 :]), order)
            seen = tuple(split_at(v, d, split).permuted(order[: len(v.shape) + 2]) for v in views)
            count = len(op.reads)
            return Led(replace(loop, extents=extents), seen[:count], seen[count:])
    return None


def permuted(extents: Shape, order: Sequence[int]) -> Shape:
    return tuple(extents[d] for d in order)


def split_at(view: View, d: int, split: tuple[int, int, int]) -> View:
    """One dimension as three."""
    stride, (_, lines, size) = view.strides[d], split
    strides = (stride * lines * size, stride * size, stride)
    shape = (*view.shape[:d], *split, *view.shape[d + 1 :])
    return View(view.tensor, shape, (*view.strides[:d], *strides, *view.strides[d + 1 :]), view.offset)


def single(view: View) -> bool:
    """One element a line."""
    return all(e == 1 or s == 0 for e, s in zip(view.shape[1:], view.strides[1:], strict=True))


def alike(one: View, other: View) -> bool:
    """Do both lie in the same way, with several elements a line?"""
    return (one.shape, one.strides) == (other.shape, other.strides) and not single(one)


def apart(view: View) -> bool:
    """Has each line elements of its own?"""
    step, lines = view.strides[0], view.shape[0]
    if step < 1:
        return False
    rest = [(e, s % (step * lines)) for e, s in zip(view.shape[1:], view.strides[1:], strict=True) if e > 1]
    if any(s >= step or s < 0 for _, s in rest):
        return False
    return view.offset % (step * lines) + sum((e - 1) * s for e, s in rest) < step
