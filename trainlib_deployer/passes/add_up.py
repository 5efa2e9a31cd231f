"""Gradients of a weight that several calls share, added up by the products that make them.

Cells that are unrolled, branches with the same weights: each call makes a gradient as large as the weight, and a sum of
two waits for the third. A product that begins with what the calls before it have made writes the sum instead, in the
place of what it began with. A sum of each, then of both, has one rounding more. The gradient of a convolution's weight
adds to what the one before has left.
"""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.ops.conv import Conv
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
        product, result = ops[made[last]], op.writes[0].tensor
        if product is None or made[before] >= made[last] or not begins_anew(program, product, op):
            continue
        ops[made[last]], ops[at] = begun(product, op, before, result), None
        if isinstance(product.kind, Conv):
            ops = [o and moved(o, before, result) for o in ops]
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
    if isinstance(kind, MatMul):
        anew = kind.k > 1 and not kind.init and not kind.accumulate
    else:
        anew = isinstance(kind, Conv) and kind.direction == "bw_w" and not kind.adds
    return anew and whole and op.phase == added.phase


def begun(op: Op, added: Op, before: str, result: str) -> Op:
    view, kind = op.writes[0], op.kind
    fused = (*(op.fused or (op.name,)), added.name)
    assert isinstance(kind, MatMul | Conv)
    kind = replace(kind, init=True) if isinstance(kind, MatMul) else replace(kind, onto=True)
    reads, writes = (*op.reads, renamed(view, before)), (renamed(view, result),)
    return replace(op, kind=kind, reads=reads, writes=writes, fused=fused)


def moved(op: Op, old: str, new: str) -> Op:
    """It reads and writes there what lay elsewhere."""
    reads, writes = (tuple(renamed(v, new) if v.tensor == old else v for v in vs) for vs in (op.reads, op.writes))
    return replace(op, reads=reads, writes=writes) if (reads, writes) != (op.reads, op.writes) else op
