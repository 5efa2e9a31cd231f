"""The reduced dimensions of a generated loop. Sums go through blocks, in an order that follows from the shape alone.

A block has about 32 elements. Short bodies take four at a time: products are added by one operation to a sum for each
of the four, others as a tree to the block. The blocks' sums are added with the rounding error carried along, so the
error grows with the length of a block and not of the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from trainlib_deployer.emit.loop_text import Name, Text, constant, instruction, times, value_dtype
from trainlib_deployer.emit.rows import at_even_places, value, where_there_are
from trainlib_deployer.emit.xpulp import LOADS, Statement
from trainlib_deployer.emit.xpulp_body import body_of
from trainlib_deployer.program.expr import C_WRAPPING, Const, Instr
from trainlib_deployer.program.ir import DType, Shape, View
from trainlib_deployer.program.loop import LANES, Loop, blocks_of, cheap

START = {
    ("sum", DType.F32): "0.0f",
    ("sum", DType.I32): "0",
    ("prod", DType.F32): "1.0f",
    ("prod", DType.I32): "1",
    ("max", DType.F32): "-__builtin_inff()",
    ("min", DType.F32): "__builtin_inff()",
    ("max", DType.I32): "INT32_MIN",
    ("min", DType.I32): "INT32_MAX",
    ("max", DType.U8): "0",
    ("min", DType.U8): "1",
}
FOLD_FLOAT = {
    "sum": "{0} + {1}",
    "prod": "{0} * {1}",
    "max": "tl_larger_yetf({0}, {1})",
    "min": "tl_smaller_yetf({0}, {1})",
}
FOLD_INTEGER = {
    "sum": C_WRAPPING["add"],
    "prod": C_WRAPPING["mul"],
    "max": "{0} > {1} ? {0} : {1}",
    "min": "{0} < {1} ? {0} : {1}",
}


@dataclass(frozen=True)
class Fold:
    """What one loop folds: of each input the strides along the reduced dimensions."""

    kind: Loop
    used: frozenset[int]  # inputs and values of the body that the reductions need
    strides: dict[int, Shape]
    even: frozenset[str] = frozenset()  # pointers to rows that begin at even places

    @property
    def extents(self) -> Shape:
        return self.kind.folded or (1,)

    @property
    def base(self) -> int:
        """The number of the first reduction's result."""
        return self.kind.at_reductions

    @property
    def summed(self) -> list[int]:
        """The reductions whose rounding errors add up."""
        return [i for i, r in enumerate(self.kind.reductions) if r.op == "sum" and r.dtype is DType.F32]

    @property
    def lanes(self) -> int:
        body = [s for i, s in enumerate(self.kind.body) if len(self.kind.inputs) + i in self.used]
        return LANES if cheap(body) else 1

    @property
    def product(self) -> int | None:
        """The sum of products: a chain of multiply-adds for each lane."""
        return self.kind.product if self.lanes > 1 else None

    @property
    def groups(self) -> int:
        """Of lanes in a block of the last dimension."""
        groups = self.extents[-1] // self.lanes
        return -(-groups // max(blocks_of(groups), 1))

    @property
    def compensated(self) -> bool:
        """More than two blocks."""
        whole, groups = self.whole(), self.extents[-1] // self.lanes
        rows = prod(self.extents[: min(whole, len(self.extents) - 1)])
        return rows * (blocks_of(groups) if whole == len(self.extents) else 1) > 2

    @property
    def blocked(self) -> bool:
        """More than one block."""
        return bool(self.summed) and self.whole() > 0

    def whole(self) -> int:
        """The first dimension from which on all elements are one block; if there is none, the number of dimensions."""
        fits = (d for d in range(len(self.extents)) if blocks_of(-(-prod(self.extents[d:]) // self.lanes)) <= 1)
        return next(fits, len(self.extents))

    def total(self, i: int) -> str:
        """What is added up: the sum of a block, or the whole."""
        return f"block{i}" if self.blocked else f"v{self.base + i}"

    def chains(self, i: int) -> list[str]:
        """The sums of the lanes."""
        return [f"lane{k}" for k in range(self.lanes)] if i == self.product else []


def fold(t: Text, kind: Loop, reads: tuple[View, ...], used: set[int]) -> None:
    """Nested loops over the reduced dimensions."""
    rank = len(kind.parallel)
    strides = {i: v.strides[rank:] for i, v in enumerate(reads) if i in used}
    even = frozenset(f"a{i}" for i in strides if at_even_places(reads[i]))
    f = Fold(kind, frozenset(used), strides, even)
    for i, r in enumerate(kind.reductions):
        if f.blocked or i != f.product:
            t.add(f"{r.dtype.c_name} v{f.base + i} = {START[(r.op, r.dtype)]};")
    if not f.blocked:
        started(t, f, ())
        nest(t, f, 0)
        ended(t, f)
        return
    if f.compensated:
        for i in f.summed:
            t.add(f"float plain{i} = 0.0f, lost{i} = 0.0f;")
    outer = min(f.whole(), len(f.extents) - 1)
    for d in range(outer):
        t.open(f"for (int k{d} = 0; k{d} < {f.extents[d]}; k{d}++) {{")
        t.lines += [where_there_are(f.kind), f"TL_ONE_BLOCK(k{d})", "#else", "#endif"]  # both sides: image/words.py
    if f.whole() < len(f.extents):
        started(t, f, f.summed)
        nest(t, f, outer)
        added(t, f)
    else:
        blocks(t, f)
    for _ in range(outer):
        t.close()
    if f.compensated:
        for i in f.summed:
            t.add(f"v{f.base + i} = lost{i} == lost{i} ? v{f.base + i} : plain{i};")


def nest(t: Text, f: Fold, first: int) -> None:
    """All elements from dimension `first` on."""
    last = len(f.extents) - 1
    for d in range(first, last):
        t.open(f"for (int k{d} = 0; k{d} < {f.extents[d]}; k{d}++) {{")
    row(t, f, "0", f.extents[last])
    for _ in range(first, last):
        t.close()


def blocks(t: Text, f: Fold) -> None:
    """The last dimension in blocks, the first of which begins with what is left behind the last group of lanes. By
    PULP's own instructions more than two blocks share one's code: compilers would write it again for each."""
    extent, rest = f.extents[-1], f.extents[-1] % f.lanes
    even, groups = extent - rest, f.groups
    block = groups * f.lanes
    count = "now" if even % block else str(groups)
    many = even > 2 * block or (even > block and len(f.extents) > 1)
    by_hand = whole_groups(f, "0", count) if many else None
    started(t, f, f.summed)
    if rest:
        t.open("{")
        group(t, f, str(even), rest)
        t.close()
    if by_hand:
        t.lines.append(where_there_are(f.kind))
        for line in (*by_hand.pointers, f"int left = {even // f.lanes};", f"for (; left > 0; left -= {groups}) {{"):
            t.add(line)
        t.add("    TL_ONE_BLOCK(left)")
        if even % block:
            t.add(f"    const int now = left < {groups} ? left : {groups};")
        t.lines.append("#else")
    t.open(f"for (int b = 0; b < {even}; b += {block}) {{")
    end = f"b + {block}"
    if even % block:
        t.add(f"const int end = {end} < {even} ? {end} : {even};")
        end = "end"
    if by_hand:
        t.lines.append("#endif")
    row(t, f, "b", end, by_hand.lines if by_hand else [])
    added(t, f)
    for i in f.summed:
        t.add(" = ".join((*f.chains(i), *([] if f.chains(i) else [f.total(i)]), "0.0f;")))
    t.close()


def started(t: Text, f: Fold, totals: Sequence[int]) -> None:
    """Nothing is added up yet: in the blocks of these sums, and in the lanes of products."""
    for i in totals:
        if i != f.product:
            t.add(f"float {f.total(i)} = 0.0f;")
    if f.product is not None:
        t.add(f"float {', '.join(f'{lane} = 0.0f' for lane in f.chains(f.product))};")


def ended(t: Text, f: Fold) -> None:
    """The lanes of products as one."""
    if f.product is not None:
        t.add(f"const float {f.total(f.product)} = {tree(f.chains(f.product))};")


def added(t: Text, f: Fold) -> None:
    """A block to the totals, whose rounding errors are carried in `lost`; `plain` serves where infinities make that
    NaN. The sum of two blocks is rounded once."""
    ended(t, f)
    for i in f.summed:
        total = f"v{f.base + i}"
        if not f.compensated:
            t.add(f"{total} += block{i};")
            continue
        t.add(f"const float term{i} = block{i} - lost{i}, next{i} = {total} + term{i};")
        t.add(f"lost{i} = next{i} - {total} - term{i};")
        t.add(f"{total} = next{i};")
        t.add(f"plain{i} += block{i};")


def row(t: Text, f: Fold, begin: str, end: int | str, going_on: Sequence[str] = ()) -> None:
    """Elements of the last dimension; where `end` is no number, there are only whole groups. `going_on`: these by
    PULP's own instructions, from where those before have ended."""
    k = f"k{len(f.extents) - 1}"
    rest = end % f.lanes if isinstance(end, int) else 0
    even = end - rest if isinstance(end, int) else end
    if even or not rest:  # also where there is no element
        step = f"{k} += {f.lanes}" if f.lanes > 1 else f"{k}++"
        by_hand = going_on or whole_row(f, begin, str(even))
        if by_hand:
            t.lines.append(where_there_are(f.kind))
            t.open("{")
            for line in by_hand:
                t.add(line)
            t.close()
            t.lines.append("#else")
        t.open(f"for (int {k} = {begin}; {k} < {even}; {step}) {{")
        group(t, f, k, f.lanes)
        t.close()
        if by_hand:
            t.lines.append("#endif")
    if rest:
        t.open("{")
        group(t, f, str(even), rest)
        t.close()


@dataclass(frozen=True)
class ByHand:
    """Groups by PULP's own instructions, and the pointers that these move on."""

    pointers: list[str]
    lines: list[str]


def whole_row(f: Fold, begin: str, end: str) -> list[str]:
    found = whole_groups(f, begin, f"({end} - {begin}) / {LANES}") if end != "0" else None
    return [*found.pointers, *found.lines] if found else []


def whole_groups(f: Fold, begin: str, count: str) -> ByHand | None:
    """So many, if there are such instructions."""
    kind, first = f.kind, f.kind.at_body
    strides = {i: s[-1] for i, s in f.strides.items() if s and s[-1]}
    dense = all(s == 1 and kind.inputs[i] in LOADS for i, s in strides.items())
    if f.lanes < LANES or not dense or len(f.summed) < len(kind.reductions):
        return None
    moving, types = kind.depending(strides), partial(value_dtype, kind)
    instrs = [(first + i, s) for i, s in enumerate(kind.body) if first + i in f.used]
    body = body_of([(i, s) for i, s in instrs if i in moving], moving, types)
    if body is None or not {r.value for r in kind.reductions} <= moving:
        return None
    sums = [(r.value, f.total(i)) for i, r in enumerate(kind.reductions) if i != f.product]
    products = [] if f.product is None else [(kind.reductions[f.product].value, f.chains(f.product))]
    loads = {i: f"a{i}" for i in sorted(strides)}
    found = Statement(loads, body, (), sums, types, f.even, products=products).text(count, LANES)
    if found is None:
        return None
    still = [i for i in sorted(f.strides) if i not in strides]
    lines = [f"const {kind.inputs[i].c_name} v{i} = p{i}[{place(f, i, begin, 0)}];" for i in still]
    lines += [instruction(kind, s, i, "v{}".format) for i, s in instrs if i not in moving]
    pointers = [f"const {kind.inputs[i].c_name} *a{i} = p{i} + {place(f, i, begin, 0)};" for i in loads]
    return ByHand(pointers, [*lines, *found])


def group(t: Text, f: Fold, at: str, lanes: int) -> None:
    """`lanes` neighbours from `at` on: each a statement behind the one before, then folded."""
    kind, first = f.kind, len(f.kind.inputs)
    moving = {i for i, s in f.strides.items() if s and s[-1]}
    own = moving | set(range(first, f.base))
    names = [partial(value, lane, own) if lanes > 1 else "v{}".format for lane in range(lanes)]
    for i in f.strides:
        if i not in moving:
            t.add(f"const {kind.inputs[i].c_name} v{i} = p{i}[{place(f, i, at, 0)}];")
    multiplied = None if f.product is None else kind.reductions[f.product].value
    work = []
    for lane, name in enumerate(names):
        found = [f"const {kind.inputs[i].c_name} {name(i)} = p{i}[{place(f, i, at, lane)}];" for i in sorted(moving)]
        steps = [
            one_more(s, f"lane{lane}", name) if first + i == multiplied else instruction(kind, s, first + i, name)
            for i, s in enumerate(kind.body)
            if first + i in f.used
        ]
        work.append(found + steps)
    t.add_staggered(work)
    for i, r in enumerate(kind.reductions):
        target = f.total(i) if i in f.summed else f"v{f.base + i}"
        if i == f.product:
            continue
        if i in f.summed:
            t.add(f"{target} += {tree([name(r.value) for name in names])};")
            continue
        table = FOLD_FLOAT if r.dtype is DType.F32 else FOLD_INTEGER
        for name in names:
            t.add(f"{target} = {table[r.op].format(target, name(r.value))};")


def one_more(s: Instr, lane: str, name: Name) -> str:
    """A product, added to the sum of its lane."""
    factors = [constant(a.value, s.dtype) if isinstance(a, Const) else name(a) for a in s.args]
    return f"{lane} = __builtin_fmaf({', '.join(factors)}, {lane});"


def place(f: Fold, i: int, at: str, lane: int) -> str:
    """Where input i has the element `lane` behind `at` in the last dimension."""
    strides = f.strides[i]
    terms = [
        times(f"k{d}", s) for d, (s, e) in enumerate(zip(strides[:-1], f.extents[:-1], strict=True)) if s and e > 1
    ]
    if strides and strides[-1]:
        step = strides[-1]
        if at.isdigit():
            terms.append(str((int(at) + lane) * step))
        else:
            terms += [times(at, step), *([str(lane * step)] if lane else [])]
    return " + ".join(x for x in terms if x != "0") or "0"


def tree(names: list[str]) -> str:
    """A sum as a tree."""
    if len(names) == 1:
        return names[0]
    half = (len(names) + 1) // 2
    left, right = tree(names[:half]), tree(names[half:])
    return " + ".join(f"({x})" if " " in x else x for x in (left, right))
