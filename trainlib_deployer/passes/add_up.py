"""Gradients of a weight that several calls share, added up by the products that make them.

Cells that are unrolled, branches with the same weights: each call makes a gradient as large as the weight, and a sum of
two waits for the third. A product that begins with what the calls before it have made writes the sum instead, in the
place of what it began with. A sum of each, then of both, has one rounding more.
"""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.passes.place_sums import adds, renamed
from trainlib_deployer.program.ir import Op, Program
from trainlib_deployer.program.places import Places


def add_up(program: Program) -> Program:
    ops: list[Op | None] = list(program.ops)
    places = Places.of(program)
    kept = {*program.shown, *(t for _, t in program.gradients)}
    made = {name: at[0] for name, at in places.written.items() if len(at) == 1}
    sums = of_parameters(program)
    for at, op in enumerate(program.ops):
        if at not in sums:
            continue
        own = [v.tensor for v in op.reads if v.tensor in made and v.tensor not in kept]
        if len(own) != 2 or any(places.read[n] != [at] or program.tensors[n].role.persistent for n in own):
            continue
        before, last = sorted(own, key=made.__getitem__)
        product = ops[made[last]]
        if product is not None and made[before] < made[last] and begins_anew(program, product, op):
            result = op.writes[0].tensor
            ops[made[last]], ops[at] = begun(product, op, before, result), None
            made[result] = made[last]
    return program.with_ops([op for op in ops if op is not None])


def of_parameters(program: Program) -> set[int]:
    """Where gradients of parameters are added up."""
    wanted = {t for _, t in program.gradients}
    found = set()
    for at, op in reversed([*enumerate(program.ops)]):
        if op.writes and op.writes[0].tensor in wanted and adds(program, op):
            found.add(at)
            wanted.update(v.tensor for v in op.reads)
    return found


def begins_anew(program: Program, op: Op, added: Op) -> bool:
    """A product that makes all of its result, and could begin with something. Those of one term a sum become loops,
    which add up several of them."""
    kind, result = op.kind, op.writes[0]
    whole = result.offset == 0 and result.numel == program.tensors[result.tensor].numel
    alone = isinstance(kind, MatMul) and kind.k > 1 and not kind.init and not kind.accumulate
    return alone and whole and op.phase == added.phase


def begun(op: Op, added: Op, before: str, result: str) -> Op:
    assert isinstance(op.kind, MatMul)
    view = op.writes[0]
    fused = (*(op.fused or (op.name,)), added.name)
    kind, reads = replace(op.kind, init=True), (*op.reads, renamed(view, before))
    return replace(op, kind=kind, reads=reads, writes=(renamed(view, result),), fused=fused)
