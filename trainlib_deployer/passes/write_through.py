"""Write a result where a copy would take it.

Heads of attention are permuted between products: queries, keys and values come out of one product side by side, what
the heads make goes into the next one, and gradients go the same way back. Each of these is a copy, of what nobody else
reads. A product writes rows any distance apart, and a loop of one operand goes over its elements in any order: so they
write what the copy would. A loop that reads in another order what one of a single operand makes does that one's work,
too. The bits are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.passes.fuse_loops import fused
from trainlib_deployer.passes.place_sums import copies
from trainlib_deployer.program.ir import Op, Program, View
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.places import Places, between
from trainlib_deployer.program.strides import row_major

LEAST = 16  # columns of a product that is cut into several; whole panels of four
Offsets = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Step:
    """A program's operations, of which some go, while all others keep their positions."""

    program: Program
    ops: list[Op | None]
    places: Places
    kept: frozenset[str]  # what is asked for elsewhere

    @staticmethod
    def of(program: Program) -> Step:
        kept = frozenset({*program.shown, *(t for _, t in program.gradients)})
        return Step(program, list(program.ops), Places.of(program), kept)

    def without(self, copy: Op, at: int) -> bool:
        """Leaves the copy at this position out, if that can be."""
        (read,), (written,) = copy.reads, copy.writes
        places, name, tensors = self.places, read.tensor, self.program.tensors
        made = list(places.written.get(name, []))
        alone = places.read[name] == [at] and made and made[-1] < at
        plain = not (tensors[name].role.persistent or tensors[written.tensor].role.persistent)
        if name in self.kept or not alone or not plain or tensors[name].dtype is not tensors[written.tensor].dtype:
            return False
        first = made[0] - 1  # it is among those that must not touch what the copy writes
        if between(places.written, copy.writes, first, at) or between(places.read, copy.writes, first, at):
            return False
        where = destinations(tensors[name].numel, read, written)
        changed = [elsewhere(op, copy, where) for i in made if where is not None and (op := self.ops[i]) is not None]
        if len(changed) < len(made) or None in changed:
            return False
        self.ops[at] = None
        for i, op in zip(made, changed, strict=True):
            self.ops[i] = op
            places.move(replace(copy, reads=()), at, i)
        return True

    def joined(self, consumer: Op, at: int) -> None:
        """Makes a loop of one operand and the one that makes its operand one, if that can be."""
        read, tensors, places = consumer.reads[0], self.program.tensors, self.places
        made = places.written.get(read.tensor, [])
        if read.contiguous or tensors[read.tensor].role.persistent or read.tensor in self.kept:
            return
        if places.read[read.tensor] != [at] or len(made) != 1 or made[0] >= at:
            return
        producer = self.ops[made[0]]
        if producer is None or not of_one(producer) or places.disturb(producer, made[0], at):
            return
        where = destinations(tensors[read.tensor].numel, producer.writes[0], producer.reads[0])
        once = np.unique(offsets(read)).size == read.numel
        source = None if where is None or not once else landed(read, producer.reads[0].tensor, where)
        written = None if source is None else consumer.writes[0].reshaped(source.shape)
        if source is None or written is None or source.tensor == written.tensor:
            return
        between_them = View(read.tensor, source.shape, row_major(source.shape))
        first = over(producer, source, between_them)
        joint = fused(first, over(consumer, between_them, written), False, between_them.numel)
        if joint is not None:
            self.ops[made[0]], self.ops[at] = None, joint
            places.move(replace(producer, writes=()), made[0], at)


def write_through(program: Program) -> Program:
    """The last copy comes first: of two in a row the first one's writers may be loops, where products cannot go on."""
    step = Step.of(program)
    for at in reversed(range(len(step.ops))):
        op = step.ops[at]
        if op is not None and not (copies(op) and step.without(op, at)) and of_one(op):
            step.joined(op, at)
    return program.with_ops([op for op in step.ops if op is not None])


