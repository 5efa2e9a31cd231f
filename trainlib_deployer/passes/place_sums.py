"""Sum gradients of slices by writing each into its own part of one tensor.

The gradient of a slice is a tensor of zeros with a part written; a network that takes a tensor apart adds up as many of
these as there are slices. Where no two parts overlap, all are written into the zeros of one, each element plus zero,
which is what the sum makes of it: the bits stay, and of the sign of a zero, too. A sum of something else and of two
such terms is that of the one and of both in one: where one has a part, the other one's zero changes nothing. Zeros that
parts cover altogether are not written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import copysign
from typing import Any

import numpy as np

from trainlib_deployer.program.expr import Const, Instr
from trainlib_deployer.program.ir import DType, Op, Program, Tensor, View
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.places import Places, between

ZERO = Const(0.0)
PLUS_ZERO = (Instr("add", (0, ZERO), DType.F32),)
Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Placed:
    """A tensor that is zero but for some parts: where the zeros and the parts are written, and what these cover."""

    zeros: int
    parts: tuple[int, ...]
    covered: Mask


@dataclass(frozen=True)
class Tail:
    """A sum whose last term is a placed tensor: where it is added, and both terms."""

    at: int
    rest: str
    term: str


def place_sums(program: Program) -> Program:
    ops: list[Op | None] = list(program.ops)
    places = Places.of(program)
    wanted = {*program.shown, *(t for _, t in program.gradients)}
    found: dict[str, Placed] = {}
    tails: dict[str, Tail] = {}
    for at, op in enumerate(program.ops):
        if not adds(program, op):
            continue
        names, result = [v.tensor for v in op.reads], op.writes[0].tensor
        own = [n for n in names if n not in wanted and places.read[n] == [at]]
        found |= {n: p for n in own if n not in found and (p := placed(program, ops, places, n)) is not None}
        terms = [n for n in own if n in found]
        if len(terms) == 2:
            both = joined(ops, found[names[0]], found[names[1]], op, result)
            if both is not None:
                ops[at], found[result] = None, both
        elif terms:
            term, rest = terms[0], names[names[0] == terms[0]]
            tail = tails.get(rest) if rest in own else None
            both = None
            if tail is not None and not between(places.written, [renamed(op.reads[0], tail.rest)], tail.at, at):
                both = joined(ops, found[tail.term], found[term], op, tail.term)
            if tail is not None and both is not None:
                found[tail.term], ops[tail.at] = both, None
                rest, term = tail.rest, tail.term
                ops[at] = replace(op, reads=(renamed(op.reads[0], rest), renamed(op.reads[1], term)))
            tails[result] = Tail(at, rest, term)
    return program.with_ops([op for op in ops if op is not None])


def joined(ops: list[Op | None], one: Placed, other: Placed, added: Op, name: str) -> Placed | None:
    """Both as one tensor of this name, where that is their sum: made by the earlier zeros and all parts."""
    both = Placed(min(one.zeros, other.zeros), (*one.parts, *other.parts), one.covered | other.covered)
    made = {p: op for p in (both.zeros, *both.parts) if (op := ops[p]) is not None}
    if (one.covered & other.covered).any() or any(op.phase != added.phase for op in made.values()):
        return None
    for position, op in made.items():
        assert isinstance(op.kind, Loop)
        kind = op.kind if position == both.zeros else replace(op.kind, body=PLUS_ZERO, results=(1,))
        fused = (*(op.fused or (op.name,)), added.name)
        ops[position] = replace(op, kind=kind, writes=(renamed(op.writes[0], name),), fused=fused)
    ops[max(one.zeros, other.zeros)] = None
    if both.covered.all():
        ops[both.zeros] = None
    return both


def renamed(view: View, tensor: str) -> View:
    return view._replace(tensor=tensor)


def adds(program: Program, op: Op) -> bool:
    """The sum of two whole tensors of floats, of which neither is the other."""
    kind = op.kind
    if not isinstance(kind, Loop) or kind.reductions or kind.post or kind.recorded or len(op.writes) != 1:
        return False
    views = (*op.reads, *op.writes)
    whole = all(v.covers(program.tensors[v.tensor]) for v in views)
    return whole and len({v.tensor for v in views}) == 3 and kind.body == (Instr("add", (0, 1), DType.F32),)


def placed(program: Program, ops: list[Op | None], places: Places, name: str) -> Placed | None:
    """Zeros, and a copy into a part of them."""
    made = places.written.get(name, [])
    if len(made) != 2 or program.tensors[name].role.persistent:
        return None
    zeros, part = (ops[p] for p in made)
    if zeros is None or part is None or not fills(program, zeros) or not copies(part):
        return None
    return Placed(made[0], (made[1],), covered(part.writes[0], program.tensors[name]))


def fills(program: Program, op: Op) -> bool:
    kind = op.kind
    if not isinstance(kind, Loop) or kind.inputs or len(kind.body) != 1 or kind.body[0].op != "copy":
        return False
    value = kind.body[0].args[0]
    zero = isinstance(value, Const) and value == ZERO and copysign(1, value.value) > 0
    return zero and len(op.writes) == 1 and op.writes[0].covers(program.tensors[op.writes[0].tensor])


def copies(op: Op) -> bool:
    kind = op.kind
    plain = isinstance(kind, Loop) and not kind.body and not kind.reductions and not kind.post
    return plain and len(op.reads) == len(op.writes) == 1 and op.reads[0].tensor != op.writes[0].tensor


def covered(part: View, tensor: Tensor) -> Mask:
    """Which elements of a tensor a view shows."""
    mask = np.zeros(tensor.numel, dtype=np.bool_)
    np.lib.stride_tricks.as_strided(mask[part.offset :], part.shape, part.strides)[...] = True
    return mask
