"""An operation with loops that follow it tile by tile: what it makes is used up in L1 before the next tile comes.

A convolution and the activation behind it, an input gradient and the mask of the layer before, a weight gradient and
the update; or a product that reads a weight and the update that changes the same weight. The planner makes chains
where they save transfers (plan/chains.py); no family knows of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Generic, TypeVar

from trainlib_deployer.program.cuts import Parts, Range
from trainlib_deployer.program.ir import DType, Kind, Leading, Op, Part, Shape, View
from trainlib_deployer.program.linked import Linked
from trainlib_deployer.program.loop import Loop, inside
from trainlib_deployer.program.strides import row_major

T = TypeVar("T")  # a view, or what stands for it
Slot = int  # an operand of a chain: reads count from 0 up, writes from -1 down


@dataclass(frozen=True)
class Follower:
    """A pointwise loop over the elements of one operand of the head, the anchor: as much of it as a tile holds."""

    loop: Loop
    reads: tuple[Slot, ...]
    writes: tuple[Slot, ...]
    anchor: Slot


@dataclass(frozen=True)
class Chain(Linked):
    """Reads: those of the head, then the others. Writes: the head's one, then the others."""

    head: Leading
    inputs: int  # reads of the head
    followers: tuple[Follower, ...]

    name = "chain"

    def macs(self) -> int:
        return self.head.macs() + sum(f.loop.macs() for f in self.followers)

    def scratch(self, cores: int) -> int:
        return self.head.scratch(cores)

    @property
    def in_place(self) -> bool:
        return True

    def ways(self, reads: tuple[View, ...], writes: tuple[View, ...]) -> Iterator[Sequence[Part]]:
        """As those of the head; what several of them have is one object."""
        made, kinds = dict[tuple[int, bool], tuple[Part, Part]](), dict[object, Chain]()

        def tile(tiles: Sequence[Part], at: int) -> Part:
            """Where a result adds up over tiles, the last of them makes it final."""
            first, final = tiles[at], at + 1 == len(tiles) or not leading(tiles[at + 1].kind).accumulate
            key = id(first), final
            if key not in made:  # beside it the head's, which keeps its identity
                made[key] = first, self.tile(first, final, reads, writes, kinds)
            return made[key][1]

        for tiles in self.head.ways(reads[: self.inputs], writes[:1]):
            yield Parts(len(tiles), partial(tile, tiles))

    def tile(
        self, first: Part, final: bool, reads: tuple[View, ...], writes: tuple[View, ...], kinds: dict[object, Chain]
    ) -> Part:
        """A tile of the head with what follows it, if that is all of it."""
        views = Operands(list(first.reads) + list(reads[self.inputs :]), list(first.writes) + list(writes[1:]))
        whole = Operands(list(reads), list(writes))
        extents = []
        for f in self.followers:
            box = place(views[f.anchor], whole[f.anchor])
            for slot in (*f.reads, *f.writes):
                if slot != -1 and slot not in range(self.inputs):  # not the head's
                    views[slot] = inside(whole[slot], box)
            extents.append(tuple(hi - lo for lo, hi in box))
        head = leading(first.kind)
        key = id(head), tuple(extents), final
        if key not in kinds:
            kinds[key] = self.resized(head, extents, final)
        return Part(kinds[key], tuple(views.reads), tuple(views.writes))

    def resized(self, head: Leading, extents: Sequence[Shape], final: bool) -> Chain:
        followers = (
            replace(f, loop=f.loop.sized(e))
            for f, e in zip(self.followers, extents, strict=True)
            if final or f.anchor >= 0
        )
        return replace(self, head=head, followers=tuple(followers))

    def made_by(self, read: int) -> int | None:
        return None  # what follows the head reads its result as that

    def over(self, write: int) -> dict[int, Sequence[int]]:
        using = [f for f in self.followers if -1 in f.reads]
        return {~w: () for w in using[0].writes} if len(using) == 1 and not write else {}

    def links(
        self, reads: Sequence[T], writes: Sequence[T]
    ) -> list[tuple[Leading | Loop, tuple[T, ...], tuple[T, ...]]]:
        """What is done, one after the other, each with its own of the operands given."""
        operands = Operands(list(reads), list(writes))
        found: list[tuple[Leading | Loop, tuple[T, ...], tuple[T, ...]]] = [
            (self.head, tuple(reads[: self.inputs]), tuple(writes[:1]))
        ]
        for f in self.followers:
            found.append((f.loop, tuple(operands[s] for s in f.reads), tuple(operands[s] for s in f.writes)))
        return found


