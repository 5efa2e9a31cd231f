"""The generated loop: a chain of pointwise instructions, perhaps a reduction, perhaps more instructions behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from trainlib_deployer.formats import CONVERSIONS
from trainlib_deployer.program.cuts import Cuttable, Range, outer_cuts, tapered_boxes
from trainlib_deployer.program.expr import Instr, Reduction
from trainlib_deployer.program.ir import DType, Part, Shape, View

LANES = 4  # elements at a time, of short bodies
MOST_UNROLLED = 8  # instructions; longer bodies keep the float units busy by themselves
CHEAP = frozenset("copy add sub mul fma neg lt le gt ge eq ne and or select max min abs".split())
GROUPS = 9  # of LANES elements, or of one, that a fold adds up without carrying its error: as exact as PyTorch
GRAIN = 32  # elements that a first tile may have a multiple of: of several cores, several at a time
FEW_ROWS = 64  # up to so many rows a team may share badly
FIVE = 5  # rows that tl_add_rows makes at a time
COLUMNS = 64  # not fewer than eight for a core
LONG_ROW = 32  # elements; shorter rows are not cut


def cheap(body: Sequence[Instr]) -> bool:
    """Short enough for several elements at a time, beside what is converted on the way in and out."""
    calculated = [s for s in body if s.op not in CONVERSIONS]
    return len(calculated) <= MOST_UNROLLED and all(s.op in CHEAP for s in calculated)


def blocks_of(groups: int) -> int:
    """In which a fold adds up so many, all about alike."""
    return -(-groups // GROUPS)


def middle_of_rows(rows: int, inner: int) -> bool:
    """Few long rows: each core takes as many elements as the others, from the middle of a row on."""
    return rows < FEW_ROWS and inner >= LONG_ROW


def many_rows(extents: Shape) -> bool:
    """That share an operand which is read once for FIVE of them: each core has columns of all."""
    return len(extents) == 2 and extents[0] >= FIVE and extents[1] >= COLUMNS


@dataclass(frozen=True)
class Loop(Cuttable[tuple[Range, ...]]):
    """Values are numbered: inputs, then `body`, then `reductions`, then `post`.

    Every operand view that is read has the shape `extents`; every view written has `parallel`.
    """

    extents: Shape  # parallel dimensions, then `reduced` ones
    reduced: int
    inputs: tuple[DType, ...]
    body: tuple[Instr, ...]
    reductions: tuple[Reduction, ...]
    post: tuple[Instr, ...]
    results: tuple[int, ...]  # one value per view written
    outputs: tuple[DType, ...]
    terms: int = 0  # multiply-adds an element
    recorded: int = 0  # so many results, the last ones, are for builds that record alone

    @staticmethod
    def pointwise(size: int, inputs: tuple[DType, ...], step: Instr) -> Loop:
        """One instruction for each of so many elements."""
        return Loop((size,), 0, inputs, (step,), (), (), (len(inputs),), (step.dtype,))

    @property
    def at_body(self) -> int:
        """The number of the first value of the body; the inputs come before."""
        return len(self.inputs)

    @property
    def at_reductions(self) -> int:
        return self.at_body + len(self.body)

    @property
    def at_post(self) -> int:
        return self.at_reductions + len(self.reductions)

    @property
    def values(self) -> int:
        return self.at_post + len(self.post)

    def depending(self, inputs: Iterable[int]) -> set[int]:
        """Those of these inputs and of the body's values that are made of them."""
        found = set(inputs)
        for i, step in enumerate(self.body):
            found |= {self.at_body + i} if found & set(step.args) else set()
        return found

    @property
    def kept(self) -> tuple[int, ...]:
        """The results of a build that does not record."""
        return self.results[: len(self.results) - self.recorded]

    def needed(self, wanted: Iterable[int]) -> set[int]:
        """Those of `wanted` that are inputs or made by the body, and what they are made of."""
        found = {value for value in wanted if value < self.at_reductions}
        for i in reversed(range(len(self.body))):
            if self.at_body + i in found:
                found |= {a for a in self.body[i].args if isinstance(a, int)}
        return found

    @property
    def product(self) -> int | None:
        """The sum of products which are of use for nothing else."""
        readers = [a for s in self.body for a in s.args] + [r.value for r in self.reductions]
        for i, r in enumerate(self.reductions):
            made = self.body[r.value - self.at_body].op if r.value >= self.at_body else None
            if (r.op, r.dtype, made) == ("sum", DType.F32, "mul") and readers.count(r.value) == 1:
                return i
        return None

    def moved(self, move: Mapping[int, int]) -> Loop:
        """With other numbers for all values, wherever they are read; the inputs are left to the caller."""
        return replace(
            self,
            body=renumbered(self.body, move),
            reductions=tuple(replace(r, value=move[r.value]) for r in self.reductions),
            post=renumbered(self.post, move),
            results=tuple(move[r] for r in self.results),
        )

    @property
    def name(self) -> str:
        return "reduce" if self.reductions else "map"

    @property
    def parallel(self) -> Shape:
        return self.extents[: len(self.extents) - self.reduced]

    @property
    def folded(self) -> Shape:
        return self.extents[len(self.extents) - self.reduced :]

    def macs(self) -> int:
        return prod(self.extents) * self.terms

    def flops(self) -> int:
        return prod(self.extents) * (len(self.body) + len(self.reductions)) + prod(self.parallel) * len(self.post)

    @property
    def grain(self) -> int:
        return 1 if self.reductions else 4

    @property
    def strided(self) -> bool:
        return True

    @property
    def in_place(self) -> bool:
        return not self.reductions

    def replaceable(self, reads: tuple[View, ...]) -> tuple[View, ...]:
        return reads if self.in_place else ()

    def cuts(self) -> Iterator[list[tuple[Range, ...]]]:
        """Over the parallel dimensions, outermost first: every result is still folded in one piece."""
        return outer_cuts(self.parallel)

    def tapered(self, cuts: Sequence[tuple[Range, ...]]) -> Sequence[tuple[Range, ...]] | None:
        return tapered_boxes(cuts, 1 if self.folded else GRAIN)

    def sized(self, extents: Shape) -> Loop:
        """Over so many elements; most tiles are alike, and share one."""
        if extents not in self.known:
            self.known[extents] = replace(self, extents=extents)
        return self.known[extents]

    @cached_property
    def known(self) -> dict[Shape, Loop]:
        return {}

    def part(self, box: tuple[Range, ...], reads: tuple[View, ...], writes: tuple[View, ...]) -> Part:
        kind = self.sized((*(hi - lo for lo, hi in box), *self.folded))
        return Part(kind, tuple(inside(v, box) for v in reads), tuple(inside(v, box) for v in writes))


def renumbered(instrs: tuple[Instr, ...], move: Mapping[int, int]) -> tuple[Instr, ...]:
    return tuple(replace(s, args=tuple(move[a] if isinstance(a, int) else a for a in s.args)) for s in instrs)


def inside(view: View, box: tuple[Range, ...]) -> View:
    """The window `box` of the first dimensions."""
    tensor, whole, strides, offset = view
    shape = list(whole)
    for at, (lo, hi) in enumerate(box):
        if lo or hi != shape[at]:
            offset += lo * strides[at]
            shape[at] = hi - lo if hi > lo else 0
    extents = tuple(shape)
    return view if extents == whole else View(tensor, extents, strides, offset)
