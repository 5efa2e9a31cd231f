"""Write a result where a copy would take it.

Heads of attention are permuted between products: queries, keys and values come out of one product side by side, what
the heads make goes into the next one, and gradients go the same way back. Each of these is a copy, of what nobody else
reads. A product writes rows any distance apart, and a loop of one operand goes over its elements in any order: so they
write what the copy would. A loop that reads in another order what one of a single operand makes does that one's work,
too. The bits are the same.
"""

from __future__ import annotations

from dataclasses import replace
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


def write_through(program: Program) -> Program:
    """The last copy comes first: of two in a row the first one's writers may be loops, where products cannot go on."""
    for at in reversed(range(len(program.ops))):
        program = without(program, at) or joined(program, at) or program
    return program


def without(program: Program, at: int) -> Program | None:
    """The program without the copy at this position, if it is one that can be left out."""
    copy = program.ops[at]
    if not copies(copy):
        return None
    (read,), (written,) = copy.reads, copy.writes
    places, name = Places.of(program), read.tensor
    made = places.written.get(name, [])
    kept = name in program.shown or name in {t for _, t in program.gradients}
    alone = places.read[name] == [at] and made and made[-1] < at
    tensors = program.tensors[name], program.tensors[written.tensor]
    if kept or not alone or any(t.role.persistent for t in tensors) or tensors[0].dtype is not tensors[1].dtype:
        return None
    first = made[0] - 1  # it is among those that must not touch what the copy writes
    if between(places.written, copy.writes, first, at) or between(places.read, copy.writes, first, at):
        return None
    where = destinations(tensors[0].numel, read, written)
    ops: list[Op | None] = list(program.ops)
    for i in made:
        ops[i] = elsewhere(program.ops[i], copy, where) if where is not None else None
        if ops[i] is None:
            return None
    ops[at] = None
    return program.with_ops([op for op in ops if op is not None])


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


def joined(program: Program, at: int) -> Program | None:
    """The program with the loop of one operand at this position and the one that makes the operand as one."""
    places, consumer = Places.of(program), program.ops[at]
    if not of_one(consumer) or (read := consumer.reads[0]).contiguous or program.tensors[read.tensor].role.persistent:
        return None
    kept = read.tensor in program.shown or read.tensor in {t for _, t in program.gradients}
    made = places.written.get(read.tensor, [])
    if kept or places.read[read.tensor] != [at] or len(made) != 1 or made[0] >= at:
        return None
    producer = program.ops[made[0]]
    if not of_one(producer) or places.disturb(producer, made[0], at):
        return None
    where = destinations(program.tensors[read.tensor].numel, producer.writes[0], producer.reads[0])
    once = np.unique(offsets(read)).size == read.numel
    source = None if where is None or not once else landed(read, producer.reads[0].tensor, where)
    written = None if source is None else consumer.writes[0].reshaped(source.shape)
    if source is None or written is None or source.tensor == written.tensor:
        return None
    between_them = View(read.tensor, source.shape, row_major(source.shape))
    first = over(producer, source, between_them)
    joint = fused(first, over(consumer, between_them, written), False, between_them.numel)
    ops = program.ops
    if joint is None:
        return None
    return program.with_ops([*ops[: made[0]], *ops[made[0] + 1 : at], joint, *ops[at + 1 :]])


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