@dataclass(frozen=True)
class Operands(Generic[T]):
    """Operands by slot."""

    reads: list[T]
    writes: list[T]

    def __getitem__(self, slot: Slot) -> T:
        return self.reads[slot] if slot >= 0 else self.writes[~slot]

    def __setitem__(self, slot: Slot, value: T) -> None:
        if slot >= 0:
            self.reads[slot] = value
        else:
            self.writes[~slot] = value


def place(tile: View, whole: View) -> tuple[Range, ...]:
    """Where a tile lies in a dense operand."""
    rest, box = tile.offset - whole.offset, []
    for extent, own, step in zip(tile.shape, whole.shape, row_major(whole.shape), strict=True):
        lo = rest // step if own > 1 else 0
        rest -= lo * step if own > 1 else 0
        box.append((lo, lo + extent))
    return tuple(box)


def leading(kind: Kind) -> Leading:
    assert isinstance(kind, Leading)
    return kind


def chain_of(op: Op) -> Chain:
    """An operation as a chain to which loops can be added."""
    return op.kind if isinstance(op.kind, Chain) else Chain(leading(op.kind), len(op.reads), ())


def followed(op: Op, follower: Op, anchor: Slot) -> Op:
    """`op`, and behind each of its tiles the same tile of a loop, whose operands have the shape of the anchor."""
    chain, loop = chain_of(op), follower.kind
    assert isinstance(loop, Loop)
    known = Operands(list(op.reads), list(op.writes))

    def slot_of(view: View, written: bool) -> Slot:
        side = known.writes if written else known.reads
        if not written and anchor == -1 and view.tensor == op.writes[0].tensor:
            return -1
        side.append(view)
        return ~(len(side) - 1) if written else len(side) - 1

    reads = tuple(slot_of(v, False) for v in follower.reads)
    writes = tuple(slot_of(v, True) for v in follower.writes)
    added = Follower(loop, reads, writes, anchor)
    return replace(
        op,
        kind=replace(chain, followers=(*chain.followers, added)),
        reads=tuple(known.reads),
        writes=tuple(known.writes),
        function=f"{op.function} + {follower.function}" if follower.function != op.function else op.function,
        fused=tuple(dict.fromkeys((*(op.fused or (op.name,)), *(follower.fused or (follower.name,))))),
    )


def in_shape(follower: Op, anchor: View) -> Op | None:
    """The loop over the dimensions of the anchor; None where its elements come in another order."""
    loop = follower.kind
    assert isinstance(loop, Loop)
    if prod(loop.extents) != anchor.numel or loop.reduced:
        return None
    shown = [v.reshaped(anchor.shape) for v in (*follower.reads, *follower.writes)]
    if any(v is None for v in shown):
        return None
    views = tuple(anchor if is_same(v, anchor) else v for v in shown if v is not None)
    count = len(follower.reads)
    kind = replace(loop, extents=anchor.shape)
    return replace(follower, kind=kind, reads=views[:count], writes=views[count:])


def is_same(view: View, other: View) -> bool:
    """The same elements in the same order; a dimension of one element may step anyhow."""
    steps = (e == 1 or s == t for e, s, t in zip(view.shape, view.strides, other.strides, strict=True))
    return view._replace(strides=other.strides) == other and all(steps)


def recording(follower: Op, gradient: View) -> Op:
    """The loop also stores the gradient that it reads, in builds that record."""
    loop = follower.kind
    assert isinstance(loop, Loop)
    value = follower.reads.index(gradient)
    kind = replace(loop, results=(*loop.results, value), outputs=(*loop.outputs, DType.F32), recorded=loop.recorded + 1)
    return replace(follower, kind=kind, writes=(*follower.writes, gradient))
