"""Statements of generated loops: lines under construction, loads, instructions, stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from trainlib_deployer.emit.names import literal
from trainlib_deployer.program.expr import C_FORM, C_WRAPPING, Const, Instr
from trainlib_deployer.program.ir import DType
from trainlib_deployer.program.loop import Loop

LIMITS = {"max": "tl_at_leastf({0}, {1})", "min": "tl_at_mostf({0}, {1})"}  # by a number
Name = Callable[[int], str]  # of a value, by its number


@dataclass
class Text:
    """Lines under construction, with indentation."""

    lines: list[str] = field(default_factory=list)
    depth: int = 0

    def add(self, line: str) -> None:
        self.lines.append("    " * self.depth + line if line else "")

    def open(self, line: str) -> None:
        self.add(line)
        self.depth += 1

    def close(self, line: str = "}") -> None:
        self.depth -= 1
        self.add(line)

    def add_staggered(self, work: Sequence[Sequence[str]]) -> None:
        """Each of them a statement behind the one before; they are of one length."""
        for time in range(len(work[0]) + len(work) - 1):
            for lane, statements in enumerate(work):
                if 0 <= time - lane < len(statements):
                    self.add(statements[time - lane])


def stores(t: Text, kind: Loop, pointer: str) -> None:
    """One element of each result."""
    for i, r in enumerate(kind.results):
        t.add(of_record(kind, i, f"{pointer}{i}[0] = v{r};"))


@contextmanager
def unless_recording(t: Text, kind: Loop, otherwise: Callable[[], None]) -> Iterator[None]:
    """A call that keeps nothing of what is on the way; and what a build does that records."""
    if kind.recorded:
        t.lines.append("#ifdef NET_TRACE")
        otherwise()
        t.lines.append("#else")
    yield
    if kind.recorded:
        t.lines.append("#endif")


def of_record(kind: Loop, output: int, statement: str) -> str:
    """As it is, or only where somebody records."""
    return statement if output < len(kind.outputs) - kind.recorded else f"TL_RECORD({statement})"


def times(name: str, stride: int) -> str:
    return name if stride == 1 else f"{name} * {stride}" if stride else "0"


def loads(t: Text, kind: Loop, places: dict[int, str]) -> None:
    for i, place in places.items():
        t.add(f"const {kind.inputs[i].c_name} v{i} = {place};")


def instructions(t: Text, kind: Loop, instrs: tuple[Instr, ...], first: int, wanted: set[int] | None = None) -> None:
    for i, s in enumerate(instrs):
        if wanted is None or first + i in wanted:
            t.add(instruction(kind, s, first + i, "v{}".format))


def instruction(kind: Loop, s: Instr, result: int, name: Name) -> str:
    operand_type = s.dtype if s.op not in ("lt", "le", "gt", "ge", "eq", "ne", "not") else operand_dtype(kind, s)
    args = [constant(a.value, operand_type) if isinstance(a, Const) else name(a) for a in s.args]
    return f"const {s.dtype.c_name} {name(result)} = {form(kind, s).format(*args)};"


def form(kind: Loop, s: Instr) -> str:
    """Floats are chosen without a branch, where a limit is no NaN; integers are what C defines."""
    if s.dtype is DType.F32 and s.op == "select":
        return "tl_selectf({0}, {1}, {2})"
    if s.dtype is DType.I32 and s.op in C_WRAPPING:
        return C_WRAPPING[s.op]
    if s.dtype is DType.I32 and s.op == "copy" and isinstance(s.args[0], int):
        return "tl_wholef({0})" if value_dtype(kind, s.args[0]) is DType.F32 else C_FORM["copy"]
    limit = s.args[1] if s.op in LIMITS and s.dtype is DType.F32 else None
    if isinstance(limit, Const) and limit.value == limit.value:
        return LIMITS[s.op]
    return C_FORM[s.op]


def constant(value: float | int, dtype: DType) -> str:
    """A literal; one that takes a load from memory unless it is put together from two instructions says so."""
    text = literal(value, dtype)
    with np.errstate(over="ignore"):
        long = dtype is DType.F32 and int(np.float32(value).view(np.uint32)) & 0xFFF
    return f"tl_lit({text})" if long else text


def operand_dtype(kind: Loop, instr: Instr) -> DType:
    """The type a comparison compares in: that of its first value."""
    value = next((a for a in instr.args if isinstance(a, int)), None)
    if value is None:
        return DType.F32
    return value_dtype(kind, value)


def value_dtype(kind: Loop, index: int) -> DType:
    types = [
        *kind.inputs,
        *(s.dtype for s in kind.body),
        *(r.dtype for r in kind.reductions),
        *(s.dtype for s in kind.post),
    ]
    return types[index]
