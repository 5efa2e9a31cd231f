"""Read an activation where a copy of it lies anyway: in what was joined of several, or inside of a frame of zeros.

A loop then writes its result in both places, one for the next operation of the forward pass and one for a gradient. The
bits are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trainlib_deployer.passes.fuse_loops import refined, reshaped
from trainlib_deployer.passes.prune_loops import pruned
from trainlib_deployer.program.ir import Op, Program, View
from trainlib_deployer.program.loop import Loop


def read_from_copy(program: Program, name: str, written: list[int], read: list[int]) -> Program | None:
    """Without this tensor, which these operations write and read; None where no other one has all that it holds."""
    if len(written) != 1:
        return None
    at, tensor = written[0], program.tensors[name]
    for copy in copies(program.ops[at], name, tensor.numel):
        if not stays(program, copy, at):
            continue
        ops = list(program.ops)
        ops[at] = without(ops[at], name)
        changed = [reading(ops[i], name, copy) for i in read]
        if None in changed:
            continue
        for i, op in zip(read, changed, strict=True):
            assert op is not None
            ops[i] = op
        return program.with_ops(ops)
    return None


def copies(op: Op, name: str, numel: int) -> Iterator[View]:
    """Where a loop puts the same values as into all of `name`, in the same order."""
    kind = op.kind
    if not isinstance(kind, Loop) or kind.recorded:
        return
    own = next(i for i, v in enumerate(op.writes) if v.tensor == name)
    view = op.writes[own]
    if not view.contiguous or view.numel != numel or view.offset:
        return
    for i, other in enumerate(op.writes):
        if (
            other.tensor != name
            and kind.outputs[i] is kind.outputs[own]
            and same(kind, kind.results[i], kind.results[own])
        ):
            yield other


def same(kind: Loop, one: int, other: int) -> bool:
    """Two values that are one, also where either has been converted by itself."""
    made = {kind.at_body + i: s for i, s in enumerate(kind.body)}
    return one == other or (one in made and made.get(other) == made[one])


def stays(program: Program, copy: View, at: int) -> bool:
    """Nothing behind this operation writes where the copy lies."""
    later = (v for op in program.ops[at + 1 :] for v in op.writes if v.tensor == copy.tensor)
    lo, hi = span(copy)
    return all(hi <= first or end <= lo for first, end in map(span, later))


def span(view: View) -> tuple[int, int]:
    """The first element, and behind the last one."""
    steps = [(e - 1) * s for e, s in zip(view.shape, view.strides, strict=True)]
    return view.offset + sum(s for s in steps if s < 0), view.offset + sum(s for s in steps if s > 0) + 1


def without(op: Op, name: str) -> Op:
    kind = op.kind
    assert isinstance(kind, Loop)
    left = [i for i, v in enumerate(op.writes) if v.tensor != name]
    results, outputs = tuple(kind.results[i] for i in left), tuple(kind.outputs[i] for i in left)
    changed = replace(kind, results=results, outputs=outputs)
    return pruned(replace(op, kind=changed, writes=tuple(op.writes[i] for i in left)))


def reading(op: Op, name: str, copy: View) -> Op | None:
    """The same loop, with the copy's elements as operands; it may need more dimensions for these."""
    kind = op.kind
    chosen = [i for i, v in enumerate(op.reads) if v.tensor == name]
    if not isinstance(kind, Loop) or not all(op.reads[i].contiguous and not op.reads[i].offset for i in chosen):
        return None
    shape = refined(kind.parallel, kind.folded, copy.shape)
    if shape is None or any(op.reads[i].numel != copy.numel for i in chosen):
        return None
    parallel, folded = shape
    views = [copy if i in chosen else v for i, v in enumerate(op.reads)]
    reads, writes = reshaped(views, parallel + folded), reshaped(op.writes, parallel)
    if reads is None or writes is None:
        return None
    changed = replace(kind, extents=parallel + folded, reduced=len(folded))
    return replace(op, kind=changed, reads=reads, writes=writes)
