"""Truths and bits."""

from __future__ import annotations

import torch

from trainlib_deployer.ops.pointwise import Formula, formula
from trainlib_deployer.program.expr import Expr, Operand, apply
from trainlib_deployer.program.ir import DType

aten = torch.ops.aten
LOGIC = {
    "and": (aten.logical_and, aten.bitwise_and),
    "or": (aten.logical_or, aten.bitwise_or),
    "xor": (aten.logical_xor, aten.bitwise_xor),
}


def of_truths(name: str) -> Formula:
    return lambda x, y: apply(name, [x.cast(DType.U8), y.cast(DType.U8)])


def of_bits(name: str) -> Formula:
    return lambda x, y: apply(name, [x, y])


for _name, (_logical, _bitwise) in LOGIC.items():
    formula(_logical.default)(of_truths(_name))
    formula(_bitwise.Tensor, _bitwise.Scalar)(of_bits(_name))


@formula(aten.logical_not.default)
def logical_not(x: Expr) -> Operand:
    return apply("not", [x.cast(DType.U8)])


@formula(aten.bitwise_not.default)
def bitwise_not(x: Expr) -> Operand:
    return apply("not", [x]) if x.dtype is DType.U8 else apply("xor", [x, -1])


@formula(aten.bitwise_left_shift.Tensor, aten.bitwise_left_shift.Tensor_Scalar, aten.bitwise_left_shift.Scalar_Tensor)
@formula(aten.__lshift__.Tensor, aten.__lshift__.Scalar)
def left_shift(x: Operand, by: Operand) -> Operand:
    return apply("ileft", [x, by])


@formula(
    aten.bitwise_right_shift.Tensor, aten.bitwise_right_shift.Tensor_Scalar, aten.bitwise_right_shift.Scalar_Tensor
)
@formula(aten.__rshift__.Tensor, aten.__rshift__.Scalar)
def right_shift(x: Operand, by: Operand) -> Operand:
    return apply("iright", [x, by])