def destinations(numel: int, read: View, written: View) -> Offsets | None:
    """Of each element of what the copy reads, where it goes; -1: nowhere. None where one goes to several places."""
    where = np.full(numel, -1, np.int64)
    source = offsets(read)
    where[source] = offsets(written)
    return where if np.count_nonzero(where >= 0) == source.size else None


def offsets(view: View) -> Offsets:
    found = np.array(view.offset, np.int64)
    for extent, stride in zip(view.shape, view.strides, strict=True):
        found = found[..., None] + np.arange(extent) * stride
    return found


def elsewhere(op: Op, copy: Op, where: Offsets) -> Op | None:
    """The same operation with its result where the copy would take it."""
    if op.phase != copy.phase or len(op.writes) != 1:
        return None
    view = landed(op.writes[0], copy.writes[0].tensor, where)
    changed = None if view is None else product_to(op, view) or loop_to(op, view)
    names = (*(op.fused or (op.name,)), *(copy.fused or (copy.name,)))
    return changed and replace(changed, fused=tuple(dict.fromkeys(names)))


def landed(view: View, tensor: str, where: Offsets) -> View | None:
    """Where the elements of a view go: by constant steps in each dimension, of which some are cut for that."""
    found = where[offsets(view)]
    if not found.size or (found < 0).any():
        return None
    shape: list[int] = []
    strides: list[int] = []
    for dim in range(found.ndim):
        line = np.moveaxis(found, dim, -1).reshape(-1, found.shape[dim])[0]
        for extent, stride in parts_of(line):
            shape.append(extent)
            strides.append(stride)
    result = View(tensor, tuple(shape), tuple(strides), int(found.flat[0]))
    return result if result.numel == view.numel and (offsets(result).ravel() == found.ravel()).all() else None


def parts_of(line: Offsets) -> list[tuple[int, int]]:
    """Extents and strides of dimensions that go along a line."""
    steps = np.diff(line)
    if not steps.size:
        return [(1, 0)]
    other = np.flatnonzero(steps != steps[0])
    inner = int(other[0]) + 1 if other.size else line.size
    own = (inner, int(steps[0]))
    return [own] if not other.size else [*parts_of(line[::inner]), own]


def of_one(op: Op) -> bool:
    """A loop of one operand and one result."""
    kind = op.kind
    plain = isinstance(kind, Loop) and not kind.reductions and not kind.post and not kind.recorded
    return plain and len(op.reads) == len(op.writes) == 1


def over(op: Op, read: View, written: View) -> Op:
    assert isinstance(op.kind, Loop)
    return replace(op, kind=replace(op.kind, extents=read.shape), reads=(read,), writes=(written,))


def loop_to(op: Op, view: View) -> Op | None:
    """One of a single operand: others have the lines of a reduction before or behind them, and stay with it."""
    read = op.reads[0].reshaped(view.shape) if of_one(op) else None
    return None if read is None or read.tensor == view.tensor else over(op, read, view)


def product_to(op: Op, view: View) -> Op | None:
    """Rows stay dense. One of many columns may become one of several times fewer, with the same rows."""
    kind = op.kind
    if not isinstance(kind, MatMul) or kind.update or kind.accumulate or view.strides[-1] != 1:
        return None
    shape = (kind.batch, kind.m, kind.n)
    if view.shape == shape:
        return replace(op, writes=(view,))
    if kind.batch > 1 or view.shape[:2] != shape[:2] or len(view.shape) != 4 or view.shape[3] % 4:
        return None
    parts, n = view.shape[2:]
    if n < LEAST:
        return None
    a, b, *init = op.reads
    right = (parts, *b.shape[1:2], n), (n * b.strides[2], *b.strides[1:])
    begun = [View(v.tensor, (parts, kind.m, n), (n * v.strides[2], *v.strides[1:]), v.offset) for v in init]
    reads = (a.expanded((parts, *a.shape[1:])), View(b.tensor, *right, b.offset), *begun)
    written = View(view.tensor, (parts, kind.m, n), (view.strides[2], view.strides[1], 1), view.offset)
    return replace(op, kind=replace(kind, batch=parts, n=n), reads=reads, writes=(written,))
