"""Fuse chains of pointwise operations, and the reductions at their ends, into one loop each.

A producer joins the first loop that reads it when both run over the same elements in the same order. If others read its
result too, the joint loop still writes it; otherwise the tensor disappears. The arithmetic and so the bits stay
as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from trainlib_deployer.passes.outer_products import as_loop
from trainlib_deployer.program.ir import Op, Program, Shape, View
from trainlib_deployer.program.loop import Loop, renumbered
from trainlib_deployer.program.places import Places

MOST_INSTRUCTIONS = 40
MOST_INPUTS = 10
MOST_TERMS = 3  # of a sum, where it has to wait for them: each is in memory until the last one is made


def fuse_loops(program: Program) -> Program:
    ops: list[Op | None] = list(program.ops)
    places = Places.of(program)
    wanted = {*program.shown, *(t for _, t in program.gradients)}
    for at in range(len(ops)):
        changed = True
        while changed:
            changed = False
            consumer = ops[at]
            if consumer is None or not isinstance(consumer.kind, Loop):
                break
            for name in dict.fromkeys(v.tensor for v in consumer.reads):
                made = places.written.get(name, [])
                if len(made) != 1 or program.tensors[name].role.persistent:
                    continue
                producer = ops[made[0]]
                readers_of = places.read[name]
                if producer is None or producer is consumer or readers_of[0] != at:
                    continue
                keep = len(readers_of) > 1 or name in wanted
                joint = fused(producer if keep else as_loop(producer), consumer, keep, program.tensors[name].numel)
                if (
                    joint is None
                    or places.disturb(producer, made[0], at)
                    or waits(joint, consumer, places, made[0], at)
                ):
                    continue
                ops[made[0]], ops[at] = None, joint
                places.move(producer, made[0], at)
                places.reads_no_more(name, at)
                changed = True
                break
    return program.with_ops([op for op in ops if op is not None])


def waits(joint: Op, consumer: Op, places: Places, first: int, at: int) -> bool:
    """A sum of many terms, or in the backward pass one with what is itself a sum over more, of which some are made
    after the first ones could have been added up."""
    kind = joint.kind
    if not isinstance(kind, Loop) or any(s.op != "add" for s in kind.body):
        return False
    late = consumer.phase == "backward" and kind.reductions and kind.post
    if len(kind.inputs) <= MOST_TERMS and not late:
        return False
    made = (w for v in consumer.reads for w in places.written.get(v.tensor, []))
    return any(first < w < at for w in made)


def fused(producer: Op, consumer: Op, keep: bool, numel: int) -> Op | None:
    p, c = producer.kind, consumer.kind
    if not isinstance(p, Loop) or not isinstance(c, Loop) or producer.phase != consumer.phase:
        return None
    if len(producer.writes) != 1 or not producer.writes[0].contiguous or producer.writes[0].offset:
        return None
    if len(p.body) + len(c.body) + len(p.post) + len(c.post) > MOST_INSTRUCTIONS:
        return None
    if len(p.inputs) + len(c.inputs) - 1 > MOST_INPUTS:
        return None
    name = producer.writes[0].tensor
    taken = [i for i, v in enumerate(consumer.reads) if v.tensor == name]
    if not p.inputs and not p.reductions and not keep:
        joint = Joint.of_constant(producer, consumer, taken)
    elif prod(p.parallel) != numel:
        return None
    elif p.reductions:
        joint = Joint.behind_reduction(producer, consumer, taken, keep)
    else:
        joint = Joint.before(producer, consumer, taken, keep)
    if joint is None or not joint.in_place:
        return None
    names = (*(producer.fused or (producer.name,)), *(consumer.fused or (consumer.name,)))
    main = consumer if not p.reductions else producer
    return replace(
        main,
        kind=joint.kind,
        reads=joint.reads,
        writes=joint.writes,
        fused=tuple(dict.fromkeys(names)),
        name=consumer.name,
    )


@dataclass(frozen=True)
class Joint:
    """The parts of a fused operation."""

    kind: Loop
    reads: tuple[View, ...]
    writes: tuple[View, ...]

    @property
    def in_place(self) -> bool:
        """Of a tensor that is written, as a weight is by its update, each element is read where it is written alone."""
        written = {v.tensor: v for v in self.writes}
        return all(written.get(v.tensor, v) == v for v in self.reads)

    @staticmethod
    def of_constant(producer: Op, consumer: Op, taken: list[int]) -> Joint | None:
        """A filled tensor: its value moves into the body, however it is viewed."""
        p, c = loops(producer, consumer)
        return join_bodies(p, c, (), consumer.reads, consumer.writes, taken, c.extents, c.reduced, None)

    @staticmethod
    def before(producer: Op, consumer: Op, taken: list[int], keep: bool) -> Joint | None:
        """A pointwise producer runs inside the consumer's loop."""
        p, c = loops(producer, consumer)
        if not all(consumer.reads[i].contiguous and consumer.reads[i].offset == 0 for i in taken):
            return None
        if prod(c.extents) != prod(p.extents) or (keep and c.reductions):
            return None
        outer = refined(c.parallel, c.folded, p.extents)
        if outer is None:
            return None
        parallel, folded = outer
        extents = parallel + folded
        mine = reshaped(producer.reads, extents)
        theirs = reshaped(consumer.reads, extents)
        written = reshaped(consumer.writes, parallel)
        kept = reshaped(producer.writes, parallel) if keep else ()
        if mine is None or theirs is None or written is None or kept is None:
            return None
        return join_bodies(p, c, mine, theirs, (*written, *kept), taken, extents, len(folded), p if keep else None)

    @staticmethod
    def behind_reduction(producer: Op, consumer: Op, taken: list[int], keep: bool) -> Joint | None:
        """A pointwise consumer of a reduction's results runs behind it."""
        p, c = loops(producer, consumer)
        if c.reductions or keep or prod(c.extents) != prod(p.parallel):
            return None
        if not all(consumer.reads[i].contiguous and consumer.reads[i].offset == 0 for i in taken):
            return None
        outer = refined(p.parallel, (), c.extents)
        if outer is None:
            return None
        parallel = outer[0]
        mine = reshaped(producer.reads, parallel + p.folded)
        theirs = reshaped([v for i, v in enumerate(consumer.reads) if i not in taken], parallel)
        written = reshaped(consumer.writes, parallel)
        if mine is None or theirs is None or written is None:
            return None
        rank = (0,) * p.reduced
        theirs = tuple(View(v.tensor, parallel + p.folded, v.strides + rank, v.offset) for v in theirs)
        return join_post(p, c, mine, theirs, written, taken, parallel + p.folded)


