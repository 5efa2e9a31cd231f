"""The innermost dimension of a generated loop, one element or four at a time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from trainlib_deployer.emit.loop_text import (
    Name,
    Text,
    instruction,
    instructions,
    loads,
    of_record,
    times,
    value_dtype,
)
from trainlib_deployer.emit.xpulp import LOADS, Statement
from trainlib_deployer.emit.xpulp_body import body_of
from trainlib_deployer.program.expr import Instr
from trainlib_deployer.program.ir import DType, View
from trainlib_deployer.program.loop import LANES, Loop, cheap

MOST_STREAMS = 4  # operands: their values share the registers


@dataclass(frozen=True)
class Pointer:
    """Where an operand's row begins, and the elements from one of its values to the next."""

    name: str
    stride: int = 1
    even: bool = False  # rows begin at even places

    def at(self, lane: int) -> str:
        ahead = f" + {lane * self.stride}" if lane and self.stride else ""
        return f"{self.name}[{times('i', self.stride)}{ahead}]"


@dataclass(frozen=True)
class Row:
    """Elements begin to end - 1."""

    begin: str
    end: str
    reads: dict[int, Pointer]  # by the number of the input
    writes: list[Pointer]
    some: bool = False  # there is one at least
    even: bool = False  # begin and end are multiples of LANES

    @property
    def count(self) -> int | None:
        """How many, where that is known."""
        return int(self.end) if self.begin == "0" else None

    @property
    def elements(self) -> str:
        """How many."""
        return self.end if self.begin == "0" else f"{self.end} - {self.begin}"

    def first(self, pointer: Pointer) -> str:
        """Where the first one is."""
        return pointer.name if self.begin == "0" else f"{pointer.name} + {self.begin}"

    @property
    def fours(self) -> bool:
        """Nothing is left behind the last four."""
        return self.even if self.count is None else self.count % LANES == 0


def innermost(t: Text, kind: Loop, row: Row) -> None:
    """Short bodies take four elements at a time: all are read before the first is written, so that none waits for
    another."""
    body = moving_body(kind, row)
    own = {i for i, _ in body}
    instructions(t, kind, kind.body, kind.at_body, {*range(kind.at_body, kind.at_reductions)} - own)
    if not unrolls(kind, row):
        one_by_one(t, kind, row)
        return
    t.add(f"int i = {row.begin};")
    by_hand = whole_fours(kind, row)
    if by_hand:
        t.lines.append(where_there_are(kind))
        for line in by_hand:
            t.add(line)
        t.lines.append("#else")
    t.open(f"for (; i < {row.end} - {LANES - 1}; i += {LANES}) {{")
    elements(t, kind, row, LANES)
    t.close()
    if by_hand:
        t.lines.append("#endif")
    if not row.fours:
        t.open(f"for (; i < {row.end}; i++) {{")
        elements(t, kind, row, 1)
        t.close()


def where_there_are(kind: Loop) -> str:
    """The instructions by which a row is done: only some cores convert halves."""
    return f"#ifdef {'TL_ROW_OF_HALVES' if DType.F16 in (*kind.inputs, *kind.outputs) else 'TL_ROW_BEGIN'}"


def moving_body(kind: Loop, row: Row) -> list[tuple[int, Instr]]:
    """What is made anew for each element, by the numbers of the values."""
    moving = kind.depending(row.reads)
    return [(kind.at_body + i, s) for i, s in enumerate(kind.body) if kind.at_body + i in moving]


