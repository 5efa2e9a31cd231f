"""Scalar expressions: the bodies of generated loops, as lists of instructions in single-assignment form."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from trainlib_deployer.formats import CONVERSIONS, DType


@dataclass(frozen=True)
class Const:
    """A literal operand."""

    value: float | int
    sign: float = field(init=False, repr=False)  # zeros of either sign are equal numbers, but other literals

    def __post_init__(self) -> None:
        object.__setattr__(self, "sign", math.copysign(1.0, self.value))


Arg = int | Const  # a value's index, or a literal


@dataclass(frozen=True)
class Instr:
    """One scalar operation; its result is the next value."""

    op: str
    args: tuple[Arg, ...]
    dtype: DType


# Instruction to C. Results are float unless the instruction's dtype says otherwise.
C_FORM: dict[str, str] = {
    "copy": "{0}",
    **CONVERSIONS,
    "nearby_half": "tl_nearby_half({0}, (uint32_t){1})",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "tl_divf({0}, {1})",
    "fma": "__builtin_fmaf({0}, {1}, {2})",
    "neg": "-{0}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "xor": "{0} ^ {1}",
    "not": "!{0}",
    "select": "{0} ? {1} : {2}",
    "ileft": "tl_lefti({0}, {1})",
    "iright": "tl_righti({0}, {1})",
    "shr": "(int32_t)((uint32_t){0} >> {1})",
    "unit": "(float)((uint32_t){0} >> 8) * 0x1p-24f",
    "idiv": "tl_floordivi({0}, {1})",
    "imod": "tl_remainderi({0}, {1})",
    "iquot": "tl_dividei({0}, {1})",
    "irest": "tl_resti({0}, {1})",
    "abs": "tl_absf({0})",
    "iabs": "tl_absi({0})",
    "sqrt": "tl_sqrtf({0})",
    "rsqrt": "tl_rsqrtf({0})",
    "inverse_root": "tl_inverse_rootf({0}, {1})",
    "inverse_root_near": "tl_inverse_root_nearf({0}, {1})",
    "exp": "tl_expf({0})",
    "exp2": "tl_exp2f({0})",
    "expm1": "tl_expm1f({0})",
    "log": "tl_logf({0})",
    "log2": "tl_log2f({0})",
    "log10": "tl_log10f({0})",
    "log1p": "tl_log1pf({0})",
    "softplus": "tl_softplusf({0})",
    "sin": "tl_sinf({0})",
    "cos": "tl_cosf({0})",
    "tan": "tl_tanf({0})",
    "asin": "tl_asinf({0})",
    "acos": "tl_acosf({0})",
    "atan": "tl_atanf({0})",
    "atan2": "tl_atan2f({0}, {1})",
    "sinh": "tl_sinhf({0})",
    "cosh": "tl_coshf({0})",
    "tanh": "tl_tanhf({0})",
    "erf": "tl_erff({0})",
    "erfc": "tl_erfcf({0})",
    "gauss_cdf": "tl_gauss_cdff({0})",
    "gauss_density": "tl_gauss_densityf({0})",
    "erfinv": "tl_erfinvf({0})",
    "lgamma": "tl_lgammaf({0})",
    "sigmoid": "tl_sigmoidf({0})",
    "pow": "tl_powf({0}, {1})",
    "floor": "tl_floorf({0})",
    "ceil": "tl_ceilf({0})",
    "trunc": "tl_truncf({0})",
    "round": "tl_roundf({0})",
    "fmod": "tl_fmodf({0}, {1})",
    "remainder": "tl_remainderf({0}, {1})",
    "max": "tl_maxf({0}, {1})",
    "min": "tl_minf({0}, {1})",  # a third operand: where that is finite, the first is a number (passes/clip_numbers.py)
    "imax": "({0} > {1} ? {0} : {1})",
    "imin": "({0} < {1} ? {0} : {1})",
    "sign": "tl_signf({0})",
    "mantissa": "tl_mantissaf({0})",
    "exponent": "tl_exponentf({0})",
    "nextafter": "tl_nextafterf({0}, {1})",
}

# Where the dtype is int32, these wrap around.
C_WRAPPING = {
    "add": "tl_addi({0}, {1})",
    "sub": "tl_subi({0}, {1})",
    "mul": "tl_muli({0}, {1})",
    "neg": "tl_negi({0})",
}

_COMPARE = {"lt", "le", "gt", "ge", "eq", "ne", "not"}
_INTEGER_FORM = {"max": "imax", "min": "imin", "abs": "iabs", "fmod": "irest", "remainder": "imod"}


@dataclass(frozen=True)
class Reduction:
    """Fold `value` over the reduced dimensions; sums of floats go through blocks (see emit/folds.py)."""

    op: str  # sum, max, min, prod
    value: int
    dtype: DType


@dataclass
class Body:
    """Collects inputs, then instructions, then reductions, then instructions on their results. Equal ones are
    shared."""

    inputs: list[DType] = field(default_factory=list)
    before: list[Instr] = field(default_factory=list)
    reductions: list[Reduction] = field(default_factory=list)
    after: list[Instr] = field(default_factory=list)
    known: dict[Instr, int] = field(default_factory=dict)

    def _next(self) -> int:
        return len(self.inputs) + len(self.before) + len(self.reductions) + len(self.after)

    def input(self, dtype: DType) -> Expr:
        assert not self.before, "inputs come first"
        self.inputs.append(dtype)
        return Expr(self, len(self.inputs) - 1, dtype)

    def add(self, op: str, dtype: DType, *args: Operand) -> Expr:
        instr = Instr(op, tuple(a.index if isinstance(a, Expr) else Const(a) for a in args), dtype)
        index = self.known.get(instr)
        if index is None:
            index = self.known[instr] = self._next()
            (self.after if self.reductions else self.before).append(instr)
        return Expr(self, index, dtype)

    def fold(self, op: str, value: Expr) -> Expr:
        assert not self.after, "one round of reductions a loop"
        index = self._next()
        self.reductions.append(Reduction(op, value.index, value.dtype))
        return Expr(self, index, value.dtype)


@dataclass(frozen=True)
class Expr:
    """A value under construction, with Python's arithmetic."""

    body: Body
    index: int
    dtype: DType

    def op(self, name: str, *others: Operand) -> Expr:
        operands: list[Operand] = [self, *others]
        return apply(name, operands)

    def __add__(self, other: Operand) -> Expr:
        return self if is_number(other, 0) else self.op("add", other)

    def __radd__(self, other: Operand) -> Expr:
        return self + other

    def __sub__(self, other: Operand) -> Expr:
        return self if is_number(other, 0) else self.op("sub", other)

    def __rsub__(self, other: Operand) -> Expr:
        return apply("sub", [other, self])

    def __mul__(self, other: Operand) -> Expr:
        return self if is_number(other, 1) else self.op("mul", other)

    def __rmul__(self, other: Operand) -> Expr:
        return self * other

    def __truediv__(self, other: Operand) -> Expr:
        if isinstance(other, (int, float)) and exact_reciprocal(other):
            return self * (1.0 / other)
        return apply("div", [self.float(), as_float(other)])

    def __rtruediv__(self, other: Operand) -> Expr:
        return apply("div", [as_float(other), self.float()])

    def __neg__(self) -> Expr:
        return self.op("neg")

    def __gt__(self, other: Operand) -> Expr:
        return self.op("gt", other)

    def __lt__(self, other: Operand) -> Expr:
        return self.op("lt", other)

    def __ge__(self, other: Operand) -> Expr:
        return self.op("ge", other)

    def __le__(self, other: Operand) -> Expr:
        return self.op("le", other)

    def equals(self, other: Operand) -> Expr:
        return self.op("eq", other)

    def cast(self, dtype: DType) -> Expr:
        if dtype is self.dtype:
            return self
        if dtype is DType.U8:  # as bool: anything but zero is true
            return self.op("ne", 0)
        return self.body.add("copy", dtype, self)

    def float(self) -> Expr:
        return self.cast(DType.F32)


