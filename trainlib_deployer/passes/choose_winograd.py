"""Give convolutions Winograd's arithmetic where that takes fewer instructions.

It follows from the shape of the operation and what is done with its result alone: the bits are the same on every
machine, with any number of cores and in tiles of any size.

A weight gradient that is zero because no product is another number is a sum of roundings there. Where it is multiplied
and added up, as by SGD, nothing comes of that; Adam divides it by its own size, and makes a whole step of it.
"""

from __future__ import annotations

from dataclasses import replace

from golden.tiles import Signature, signature
from trainlib_deployer.formats import DType
from trainlib_deployer.kernels import winograd, winograd_f16
from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.program.ir import Op, Program, Role
from trainlib_deployer.program.loop import Loop

LINEAR = frozenset(("copy", "add", "sub", "mul", "fma", "neg"))


def choose_winograd(program: Program) -> Program:
    exact = wanted_exact(program)
    return program.with_ops([chosen(op, exact) for op in program.ops])


def chosen(op: Op, exact: set[str]) -> Op:
    if not isinstance(op.kind, Conv) or not pays(op.kind):
        return op
    if op.kind.direction == "bw_w" and op.writes[0].tensor in exact:
        return op
    halves = op.kind.storage is DType.F16
    return replace(op, kind=replace(op.kind, winograd=(winograd_f16 if halves else winograd).most(op.kind)))


def pays(kind: Conv) -> bool:
    if kind.storage is DType.BF16:
        return False  # its sums and differences, rounded to eight bits, are worth less than what they save
    return winograd_f16.pays(kind) if kind.storage is DType.F16 else winograd.pays(kind)


def by_winograd(program: Program) -> tuple[bool, tuple[Signature, ...]]:
    """Whether convolutions of floats are done like this; and those of halves, as the reference tells them apart."""
    kinds = {op.kind for op in program.ops if isinstance(op.kind, Conv) and op.kind.winograd}
    halves = {k for k in kinds if k.storage is DType.F16}
    return kinds > halves, tuple(sorted({told(k) for k in halves}))


def told(kind: Conv) -> Signature:
    s = kind.shape
    image, weight = (s.n, s.groups * s.ci, s.h, s.w), (s.groups * s.co, s.ci, s.kh, s.kw)
    return signature(kind.direction, image, weight, s.pad, s.groups)


def wanted_exact(program: Program) -> set[str]:
    """Tensors that something reads which does not multiply and add up alone, in this step or in a later one; but not by
    way of the parameters."""
    exact: set[str] = set()
    before = -1
    while len(exact) > before:
        before = len(exact)
        for op in reversed(program.ops):
            results = {v.tensor for v in op.writes if program.tensors[v.tensor].role is not Role.PARAMETER}
            if not linear(op) or results & exact:
                exact.update(v.tensor for v in op.reads)
    return exact


def linear(op: Op) -> bool:
    kind = op.kind
    return isinstance(kind, Loop) and not kind.reductions and all(s.op in LINEAR for s in (*kind.body, *kind.post))
