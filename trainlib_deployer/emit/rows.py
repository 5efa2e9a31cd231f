"""The innermost dimension of a generated loop, one element or four at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from trainlib_deployer.emit.loop_text import Name, Text, instruction, instructions, loads, of_record, times
from trainlib_deployer.program.ir import DType
from trainlib_deployer.program.loop import LANES, Loop, cheap

MOST_STREAMS = 4  # operands: their values share the registers


@dataclass(frozen=True)
class Pointer:
    """Where an operand's row begins, and the elements from one of its values to the next."""

    name: str
    stride: int = 1

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

    @property
    def count(self) -> int | None:
        """How many, where that is known."""
        return int(self.end) if self.begin == "0" else None


def innermost(t: Text, kind: Loop, row: Row) -> None:
    """Short bodies take four elements at a time: all are read before the first is written, so that none waits for
    another."""
    if not unrolls(kind, row):
        one_by_one(t, kind, row)
        return
    t.add(f"int i = {row.begin};")
    t.open(f"for (; i < {row.end} - {LANES - 1}; i += {LANES}) {{")
    elements(t, kind, row, LANES)
    t.close()
    if row.count is None or row.count % LANES:
        t.open(f"for (; i < {row.end}; i++) {{")
        elements(t, kind, row, 1)
        t.close()


def one_by_one(t: Text, kind: Loop, row: Row) -> None:
    """Where all are dense rows of floats, loads and stores move their pointers on."""
    if not moves_on(kind, row):
        t.open(f"for (int i = {row.begin}; i < {row.end}; i++) {{")
        elements(t, kind, row, 1)
        t.close()
        return
    begin = "" if row.begin == "0" else f" + {row.begin}"
    for i, pointer in row.reads.items():
        t.add(f"const float *a{i} = {pointer.name}{begin};")
    for i, pointer in enumerate(row.writes):
        t.add(f"float *b{i} = {pointer.name}{begin};")
    t.open(f"for (int i = {row.begin}; i < {row.end}; i++) {{")
    loads(t, kind, {i: f"tl_next(&a{i})" for i in row.reads})
    instructions(t, kind, kind.body, kind.at_body)
    for i, r in enumerate(kind.results):
        t.add(f"tl_put(&b{i}, v{r});")
    t.close()


def moves_on(kind: Loop, row: Row) -> bool:
    types = (*kind.outputs, *(kind.inputs[i] for i in row.reads))
    dense = all(p.stride == 1 for p in (*row.reads.values(), *row.writes))
    return dense and not kind.recorded and all(d is DType.F32 for d in types)


def unrolls(kind: Loop, row: Row) -> bool:
    dense = all(p.stride == 1 for p in (*row.reads.values(), *row.writes))
    return (
        cheap(kind.body) and dense and len(row.reads) <= MOST_STREAMS and (row.count is None or row.count >= 2 * LANES)
    )


def elements(t: Text, kind: Loop, row: Row, lanes: int) -> None:
    """`lanes` neighbours, each a statement behind the one before: cores that share a float unit then find it free."""
    first = kind.at_body
    own = {*row.reads, *range(first, first + len(kind.body))}
    names = [partial(value, lane, own) if lanes > 1 else "v{}".format for lane in range(lanes)]
    work = [statements(kind, row, name, lane) for lane, name in enumerate(names)]
    t.add_staggered(work)
    for i, r in enumerate(kind.results):
        for lane, name in enumerate(names):
            t.add(of_record(kind, i, f"{row.writes[i].at(lane)} = {name(r)};"))


def statements(kind: Loop, row: Row, name: Name, lane: int) -> list[str]:
    """Up to the results of one element."""
    found = [f"const {kind.inputs[i].c_name} {name(i)} = {pointer.at(lane)};" for i, pointer in row.reads.items()]
    return found + [instruction(kind, step, kind.at_body + i, name) for i, step in enumerate(kind.body)]


def value(lane: int, own: set[int], index: int) -> str:
    """Of neighbour `lane`, where each has its own."""
    return f"v{index}_{lane}" if index in own else f"v{index}"
