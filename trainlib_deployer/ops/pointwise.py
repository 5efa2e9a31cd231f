"""Pointwise operations. Each is a formula on scalars; the loops around them are generated."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.registry import covers
from trainlib_deployer.program.expr import Expr, Operand, apply, as_float, call, exact_reciprocal, joined, select
from trainlib_deployer.program.ir import DType, View
from trainlib_deployer.torch_types import CALCULATED

aten = torch.ops.aten
SQRT_HALF = math.sqrt(0.5)
Formula = Callable[..., Operand]


def formula(*targets: Any) -> Callable[[Formula], Formula]:
    """Register f(scalar operands, attributes...) -> scalar for targets whose tensors are all pointwise operands."""

    def register(rule: Formula) -> Formula:
        def lower(b: Builder, *args: Any, **kwargs: Any) -> View:
            views = [a for a in args if isinstance(a, View)]

            def body(*values: Expr) -> Operand:
                left = iter(values)
                return rule(*(next(left) if isinstance(a, View) else a for a in args), **kwargs)

            return b.map(body, *views, dtype=result_dtype(b), shape=tuple(b.meta.shape))

        lower.__module__ = rule.__module__
        covers(*targets)(lower)
        return rule

    return register


def result_dtype(b: Builder) -> DType:
    return CALCULATED[b.meta.dtype]


def function_of_floats(name: str) -> Formula:
    return lambda x: call(name, x)


FLOAT_FUNCTIONS = {
    "exp": aten.exp,
    "exp2": aten.exp2,
    "expm1": aten.expm1,
    "log": aten.log,
    "log2": aten.log2,
    "log10": aten.log10,
    "log1p": aten.log1p,
    "sqrt": aten.sqrt,
    "rsqrt": aten.rsqrt,
    "sin": aten.sin,
    "cos": aten.cos,
    "tan": aten.tan,
    "asin": aten.asin,
    "acos": aten.acos,
    "atan": aten.atan,
    "sinh": aten.sinh,
    "cosh": aten.cosh,
    "tanh": aten.tanh,
    "erf": aten.erf,
    "erfc": aten.erfc,
    "erfinv": aten.erfinv,
    "sigmoid": aten.sigmoid,
    "floor": aten.floor,
    "ceil": aten.ceil,
    "trunc": aten.trunc,
    "round": aten.round,
}
for _name, _packet in FLOAT_FUNCTIONS.items():
    formula(_packet.default)(function_of_floats(_name))

COMPARISONS = {
    "lt": aten.lt,
    "le": aten.le,
    "gt": aten.gt,
    "ge": aten.ge,
    "eq": aten.eq,
    "ne": aten.ne,
}


def comparison(name: str) -> Formula:
    return lambda x, y: apply(name, [x, y])


for _name, _packet in COMPARISONS.items():
    formula(_packet.Tensor, _packet.Scalar)(comparison(_name))


@formula(aten.add.Tensor, aten.add.Scalar)
def add(x: Expr, y: Operand, alpha: float = 1) -> Operand:
    return x + scaled(y, alpha)


@formula(aten.sub.Tensor, aten.sub.Scalar)
def sub(x: Expr, y: Operand, alpha: float = 1) -> Operand:
    return apply("sub", [x, scaled(y, alpha)])


@formula(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(x: Expr, y: Operand, alpha: float = 1) -> Operand:
    return apply("sub", [y, scaled(x, alpha)])


def scaled(x: Operand, by: float) -> Operand:
    return x if by == 1 else x * by


@formula(aten.mul.Tensor, aten.mul.Scalar)
def mul(x: Expr, y: Operand) -> Operand:
    return x * y


@formula(aten.div.Tensor, aten.div.Scalar)
def div(x: Expr, y: Operand) -> Operand:
    return x / y


@formula(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(x: Expr, y: Operand, rounding_mode: str | None = None) -> Operand:
    if rounding_mode is None:
        return x / y
    if joined([x, y]) is not DType.F32:
        return apply("idiv" if rounding_mode == "floor" else "iquot", [x, y])
    if rounding_mode == "trunc" or (isinstance(y, (int, float)) and exact_reciprocal(y)):
        return call(rounding_mode, x / y)
    return whole_quotient(x.float(), as_float(y))


def whole_quotient(x: Expr, y: Operand) -> Operand:
    """The exact quotient rounded down, as PyTorch has it: in float32, 1 / 0.1 is 10, and 0.1 lies in 1 nine times."""
    rest = call("fmod", x, y)
    below = apply("and", [rest.op("ne", 0.0), apply("xor", [rest < 0.0, negative(y)])])
    quotient = call("round", (x - rest) / y - select(below, 1.0, 0.0))
    return quotient if isinstance(y, (int, float)) else select(y.equals(0.0), x / y, quotient)


def negative(y: Operand) -> Operand:
    return y < 0.0


@formula(aten.floor_divide.default)
def floor_divide(x: Expr, y: Operand) -> Operand:
    return div_mode(x, y, "floor")


@formula(aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor)
def remainder(x: Operand, y: Operand) -> Operand:
    return apply("remainder", [x, y])


@formula(aten.fmod.Tensor, aten.fmod.Scalar)
def fmod(x: Expr, y: Operand) -> Operand:
    return apply("fmod", [x, y])


@formula(aten.fmax.default)
def fmax(x: Expr, y: Expr) -> Operand:
    """The larger one; a number wins over NaN."""
    return select(x.op("ne", x), y, select(y.op("ne", y), x, apply("max", [x, y])))


@formula(aten.fmin.default)
def fmin(x: Expr, y: Expr) -> Operand:
    return select(x.op("ne", x), y, select(y.op("ne", y), x, apply("min", [x, y])))


@formula(aten.hypot.default)
def hypot(x: Expr, y: Expr) -> Operand:
    return call("sqrt", x * x + y * y)


@formula(aten.asinh.default)
def asinh(x: Expr) -> Operand:
    """log(|x| + sqrt(1 + x^2)) with the sign of x, accurate near zero."""
    a = call("abs", x)
    return call("sign", x) * call("log1p", a + a * a / (1.0 + call("sqrt", 1.0 + a * a)))


@formula(aten.acosh.default)
def acosh(x: Expr) -> Operand:
    t = x - 1.0
    return call("log1p", t + call("sqrt", t * 2.0 + t * t))


@formula(aten.atanh.default)
def atanh(x: Expr) -> Operand:
    a = call("abs", x)
    return call("sign", x) * call("log1p", a * 2.0 / (1.0 - a)) * 0.5


@formula(aten.neg.default)
def neg(x: Expr) -> Operand:
    return -x


@formula(aten.abs.default)
def absolute(x: Expr) -> Operand:
    return apply("abs", [x])


@formula(aten.sgn.default, aten.sign.default)
def sign(x: Expr) -> Operand:
    return call("sign", x)


@formula(aten.nextafter.default)
def nextafter(x: Expr, toward: Expr) -> Operand:
    return call("nextafter", x, toward)


@covers(aten.frexp.Tensor)
def frexp(b: Builder, x: View) -> tuple[View, ...]:
    """Mantissa and exponent."""
    return b.maps(lambda v: (call("mantissa", v), v.body.add("exponent", DType.I32, v)), x)


@formula(aten.reciprocal.default)
def reciprocal(x: Expr) -> Operand:
    return 1.0 / x


@formula(aten.square.default)
def square(x: Expr) -> Operand:
    return x * x


@formula(aten.atan2.default)
def atan2(y: Expr, x: Expr) -> Operand:
    return call("atan2", y, x)


@formula(aten.pow.Tensor_Scalar)
def pow_scalar(x: Expr, exponent: float) -> Operand:
    if float(exponent).is_integer() and 0 <= exponent <= 8:
        return integer_power(x, int(exponent))
    special: dict[float, Callable[[], Operand]] = {
        0.5: lambda: call("sqrt", x),
        -0.5: lambda: call("rsqrt", x),
        -1.0: lambda: 1.0 / x,
        -2.0: lambda: 1.0 / (x * x),
    }
    return special[exponent]() if exponent in special else call("pow", x, float(exponent))


def integer_power(x: Expr, exponent: int) -> Operand:
    if exponent == 0:
        return 1.0 if x.dtype is DType.F32 else 1
    half = integer_power(x, exponent // 2) if exponent > 1 else 1
    squared = half * half if isinstance(half, Expr) else half
    return x * squared if exponent % 2 else squared


@formula(aten.pow.Tensor_Tensor, aten.pow.Scalar)
def pow_tensor(x: Operand, exponent: Operand) -> Operand:
    return call("pow", x, exponent)


@formula(aten.maximum.default)
def maximum(x: Expr, y: Expr) -> Operand:
    return apply("max", [x, y])


@formula(aten.minimum.default)
def minimum(x: Expr, y: Expr) -> Operand:
    return apply("min", [x, y])


@formula(aten.clamp.default, aten.clamp.Tensor)
def clamp(x: Expr, low: Operand | None = None, high: Operand | None = None, **named: Operand) -> Operand:
    low, high = named.get("min", low), named.get("max", high)
    out = x if low is None else apply("max", [x, low])
    return out if high is None else apply("min", [out, high])


@formula(aten.clamp_min.default, aten.clamp_min.Tensor)
def clamp_min(x: Expr, low: Operand) -> Operand:
    return apply("max", [x, low])


@formula(aten.clamp_max.default, aten.clamp_max.Tensor)
def clamp_max(x: Expr, high: Operand) -> Operand:
    return apply("min", [x, high])


@formula(aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar)
def where(condition: Expr, yes: Operand, no: Operand) -> Operand:
    return select(condition, yes, no)


@formula(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(x: Expr, mask: Expr, value: Operand) -> Operand:
    if isinstance(value, (int, float)) and x.dtype is DType.F32:
        value = float(value)
    return select(mask, value, x)


@formula(aten.isnan.default)
def isnan(x: Expr) -> Operand:
    return apply("ne", [x, x])


@formula(aten.isinf.default)
def isinf(x: Expr) -> Operand:
    return apply("gt", [call("abs", x), 3.4028234663852886e38])


@formula(aten.copy.default)
def copied(_target: Expr, source: Expr, *_: Any) -> Operand:
    """What an in-place copy leaves."""
    return source


@formula(aten.clone.default, aten.contiguous.default)
def clone(x: Expr, *_: Any, **__: Any) -> Operand:
    return x


@formula(aten._to_copy.default)
def to_copy(x: Expr, **_: Any) -> Operand:
    return x


@formula(aten.addcmul.default)
def addcmul(x: Expr, a: Expr, c: Expr, value: float = 1) -> Operand:
    return x + scaled(a * c, value)


@formula(aten.addcdiv.default)
def addcdiv(x: Expr, a: Expr, c: Expr, value: float = 1) -> Operand:
    return x + scaled(a / c, value)


@formula(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(a: Expr, c: Expr, weight: Operand) -> Operand:
    """From the nearer end, as in PyTorch: with a weight of one it is the other value itself, however small."""
    near, far = a + (c - a) * weight, c - (c - a) * (1.0 - weight)
    if isinstance(weight, Expr):
        return select(call("abs", weight) < 0.5, near, far)
    return near if abs(weight) < 0.5 else far


@covers(aten.fake_quantize_per_tensor_affine_cachemask.default)
def fake_quantize(b: Builder, x: View, scale: float, zero: int, low: int, high: int) -> tuple[View, View]:
    """The nearest value (q - zero) * scale with low <= q <= high; and where that took no limit, the gradient passes."""
    inverse = torch.tensor(scale).reciprocal().item()

    def step(x: Expr) -> Expr:
        return call("round", x * inverse) + zero

    y = b.map(lambda x: (call("min", call("max", step(x), low), high) - zero) * scale, x)
    return y, b.map(lambda x: apply("and", [step(x) >= low, step(x) <= high]), x, dtype=DType.U8, suffix="inside")