Operand = Expr | float | int


def is_number(value: Operand, number: float) -> bool:
    return isinstance(value, (int, float)) and value == number


def exact_reciprocal(value: float) -> bool:
    """True for powers of two: multiplying by the reciprocal then gives the very same bits."""
    if value == 0 or not math.isfinite(value):
        return False
    mantissa = abs(float(value)).hex().split("p")[0]
    return mantissa == "0x1.0000000000000"


def as_float(value: Operand) -> Operand:
    return value.float() if isinstance(value, Expr) else float(value)


def joined(operands: Iterable[Operand]) -> DType:
    """The common type of an arithmetic operation: float wins over integer, integer over bool."""
    types = {o.dtype if isinstance(o, Expr) else literal_type(o) for o in operands}
    return next((t for t in (DType.F32, DType.I32, DType.U16) if t in types), DType.U8)


def literal_type(value: float | int) -> DType:
    if isinstance(value, bool):
        return DType.U8
    return DType.I32 if isinstance(value, int) else DType.F32


def apply(name: str, operands: list[Operand]) -> Expr:
    """An instruction on operands brought to their common type."""
    body = next(o.body for o in operands if isinstance(o, Expr))
    values = operands[1:] if name == "select" else operands
    dtype = joined(values)
    if name in ("and", "or", "xor", "not"):
        return body.add(name, dtype, *operands)
    if dtype is DType.U8 and name not in _COMPARE and name not in ("select", "copy"):
        dtype = DType.I32
    typed: list[Operand] = [_typed(v, dtype) for v in values]
    if name in _COMPARE:
        return body.add(name, DType.U8, *typed)
    if dtype is not DType.F32:
        name = _INTEGER_FORM.get(name, name)
    return body.add(name, dtype, *operands[:1], *typed) if name == "select" else body.add(name, dtype, *typed)


def _typed(value: Operand, dtype: DType) -> Operand:
    if isinstance(value, Expr):
        return value.cast(dtype)
    return float(value) if dtype is DType.F32 else int(value)


def select(condition: Expr, yes: Operand, no: Operand) -> Expr:
    return apply("select", [condition, yes, no])


def call(name: str, *operands: Operand) -> Expr:
    """A function of floats, such as exp."""
    return apply(name, [as_float(o) for o in operands])
