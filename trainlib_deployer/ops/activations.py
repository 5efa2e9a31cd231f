"""Activations and their gradients, as formulas on scalars. A gradient's first operand is dL/dy."""

from __future__ import annotations

import math
from typing import Any

import torch

from trainlib_deployer.ops.build import Builder
from trainlib_deployer.ops.pointwise import clamp, formula, result_dtype, scaled
from trainlib_deployer.ops.registry import covers
from trainlib_deployer.program.expr import Expr, Operand, apply, call, select
from trainlib_deployer.program.ir import View

aten = torch.ops.aten


@formula(aten.relu.default)
def relu(x: Expr) -> Operand:
    return select(x <= 0.0, 0.0, x)  # NaN stays NaN


@formula(aten.threshold_backward.default)
def threshold_backward(g: Expr, x: Expr, threshold: float) -> Operand:
    return select(x <= float(threshold), 0.0, g)


@formula(aten.threshold.default)
def threshold(x: Expr, limit: float, value: float) -> Operand:
    return select(x <= float(limit), float(value), x)


@formula(aten.leaky_relu.default)
def leaky_relu(x: Expr, slope: float = 0.01) -> Operand:
    return select(x > 0.0, x, x * float(slope))


@formula(aten.leaky_relu_backward.default)
def leaky_relu_backward(g: Expr, x: Expr, slope: float, _result: bool) -> Operand:
    return select(x > 0.0, g, g * float(slope))


@formula(aten._prelu_kernel.default)
def prelu(x: Expr, slope: Expr) -> Operand:
    return select(x > 0.0, x, x * slope)


@covers(aten._prelu_kernel_backward.default)
def prelu_backward(b: Builder, g: View, x: View, slope: View) -> tuple[View, ...]:
    return b.maps(
        lambda g, x, s: (select(x > 0.0, g, g * s), select(x > 0.0, 0.0, x * g)), g, x, slope, dtypes=(None, None)
    )


@formula(aten.hardtanh.default)
def hardtanh(x: Expr, low: float = -1, high: float = 1) -> Operand:
    return clamp(x, float(low), float(high))


@formula(aten.hardtanh_backward.default)
def hardtanh_backward(g: Expr, x: Expr, low: float, high: float) -> Operand:
    return select(apply("or", [x <= float(low), x >= float(high)]), 0.0, g)


@formula(aten.relu6.default)
def relu6(x: Expr) -> Operand:
    return clamp(x, 0.0, 6.0)


@formula(aten.elu.default)
def elu(x: Expr, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Operand:
    below = call("expm1", scaled(x, float(input_scale))) * (float(alpha) * float(scale))
    return select(x <= 0.0, below, scaled(x, float(scale)))


@formula(aten.elu_backward.default)
def elu_backward(g: Expr, alpha: float, scale: float, input_scale: float, is_result: bool, x: Expr) -> Operand:
    factor = float(alpha) * float(scale)
    if is_result:
        below = g * float(input_scale) * (x + factor)
    else:
        below = g * (float(input_scale) * factor) * call("exp", scaled(x, float(input_scale)))
    return select(x <= 0.0, below, scaled(g, float(scale)))


@formula(aten.sigmoid_backward.default)
def sigmoid_backward(g: Expr, y: Expr) -> Operand:
    return g * ((1.0 - y) * y)


@formula(aten.tanh_backward.default)
def tanh_backward(g: Expr, y: Expr) -> Operand:
    return g * (1.0 - y * y)


@formula(aten.silu.default)
def silu(x: Expr) -> Operand:
    return x * call("sigmoid", x)


@formula(aten.silu_backward.default)
def silu_backward(g: Expr, x: Expr) -> Operand:
    s = call("sigmoid", x)
    return g * apply("fma", [x * s, 1.0 - s, s])


@formula(aten.mish.default)
def mish(x: Expr) -> Operand:
    return x * call("tanh", softplus(x))


@formula(aten.mish_backward.default)
def mish_backward(g: Expr, x: Expr) -> Operand:
    t = call("tanh", softplus(x))
    return g * (t + x * call("sigmoid", x) * (1.0 - t * t))


@formula(aten.softplus.default)
def softplus(x: Expr, beta: float = 1, limit: float = 20) -> Expr:
    z = x * float(beta)
    value = call("softplus", z) / float(beta)
    return value if math.isinf(limit) else select(z > float(limit), x, value)


@formula(aten.softplus_backward.default)
def softplus_backward(g: Expr, x: Expr, beta: float, limit: float) -> Operand:
    z = x * float(beta)
    slope = g * call("sigmoid", z)
    return slope if math.isinf(limit) else select(z > float(limit), g, slope)


@formula(aten.hardswish.default)
def hardswish(x: Expr) -> Operand:
    return x * clamp(x + 3.0, 0.0, 6.0) * (1 / 6)


@formula(aten.hardswish_backward.default)
def hardswish_backward(g: Expr, x: Expr) -> Operand:
    return select(x <= -3.0, 0.0, select(x < 3.0, g * (x * (1 / 3) + 0.5), g))


@formula(aten.hardsigmoid.default)
def hardsigmoid(x: Expr) -> Operand:
    return clamp(x + 3.0, 0.0, 6.0) * (1 / 6)


@formula(aten.hardsigmoid_backward.default)
def hardsigmoid_backward(g: Expr, x: Expr) -> Operand:
    return select(apply("and", [x > -3.0, x < 3.0]), g * (1 / 6), 0.0)


@formula(aten.gelu.default)
def gelu(x: Expr, approximate: str = "none") -> Operand:
    if approximate == "tanh":
        return x * 0.5 * (1.0 + call("tanh", gelu_inner(x)))
    return x * call("gauss_cdf", x)


@formula(aten.gelu_backward.default)
def gelu_backward(g: Expr, x: Expr, approximate: str = "none") -> Operand:
    if approximate == "tanh":
        t = call("tanh", gelu_inner(x))
        slope = math.sqrt(2 / math.pi) * (1.0 + x * x * (3 * 0.044715))
        return g * (0.5 * (1.0 + t) + 0.5 * x * ((1.0 - t * t) * slope))
    return g * apply("fma", [x, call("gauss_density", x), call("gauss_cdf", x)])


def gelu_inner(x: Expr) -> Expr:
    return math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))


