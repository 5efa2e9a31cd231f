"""Exponentials and normal distributions with fewer terms where what is made of them is rounded to halves.

A half has eleven bits, and its rounding hides an error of 2^-15. An exponential is coarse where each reader of it
rounds it; a distribution and its density, which a GELU and its slope read, where all that a loop makes are halves.
"""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.formats import DType
from trainlib_deployer.program.ir import Program
from trainlib_deployer.program.loop import Loop

STORES = frozenset(t.store for t in DType if t.is_half)
DISTRIBUTIONS = frozenset(("gauss_cdf", "gauss_density"))


def coarse(program: Program) -> Program:
    ops = [replace(op, kind=with_fewer_terms(op.kind)) if isinstance(op.kind, Loop) else op for op in program.ops]
    return replace(program, ops=ops)


def with_fewer_terms(kind: Loop) -> Loop:
    if kind.reductions or not all(t.is_half for t in kind.outputs):
        return kind
    readers: dict[int, set[str]] = {}
    for step in kind.body:
        for a in step.args:
            if isinstance(a, int):
                readers.setdefault(a, set()).add(step.op)
    body = tuple(
        replace(s, op=f"coarse_{s.op}")
        if s.op in DISTRIBUTIONS or (s.op == "exp" and readers.get(kind.at_body + i, set()) <= STORES)
        else s
        for i, s in enumerate(kind.body)
    )
    return replace(kind, body=body)
