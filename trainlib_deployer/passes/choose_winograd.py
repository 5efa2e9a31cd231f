"""Give convolutions Winograd's arithmetic where that takes fewer instructions.

It follows from the shape of the operation alone: the bits are the same on every machine, with any number of cores and
in tiles of any size.
"""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.kernels.winograd import Winograd, pays
from trainlib_deployer.ops.conv import Conv
from trainlib_deployer.program.ir import Op, Program


def choose_winograd(program: Program) -> Program:
    return program.with_ops([chosen(op) for op in program.ops])


def chosen(op: Op) -> Op:
    if isinstance(op.kind, Conv) and pays(op.kind):
        return replace(op, kind=replace(op.kind, winograd=Winograd()))
    return op
