"""Gradients made in parts: those of weights, each used up by its part of the update before the next one is made, and
others by samples (by_samples.py).

Where activations are halves, the gradient of a weight is a float and often the largest tensor of a step, which an order
can only go round. A half or a third of it at a time takes less; a build that records keeps all of it, outside of the
plan. The parts are tiles of the product, so the bits stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.passes.by_samples import by_samples
from trainlib_deployer.passes.coalesce import coalesced
from trainlib_deployer.passes.reorder import Fullness, Scale, fullest, reorder
from trainlib_deployer.program.chain import in_shape, place, recording
from trainlib_deployer.program.ir import Leading, Op, Part, Program, Role, Tensor, View
from trainlib_deployer.program.loop import Loop, inside
from trainlib_deployer.program.places import Places

WORTH = 64  # of the bytes at the fullest operation such a part at least makes up for more operations
COUNTS = (1, 2, 3, 4, 6, 8)  # parts
PART = ".part"

Order = Callable[[Program], Program]


def in_parts(program: Program, enough: float) -> Program:
    """Until the step takes no more bytes than are enough, in the order that there is or in a new one: by fewer
    operations where both get there, else by fewer bytes."""
    if any(op.phase == "accumulate" for op in program.ops):
        return program
    found = (descended(program, order, enough) for order in (as_it_is, partial(reorder, with_updates=True)))
    return min(found, key=lambda p: (max(enough, fullest(p)), len(p.ops)))


def as_it_is(program: Program) -> Program:
    return program


def descended(program: Program, order: Order, enough: float) -> Program:
    counts: dict[str, int] = {}
    best = order(program)
    full = weighed(best)
    while full.peak > enough:
        found = next(smaller(program, order, counts, full), None)
        if found is None:
            break
        counts, best, full = found
    return best


def smaller(
    program: Program, order: Order, counts: dict[str, int], full: Fullness
) -> Iterator[tuple[dict[str, int], Program, Fullness]]:
    """With more parts of a gradient, of a weight or of what comes in samples, that is there at the fullest operation,
    the largest first."""
    places, live = Places.of(program), {whole_of(n) for n in full.live}
    of_weights = [name for _, name in program.gradients]
    sums = {n: {program.ops[at].writes[0].tensor for at in makers_of(program, places, n)} for n in of_weights}
    others = {n for n in live & {*program.tensors} if program.tensors[n].role is Role.GRADIENT}
    sums |= {n: {n} for n in others.difference(of_weights, *sums.values())}
    sizes = {name: program.tensors[name].nbytes // counts.get(name, 1) for name in sums}
    for name in sorted((n for n in sizes if sums[n] & live), key=lambda n: (-sizes[n], n)):
        for count in COUNTS:
            more = counts | {name: count}
            apart = taken_apart(program, more) if count > counts.get(name, 1) else None
            if apart is None:
                continue
            other = order(apart)
            then = weighed(other)
            if full.peak - then.peak >= full.peak / WORTH:
                yield more, other, then
                break


def weighed(program: Program) -> Fullness:
    return Scale.of(program).weigh(program.ops)


def part_of(name: str, at: int) -> str:
    return f"{name}{PART}{at}"


def whole_of(name: str) -> str:
    return name.rpartition(PART)[0] or name


def taken_apart(program: Program, counts: dict[str, int]) -> Program | None:
    for name, count in counts.items():
        weights = {tensor for _, tensor in program.gradients}
        parts = [part_of(name, at) for at in range(count)]
        found = split(program, name, count) if name in weights else by_samples(program, name, parts)
        if found is None:
            return None
        program = found
    return program


def split(program: Program, name: str, count: int) -> Program | None:
    """With this gradient in so many parts; None where it cannot be."""
    places = Places.of(program)
    used = places.read.get(name, [])
    if len(used) != 1 or name in program.shown:
        return None
    makers, update = makers_of(program, places, name), program.ops[used[0]]
    moved = {v.tensor for v in update.writes}  # by a part before the next one is made
    if not makers or any(reads_other(program.ops[at], places, at, used[0], moved) for at in makers):
        return None
    last = program.ops[makers[-1]]
    made, result = program.tensors[name], last.writes[0]
    shown = in_shape(update, result) if pointwise_update(update) and result.covers(made) else None
    tiles = [tiles_of(program.ops[at], count) for at in makers]
    if shown is None or any(v != result for v in shown.reads if v.tensor == name) or not alike(tiles):
        return None
    shown, ops, tensors = recording(shown, result), [], dict(program.tensors)
    tensors[name] = replace(made, role=Role.RECORDED)
    for at in range(count):
        names: dict[str, Tensor] = {}  # parts of this place, by the name of the whole
        for maker, parts in zip(makers, tiles, strict=True):
            op, part = program.ops[maker], parts[at]
            whole = op.writes[0].tensor
            tensor = replace(tensors[whole], name=part_of(whole, at), shape=part.writes[0].shape, role=Role.GRADIENT)
            reads = tuple(View.whole(names[v.tensor]) if v.tensor in names else v for v in part.reads)
            tensors[tensor.name] = names[whole] = tensor
            ops.append(replace(op, kind=part.kind, reads=reads, writes=(View.whole(tensor),)))
        ops.append(updated(shown, result, tiles[-1][at].writes[0], names[name]))
    left = [op for at, op in enumerate(program.ops) if at not in makers]
    where = used[0] - len(makers)
    return replace(program, tensors=tensors).with_ops([*left[:where], *ops, *left[where + 1 :]])


def makers_of(program: Program, places: Places, name: str) -> list[int]:
    """The product that makes this tensor; before it those whose sums it goes on with, which nobody else reads."""
    found: list[int] = []
    while True:
        made = places.written.get(name, [])
        op = program.ops[made[0]] if len(made) == 1 else None
        if op is None or not isinstance(op.kind, Leading) or op.kind.accumulate or len(op.writes) != 1:
            return []
        if isinstance(op.kind, Conv) and op.kind.winograd:  # the reference is told which convolutions these are, whole
            return []
        found.insert(0, made[0])
        if not isinstance(op.kind, MatMul) or not op.kind.init:
            return found
        begun, name = op.reads[-1], op.reads[-1].tensor
        alone = places.read[name] == [made[0]] and not program.tensors[name].role.persistent
        if not alone or begun._replace(tensor=op.writes[0].tensor) != op.writes[0]:
            return []


def reads_other(op: Op, places: Places, start: int, stop: int, moved: set[str]) -> bool:
    """Whether what it reads is another then."""
    return places.disturb(op, start, stop) or any(v.tensor in moved for v in op.reads)


def pointwise_update(op: Op) -> bool:
    return op.phase == "update" and isinstance(op.kind, Loop) and not op.kind.reductions


def tiles_of(op: Op, count: int) -> Sequence[Part]:
    """So many tiles of a product, each of all terms, that read least; none where it has no such tiles."""
    assert isinstance(op.kind, Leading)
    found = [t for t in op.kind.ways(op.reads, op.writes) if len(t) == count and all(map(complete, t))]
    return min(found, key=lambda tiles: sum(v.numel for tile in tiles for v in tile.reads), default=())


def alike(tiles: Sequence[Sequence[Part]]) -> bool:
    """Whether products that go on with each other's sums are cut at the same places."""
    windows = {tuple((tile.writes[0].shape, tile.writes[0].offset) for tile in own) for own in tiles}
    return all(tiles) and len(windows) == 1


def complete(tile: Part) -> bool:
    return isinstance(tile.kind, Leading) and not tile.kind.accumulate


def updated(update: Op, whole: View, tile: View, part: Tensor) -> Op:
    """The update of the elements in a tile of the gradient, which lie in a tensor of their own."""
    assert isinstance(update.kind, Loop)
    box = place(tile, whole)
    reads, writes = (tuple(inside(v, box) for v in views) for views in (update.reads, update.writes))
    own = tuple(View.whole(part) if v.tensor == whole.tensor else v for v in reads)
    kind = update.kind.sized(tuple(hi - lo for lo, hi in box))
    return coalesced(replace(update, kind=kind, reads=own, writes=writes))