def loops(producer: Op, consumer: Op) -> tuple[Loop, Loop]:
    assert isinstance(producer.kind, Loop) and isinstance(consumer.kind, Loop)
    return producer.kind, consumer.kind


def reshaped(views: tuple[View, ...] | list[View], shape: Shape) -> tuple[View, ...] | None:
    shown = [v.reshaped(shape) for v in views]
    return tuple(v for v in shown if v is not None) if all(v is not None for v in shown) else None


def refined(parallel: Shape, folded: Shape, other: Shape) -> tuple[Shape, Shape] | None:
    """Split parallel and folded dimensions so that `other`'s boundaries are among theirs."""
    own = cuts(parallel + folded)
    border = prod(folded)
    points = sorted(own | cuts(other) | {border}, reverse=True)
    extents = []
    for high, low in pairwise(points):
        if low == 0 or high % low:
            return None
        extents.append((high // low, low))
    return tuple(e for e, low in extents if low >= border), tuple(e for e, low in extents if low < border)


def cuts(shape: Shape) -> set[int]:
    """Sizes of all trailing blocks: where one dimension ends and the next begins in flat order."""
    out, size = {1}, 1
    for extent in reversed(shape):
        size *= extent
        out.add(size)
    return out


def join_bodies(
    p: Loop,
    c: Loop,
    mine: tuple[View, ...],
    theirs: tuple[View, ...],
    written: tuple[View, ...],
    taken: list[int],
    extents: Shape,
    reduced: int,
    kept: Loop | None,
) -> Joint:
    """p's body, then c's with the inputs `taken` replaced by p's result."""
    others = [i for i in range(len(c.inputs)) if i not in taken]
    reads, slot = unique_views([*mine, *(theirs[i] for i in others)])
    inputs_p, inputs_c = slot[: len(mine)], slot[len(mine) :]
    dtypes = dict(zip(slot, [*p.inputs, *(c.inputs[i] for i in others)], strict=True))
    n = len(reads)
    move_p = {i: inputs_p[i] for i in range(len(p.inputs))}
    move_p |= {p.at_body + i: n + i for i in range(len(p.body))}
    result = move_p[p.results[0]]
    move_c = dict(zip(others, inputs_c, strict=True)) | dict.fromkeys(taken, result)
    shift = n + len(p.body) - c.at_body
    move_c |= {i: i + shift for i in range(c.at_body, c.values)}
    behind = c.moved(move_c)
    kind = replace(
        behind,
        extents=extents,
        reduced=reduced,
        inputs=tuple(dtypes[i] for i in range(n)),
        body=(*renumbered(p.body, move_p), *behind.body),
        results=(*behind.results, *((result,) if kept else ())),
        outputs=(*c.outputs, *(kept.outputs if kept else ())),
        terms=p.terms + c.terms,
        recorded=0,
    )
    return Joint(kind, reads, written)


def join_post(
    p: Loop,
    c: Loop,
    mine: tuple[View, ...],
    theirs: tuple[View, ...],
    written: tuple[View, ...],
    taken: list[int],
    extents: Shape,
) -> Joint:
    """p whole, then c's body on its result."""
    others = [i for i in range(len(c.inputs)) if i not in taken]
    move_p = {i: i if i < p.at_body else i + len(others) for i in range(p.values)}
    first = p.moved(move_p)
    move_c = {i: p.at_body + k for k, i in enumerate(others)} | dict.fromkeys(taken, first.results[0])
    move_c |= {c.at_body + i: p.values + len(others) + i for i in range(len(c.body))}
    kind = replace(
        first,
        extents=extents,
        inputs=(*p.inputs, *(c.inputs[i] for i in others)),
        post=(*first.post, *renumbered(c.body, move_c)),
        results=tuple(move_c[r] for r in c.results),
        outputs=c.outputs,
        terms=0,
        recorded=0,
    )
    return Joint(kind, (*mine, *theirs), written)


def unique_views(views: list[View]) -> tuple[tuple[View, ...], list[int]]:
    """Views without repetition, and where each one went."""
    order: dict[View, int] = {}
    slots = [order.setdefault(v, len(order)) for v in views]
    return tuple(order), slots
