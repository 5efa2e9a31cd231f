"""Constants of the same contents are one: indices that several operations of a step look up, each in its own shape."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trainlib_deployer.program.ir import DType, Program, Role, renamed


def share_constants(program: Program) -> Program:
    first: dict[tuple[DType, bytes], str] = {}
    names = {}
    for t in program.of_role(Role.CONSTANT):
        kept = first.setdefault((t.dtype, np.asarray(program.values[t.name]).tobytes()), t.name)
        if kept != t.name:
            names[t.name] = kept
    if not names:
        return program
    tensors = {n: t for n, t in program.tensors.items() if n not in names}
    ops = [replace(op, reads=renamed(op.reads, names)) for op in program.ops]
    return replace(program, tensors=tensors, ops=ops)
