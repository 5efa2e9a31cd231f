"""A row that Adam updates by a gradient that is there: one call. With PULP's own instructions that is a hardware loop.
A build that records makes it element by element."""

from __future__ import annotations

from dataclasses import dataclass

from trainlib_deployer.emit.loop_text import Text, closed, constant, instructions
from trainlib_deployer.emit.rows import Row
from trainlib_deployer.program.expr import Arg, Const, Instr
from trainlib_deployer.program.ir import DType
from trainlib_deployer.program.loop import Loop


@dataclass(frozen=True)
class Adam:
    """The numbers of the row's values, and what does not move along it."""

    w: int
    g: int
    m: int
    v: int
    rate: Arg
    keep: Arg | None
    first: Arg
    second: Arg
    scale: Arg
    more: Arg

    @property
    def factors(self) -> dict[str, Arg]:
        named = {"rate": self.rate, "first": self.first, "second": self.second, "scale": self.scale, "more": self.more}
        return named if self.keep is None else {**named, "keep": self.keep}


class OtherwiseError(Exception):
    """The row is another one."""


def adam_of(kind: Loop, row: Row) -> Adam | None:
    """Where its results are those of `adam` in ops/optim.py."""
    kept = kind.results[: len(kind.results) - kind.recorded]
    dense = all(p.stride == 1 for p in (*row.reads.values(), *row.writes))
    if len(kept) != 3 or not dense or any(kind.inputs[i] is not DType.F32 for i in row.reads):
        return None
    try:
        found = matched(kind, *kept)
    except OtherwiseError:
        return None
    moving = kind.depending(row.reads)
    if not {found.w, found.g, found.m, found.v} <= set(row.reads) or moving & set(found.factors.values()):
        return None
    return found


def matched(kind: Loop, new_w: int, new_m: int, new_v: int) -> Adam:
    def made(value: Arg, op: str) -> Instr:
        at = value - kind.at_body if isinstance(value, int) else -1
        if at < 0 or kind.body[at].op != op:
            raise OtherwiseError
        return kind.body[at]

    def number(value: Arg) -> int:
        if not isinstance(value, int):
            raise OtherwiseError
        return value

    minus_rate, step, before = made(new_w, "fma").args
    average, inverse = made(step, "mul").args
    root = made(inverse, "inverse_root")
    rest, first, m = made(new_m, "fma").args
    g, old_m = made(rest, "sub").args
    more_square, second, v = made(new_v, "fma").args
    g_once, g_again, minus_v = made(more_square, "fma").args
    decays = isinstance(before, int) and before >= kind.at_body
    w, keep = made(before, "mul").args if decays else (before, None)
    same = (average, root.args[0], old_m, g_once, g_again, made(minus_v, "neg").args[0])
    if same != (new_m, new_v, m, g, g, v):
        raise OtherwiseError
    rate = made(minus_rate, "neg").args[0]
    return Adam(number(w), number(g), number(m), number(v), rate, keep, first, second, *root.args[1:])


def update_row(t: Text, kind: Loop, row: Row, adam: Adam) -> None:
    fixed = {a for a in adam.factors.values() if isinstance(a, int)}
    instructions(t, kind, kind.body, kind.at_body, closed(kind, fixed))
    begin = "" if row.begin == "0" else f" + {row.begin}"
    places = {f"to_{n}": p.name for n, p in zip("wmv", row.writes, strict=False)}
    places |= {n: row.reads[i].name for n, i in (("w", adam.w), ("g", adam.g), ("m", adam.m), ("v", adam.v))}
    members = {n: f"{p}{begin}" for n, p in places.items()}
    for name, value in adam.factors.items():
        members[name] = constant(value.value, DType.F32) if isinstance(value, Const) else f"v{value}"
    t.add(f"const tl_adam a = {{{', '.join(f'.{n} = {text}' for n, text in members.items())}}};")
    count = row.end if row.begin == "0" else f"{row.end} - {row.begin}"
    t.add(f"tl_adam_row(&a, {int(adam.keep is not None)}, {count});")