@formula(aten.angle.default)
def angle(x: Expr) -> Operand:
    """Of a real number; one that is none stays so."""
    return select(x < 0.0, math.pi, select(x.equals(x), 0.0, x))


@formula(aten.hardshrink_backward.default)
def hardshrink_backward(g: Expr, x: Expr, limit: float) -> Operand:
    return select(call("abs", x) <= float(limit), 0.0, g)


@formula(aten.softshrink_backward.default)
def softshrink_backward(g: Expr, x: Expr, limit: float) -> Operand:
    return select(call("abs", x) <= float(limit), 0.0, g)


@covers(aten.log_sigmoid_forward.default)
def log_sigmoid_forward(b: Builder, x: View) -> tuple[View, View]:
    return b.map(lambda x: -call("softplus", -x), x), x


@covers(aten.log_sigmoid_backward.default)
def log_sigmoid_backward(b: Builder, g: View, x: View, _buffer: View) -> View:
    return b.map(lambda g, x: g * call("sigmoid", -x), g, x)


# ---- creation


@covers(aten.full.default)
def full(b: Builder, shape: list[int], value: float, **_: Any) -> View:
    return b.fill(shape, value, result_dtype(b))


@covers(aten.full_like.default)
def full_like(b: Builder, like: View, value: float, **_: Any) -> View:
    return b.fill(like.shape, value, result_dtype(b))


@covers(aten.zeros_like.default, aten.new_zeros.default, aten.zeros.default)
def zeros(b: Builder, *_: Any, **__: Any) -> View:
    return b.fill(tuple(b.meta.shape), 0, result_dtype(b))


@covers(aten.ones_like.default, aten.new_ones.default, aten.ones.default)
def ones(b: Builder, *_: Any, **__: Any) -> View:
    return b.fill(tuple(b.meta.shape), 1, result_dtype(b))


@covers(aten.new_full.default)
def new_full(b: Builder, _: View, shape: list[int], value: float, **__: Any) -> View:
    return b.fill(shape, value, result_dtype(b))


@covers(aten.scalar_tensor.default)
def scalar_tensor(b: Builder, value: float, **_: Any) -> View:
    return b.fill((), value, result_dtype(b))


@covers(aten.arange.default, aten.arange.start, aten.arange.start_step, aten.linspace.default)
def first_position(b: Builder, *bounds: float, **_: Any) -> View:
    """Of a single element: those of several are constants by now, and folded."""
    starts_at_zero = len(bounds) == 1
    return b.fill(tuple(b.meta.shape), 0 if starts_at_zero else bounds[0], result_dtype(b))


@covers(
    aten.empty.memory_format,
    aten.empty_like.default,
    aten.new_empty.default,
    aten.new_empty_strided.default,
    aten.empty_strided.default,
)
def empty(b: Builder, *_: Any, **__: Any) -> View:
    return b.fill(tuple(b.meta.shape), 0, result_dtype(b))