def whole_fours(kind: Loop, row: Row) -> list[str]:
    """The same by PULP's own instructions, if there are such; i then is behind them."""
    if not moves_on(kind, row, LOADS):
        return []
    moving, types = kind.depending(row.reads), partial(value_dtype, kind)
    body = body_of(moving_body(kind, row), moving, types, asks=True)
    if body is None or not {*kind.results} <= moving:
        return []
    stores = [(r, f"b{i}") for i, r in enumerate(kind.results)]
    even = {f"a{i}" for i, p in row.reads.items() if p.even} | {f"b{i}" for i, p in enumerate(row.writes) if p.even}
    statement = Statement({i: f"a{i}" for i in row.reads}, body, stores, (), types, even)
    fours = str(row.count // LANES) if row.count is not None else f"({row.end} - {row.begin}) / {LANES}u"
    tried = ((lanes, statement.text(f"{LANES // lanes} * fours", lanes)) for lanes in (LANES, LANES // 2))
    found = next((lines for _, lines in tried if lines is not None), None)
    if found is None:
        return []
    moved = [f"const {kind.inputs[i].c_name} *a{i} = {p.name} + i;" for i, p in row.reads.items()]
    moved += [f"{kind.outputs[i].c_name} *b{i} = {p.name} + i;" for i, p in enumerate(row.writes)]
    counted = f"const int fours = {fours};"
    if body.finite is not None:
        return [counted, *where_finite(kind, row, body.finite, [*moved, *found, f"i += {LANES} * fours;"])]
    if row.some and row.fours:
        return [counted, *moved, *found]
    inner = [f"    {line}" for line in (*moved, *found)]
    return [counted, "if (fours > 0) {", *inner, "}", *([] if row.fours else [f"i += {LANES} * fours;"])]


def where_finite(kind: Loop, row: Row, witness: str, by_hand: list[str]) -> list[str]:
    """A row that may have NaNs goes element by element, as what is left behind the last four does."""
    t = Text()
    t.open(f"if ({'' if row.some else 'fours > 0 && '}tl_isfinitef({witness})) {{")
    for line in by_hand:
        t.add(line)
    t.close()
    if row.fours:
        t.open(f"for (; i < {row.end}; i++) {{")
        elements(t, kind, row, 1)
        t.close()
    return t.lines


def at_even_places(view: View) -> bool:
    """Whether each row begins at one."""
    outer = zip(view.strides[:-1], view.shape[:-1], strict=True)
    return view.offset % 2 == 0 and all(stride % 2 == 0 or extent == 1 for stride, extent in outer)


def one_by_one(t: Text, kind: Loop, row: Row) -> None:
    """Where all are dense rows of floats, loads and stores move their pointers on."""
    if not moves_on(kind, row, {DType.F32}):
        t.open(f"for (int i = {row.begin}; i < {row.end}; i++) {{")
        elements(t, kind, row, 1)
        t.close()
        return
    for i, pointer in row.reads.items():
        t.add(f"const float *a{i} = {row.first(pointer)};")
    for i, pointer in enumerate(row.writes):
        t.add(f"float *b{i} = {row.first(pointer)};")
    t.open(f"for (int i = {row.begin}; i < {row.end}; i++) {{")
    loads(t, kind, {i: f"tl_next(&a{i})" for i in row.reads})
    instructions(t, kind, kind.body, kind.at_body, kind.depending(row.reads))
    for i, r in enumerate(kind.results):
        t.add(f"tl_put(&b{i}, v{r});")
    t.close()


def moves_on(kind: Loop, row: Row, known: Collection[DType]) -> bool:
    """By instructions that there are for operands of these types."""
    types = (*kind.outputs, *(kind.inputs[i] for i in row.reads))
    dense = all(p.stride == 1 for p in (*row.reads.values(), *row.writes))
    return dense and not kind.recorded and all(d in known for d in types)


def unrolls(kind: Loop, row: Row) -> bool:
    dense = all(p.stride == 1 for p in (*row.reads.values(), *row.writes))
    long = row.count is None or row.count >= 2 * LANES
    return cheap([s for _, s in moving_body(kind, row)]) and dense and len(row.reads) <= MOST_STREAMS and long


def elements(t: Text, kind: Loop, row: Row, lanes: int) -> None:
    """`lanes` neighbours, each a statement behind the one before: cores that share a float unit then find it free."""
    own = kind.depending(row.reads)
    names = [partial(value, lane, own) if lanes > 1 else "v{}".format for lane in range(lanes)]
    work = [statements(kind, row, name, lane) for lane, name in enumerate(names)]
    t.add_staggered(work)
    for i, r in enumerate(kind.results):
        for lane, name in enumerate(names):
            t.add(of_record(kind, i, f"{row.writes[i].at(lane)} = {name(r)};"))


def statements(kind: Loop, row: Row, name: Name, lane: int) -> list[str]:
    """Up to the results of one element."""
    found = [f"const {kind.inputs[i].c_name} {name(i)} = {pointer.at(lane)};" for i, pointer in row.reads.items()]
    return found + [instruction(kind, step, i, name) for i, step in moving_body(kind, row)]


def value(lane: int, own: set[int], index: int) -> str:
    """Of neighbour `lane`, where each has its own."""
    return f"v{index}_{lane}" if index in own else f"v{index}"
