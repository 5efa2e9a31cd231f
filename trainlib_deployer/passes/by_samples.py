"""What an operation of the backward pass makes, used up a few samples at a time.

The gradient that a pool passes back is as large as the image before it, and where that is the input of the network,
sums over it are all that is made of it. Of half of the samples it takes half. The parts are tiles of the operations,
and sums over samples go on with what the samples before have left, so that the bits stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.passes.read_copies import span
from trainlib_deployer.program.ir import Leading, Op, Part, Program, Splittable
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.places import Places


def by_samples(program: Program, name: str, parts: Sequence[str]) -> Program | None:
    """With this tensor in equal parts of these names, one after the other; None where not all that reads it can be."""
    made, places = program.tensors[name], Places.of(program)
    at = [*places.written.get(name, []), *places.read.get(name, [])]
    ops, size = [program.ops[i] for i in at], made.numel // len(parts)
    if len(places.written.get(name, [])) != 1 or name in program.shown or made.numel % len(parts):
        return None
    if len(ops) < 2 or any(op.phase != "backward" for op in ops) or not at_once(places, at, ops, name):
        return None
    shares = [share for op in ops for share in islice(apart(op, name, len(parts), size), 1)]
    if len(shares) < len(ops):
        return None
    tensors, found = dict(program.tensors), list[Op]()
    for number, part in enumerate(parts):
        tensors[part] = replace(made, name=part, shape=(size,))
        found += [moved(share[number], name, part, number * size) for share in shares]
    rest = [op for i, op in enumerate(program.ops) if i not in at]
    return replace(program, tensors=tensors).with_ops([*rest[: at[1] - 1], *found, *rest[at[1] - 1 :]])


def at_once(places: Places, at: Sequence[int], ops: Sequence[Op], name: str) -> bool:
    """Whether the first of these may be done just before the second, and the others just behind it, in turns."""
    made, first, *others = at
    free = not places.conflict(ops[0], made, first)
    free = free and not any(places.conflict(op, first, i) for op, i in zip(ops[2:], others, strict=True))
    written = [{v.tensor for v in op.writes} - {name} for op in ops]
    touched = [{v.tensor for v in (*op.reads, *op.writes)} - {name} for op in ops]
    return free and all(w.isdisjoint(t) for i, w in enumerate(written) for j, t in enumerate(touched) if i != j)


def apart(op: Op, name: str, count: int, size: int) -> Iterator[list[Op]]:
    """In so many operations, each of which touches its own part of this tensor alone."""
    for tiles in ways(op, count):
        own = [going_on(op, tile) for tile in tiles]
        inside = (within(o, name, at * size, size) for at, o in enumerate(own) if o is not None)
        if None not in own and all(inside):
            yield [o for o in own if o is not None]


def ways(op: Op, count: int) -> Iterator[Sequence[Part]]:
    kind = op.kind
    if isinstance(kind, Loop):
        whole = [(0, extent) for extent in kind.parallel]
        for d, extent in enumerate(kind.parallel):
            step = extent // count
            if step * count == extent:
                boxes = [(*whole[:d], (k * step, (k + 1) * step), *whole[d + 1 :]) for k in range(count)]
                yield [kind.part(box, op.reads, op.writes) for box in boxes]
    elif isinstance(kind, Splittable):
        yield from (tiles for tiles in kind.ways(op.reads, op.writes) if len(tiles) == count)


def going_on(op: Op, tile: Part) -> Op | None:
    """A tile as an operation of its own; of those that add to what is there, weight gradients can be."""
    kind, reads = tile.kind, tile.reads
    if isinstance(kind, Leading) and kind.accumulate:
        if not isinstance(kind, Conv) or kind.direction != "bw_w" or kind.winograd:
            return None
        kind, reads = replace(kind, accumulate=False, onto=True), (*reads[:2], *tile.writes)
    return replace(op, kind=kind, reads=reads, writes=tile.writes)


def within(op: Op, name: str, first: int, size: int) -> bool:
    touched = (span(v) for v in (*op.reads, *op.writes) if v.tensor == name)
    return all(low >= first and end <= first + size for low, end in touched)


def moved(op: Op, name: str, part: str, first: int) -> Op:
    reads, writes = (
        tuple(v._replace(tensor=part, offset=v.offset - first) if v.tensor == name else v for v in views)
        for views in (op.reads, op.writes)
    )
    return replace(op, reads=reads, writes=writes)
