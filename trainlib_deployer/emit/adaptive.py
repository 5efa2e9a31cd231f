"""A row that Adam or RMSprop updates by a gradient that is there: one call. With PULP's own instructions that is a
hardware loop. A build that records makes it element by element."""

from __future__ import annotations

from dataclasses import dataclass

from trainlib_deployer.emit.loop_text import Text, constant, instructions
from trainlib_deployer.emit.rows import Row
from trainlib_deployer.program.expr import Arg, Const, Instr
from trainlib_deployer.program.ir import DType
from trainlib_deployer.program.loop import Loop

NEAR = "inverse_root_near"


@dataclass(frozen=True)
class Adaptive:
    """The function with its literals, by the names of tl_adaptive the numbers of the row's values, in the order of its
    results what is written, and what does not move along the row."""

    function: str
    literals: tuple[bool, bool]
    moving: dict[str, int]
    written: str
    factors: dict[str, Arg]


class OtherwiseError(Exception):
    """The row is another one."""


def adaptive_of(kind: Loop, row: Row) -> Adaptive | None:
    """Where its results are those of `adam` or `rmsprop` in ops/optim.py."""
    dense = all(p.stride == 1 for p in (*row.reads.values(), *row.writes))
    if not dense or any(kind.inputs[i] is not DType.F32 for i in row.reads):
        return None
    depending = kind.depending(row.reads)
    for matched in (adam, rmsprop):
        try:
            found = matched(kind, kind.kept)
        except OtherwiseError:
            continue
        if set(found.moving.values()) <= set(row.reads) and not depending & set(found.factors.values()):
            return found
    return None


def adam(kind: Loop, kept: tuple[int, ...]) -> Adaptive:
    only(len(kept) == 3)
    new_w, new_m, new_v = kept
    rate, step, before = step_of(kind, new_w)
    average, inverse = made(kind, step, "mul").args
    rest, first, m = made(kind, new_m, "fma").args
    g, old_m = made(kind, rest, "sub").args
    only((average, old_m) == (new_m, m))
    near, moving, factors = root_of(kind, inverse, new_v, g)
    decays = isinstance(before, int) and before >= kind.at_body
    w, keep = made(kind, before, "mul").args if decays else (before, None)
    factors |= {"rate": rate, "first": first} | ({} if keep is None else {"keep": keep})
    return Adaptive("tl_adam_row", (decays, near), {"w": number(w), "m": number(m), **moving}, "wmv", factors)


def rmsprop(kind: Loop, kept: tuple[int, ...]) -> Adaptive:
    """The momentum is the third result."""
    only(len(kept) in (2, 3))
    new_w, new_v, *new_m = kept
    rate, direction, w = step_of(kind, new_w)
    moving, factors = {"w": number(w)}, {"rate": rate}
    if new_m:
        only([direction] == new_m)
        m, first, direction = made(kind, direction, "fma").args
        moving, factors = {**moving, "m": number(m)}, {**factors, "first": first}
    g, inverse = made(kind, direction, "mul").args
    near, of_root, more = root_of(kind, inverse, new_v, g)
    return Adaptive("tl_rmsprop_row", (bool(new_m), near), moving | of_root, "wvm", factors | more)


def step_of(kind: Loop, new_w: int) -> tuple[Arg, Arg, Arg]:
    """The rate, what it multiplies, and the parameter before."""
    minus_rate, direction, before = made(kind, new_w, "fma").args
    return made(kind, minus_rate, "neg").args[0], direction, before


def root_of(kind: Loop, inverse: Arg, new_v: int, g: Arg) -> tuple[bool, dict[str, int], dict[str, Arg]]:
    """Its way, what moves and what does not, of the inverse root of the mean square and of that."""
    root = made(kind, inverse, "inverse_root", NEAR)
    square, more = root.args
    rest, second, v = made(kind, new_v, "fma").args
    g_once, g_again, minus_v = made(kind, rest, "fma").args
    only((square, g_once, g_again, made(kind, minus_v, "neg").args[0]) == (new_v, g, g, v))
    return root.op == NEAR, {"g": number(g), "v": number(v)}, {"second": second, "more": more}


def made(kind: Loop, value: Arg, *ops: str) -> Instr:
    at = value - kind.at_body if isinstance(value, int) else -1
    only(at >= 0 and kind.body[at].op in ops)
    return kind.body[at]


def number(value: Arg) -> int:
    if not isinstance(value, int):
        raise OtherwiseError
    return value


def only(condition: bool) -> None:
    if not condition:
        raise OtherwiseError


def update_row(t: Text, kind: Loop, row: Row, update: Adaptive) -> None:
    fixed = {a for a in update.factors.values() if isinstance(a, int)}
    instructions(t, kind, kind.body, kind.at_body, kind.needed(fixed))
    members = {f"to_{n}": row.first(p) for n, p in zip(update.written, row.writes, strict=False)}
    members |= {n: row.first(row.reads[i]) for n, i in update.moving.items()}
    for name, value in update.factors.items():
        members[name] = constant(value.value, DType.F32) if isinstance(value, Const) else f"v{value}"
    t.add(f"const tl_adaptive a = {{{', '.join(f'.{n} = {text}' for n, text in members.items())}}};")
    t.add(f"{update.function}(&a, {', '.join(str(int(yes)) for yes in update.literals)}, {row.elements});")
