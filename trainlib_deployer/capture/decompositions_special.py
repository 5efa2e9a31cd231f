"""Special functions in terms of elementary ones, each accurate to a few roundings of float32."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten
Tensor = torch.Tensor
EULER = 0.5772156649015329


def polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """The first one is the constant."""
    found = torch.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        found = found * x + c
    return found


# ---- the gamma function


def zeta_beyond_one(s: int) -> float:
    """zeta(s) - 1."""
    few = 20
    head = math.fsum(float(k) ** -s for k in range(2, few))
    tail = few ** (1.0 - s) / (s - 1) + float(few) ** -s / 2 + s * few ** (-s - 1.0) / 12
    return head + float(tail)


# log(gamma(2 + t)) / t: around two, where it is zero, the series keeps its accuracy
AROUND_TWO = (1 - EULER, *((-1) ** k * zeta_beyond_one(k) / k for k in range(2, 18)))
FAR = 7.5  # from here on, Stirling's series
HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


def log_gamma_of_positive(x: Tensor) -> Tensor:
    """Below 1.5 by one step up, above 2.5 by as many steps down as are needed."""
    near, factor = torch.where(x < 1.5, x + 1, x), torch.where(x < 1.5, 1 / x, torch.ones_like(x))
    for _ in range(math.ceil(FAR - 2.5)):
        lower = near - 1
        goes = near > 2.5
        factor = torch.where(goes, factor * lower, factor)
        near = torch.where(goes, lower, near)
    t = near - 2
    around = t * polynomial(t, AROUND_TWO) + factor.log()
    big = x.clamp(min=FAR)
    r = 1 / big
    far = (big - 0.5) * (big.log() - 1) + HALF_LOG_TAU - 0.5 + r * (1 / 12 - r * r * (1 / 360 - r * r / 1260))
    return torch.where(x < FAR, around, far)


def lgamma(x: Tensor) -> Tensor:
    mirrored = x < 0.5
    found = log_gamma_of_positive(torch.where(mirrored, 1 - x, x))
    from_pole = torch.where(mirrored, x - x.round(), torch.full_like(x, 0.5))
    below = math.log(math.pi) - (math.pi * from_pole).sin().abs().log() - found
    return torch.where(x == -math.inf, math.inf, torch.where(mirrored, below, found))


STEPS = 8


def digamma(x: Tensor) -> Tensor:
    mirrored = x < 0.5
    y = torch.where(mirrored, 1 - x, x)
    steps = sum((1 / (y + k) for k in range(1, STEPS)), 1 / y)
    z = y + STEPS
    r = 1 / (z * z)
    found = z.log() - 0.5 / z - r * (1 / 12 - r * (1 / 120 - r / 252)) - steps
    from_pole = torch.where(mirrored, x - x.round(), torch.full_like(x, 0.5))
    below = found - math.pi / (math.pi * from_pole).tan()
    return torch.where((x < 0) & (from_pole == 0), math.nan, torch.where(mirrored, below, found))


TERMS = 20  # x may be as small as 10 - TERMS


def polygamma(n: int, x: Tensor) -> Tensor:
    """Far below zero by reflection: the n-th derivative of psi(1 - x) - psi(x) = pi cot(pi x), a polynomial in the
    cotangent."""
    if n == 0:
        return digamma(x)
    mirrored = x < 10 - TERMS
    found = polygamma_of_larger(n, torch.where(mirrored, 1 - x, x))
    powers = [0, 1]  # cot' = -1 - cot^2
    for _ in range(n):
        slopes = [k * c for k, c in enumerate(powers)][1:]
        powers = [-a - b for a, b in zip([*slopes, 0, 0], [0, 0, *slopes], strict=True)]
    from_pole = torch.where(mirrored, x - x.round(), torch.full_like(x, 0.5))
    beyond = polynomial(1 / (math.pi * from_pole).tan(), powers) * -(math.pi ** (n + 1))
    below = torch.where(from_pole == 0, (-1) ** (n + 1) * math.inf, beyond + (-1) ** n * found)
    return torch.where(mirrored, below, found)


def polygamma_of_larger(n: int, x: Tensor) -> Tensor:
    """The sum of 1 / (x + k)^(n + 1), its tail by Euler and Maclaurin."""
    s = n + 1
    head: Tensor = sum(((x + k) ** -s for k in range(1, TERMS)), x**-s)
    z = x + TERMS
    power = z**-n
    tail = power * (1 / n + (0.5 + s / (12 * z)) / z - s * (s + 1) * (s + 2) / (720 * z**4))
    total: Tensor = head + tail
    return total * float((-1) ** s * math.factorial(n))


# ---- Bessel functions of an imaginary argument

NEAR = 8.0
SERIES = 24


def bessel(order: int, beyond: Sequence[float]) -> Callable[[Tensor], Tensor]:
    """exp(-|x|) I(x): the series of positive terms, or `beyond` in 16 / |x| - 1 over the root of |x|."""
    terms = [1 / (math.factorial(k) * math.factorial(k + order)) for k in range(SERIES)]

    def scaled(x: Tensor) -> Tensor:
        size = x.abs()
        small, big = size.clamp(max=NEAR), size.clamp(min=NEAR)
        near = polynomial(small * small * 0.25, terms) * (-small).exp()
        if order:
            near = near * small * 0.5
        found = torch.where(size < NEAR, near, polynomial(16 / big - 1, beyond) * big.rsqrt())
        return torch.where(x < 0, -found, found) if order else found

    return scaled


BEYOND_0 = (
    *(0.402176509, 0.00336055203, 0.000136217408, 1.11415422e-05),
    *(1.47547564e-06, 3.03833095e-07, 1.09102324e-07, 3.36357999e-08),
)
BEYOND_1 = (
    *(0.389398459, -0.00974957724, -0.000219237385, -1.50370471e-05),
    *(-1.82500693e-06, -3.54819542e-07, -1.23184201e-07, -3.78560241e-08),
)
i0e, i1e = bessel(0, BEYOND_0), bessel(1, BEYOND_1)


# ---- the normal distribution

# (1 + x) exp(x^2) erfc(x) in (x - 2) / (x + 2), for x from 0 on
SCALED_TAIL = (
    *(0.766187029, -0.259974837, 0.0378138983, 0.0425363456, -0.0252435584, -0.000518223144, 0.00393781444),
    *(0.000144352136, -0.000707006823, -0.000138939361, 0.000118235619, 5.99054516e-05, -1.02624515e-05),
    *(-1.5922742e-05, -2.00548076e-06, 2.11071184e-06, 6.47607451e-07),
)


def erfcx(x: Tensor) -> Tensor:
    """exp(x^2) erfc(x) without the overflow."""
    size = x.abs()
    found = polynomial(1 - 4 / (size + 2), SCALED_TAIL) / (1 + size)
    return torch.where(x < 0, 2 * (size * size).exp() - found, found)


def log_ndtr(x: Tensor) -> Tensor:
    low, high = x.clamp(max=-1.0) * -math.sqrt(0.5), x.clamp(min=-1.0) * math.sqrt(0.5)
    return torch.where(x < -1, (erfcx(low) * 0.5).log() - x * x * 0.5, torch.log1p(-0.5 * torch.erfc(high)))


# -ndtri(p) / t in (t - 4) / (t + 4) for t = sqrt(-2 log p), from 2 on
NORMAL_TAIL = (
    *(0.850298166, 0.486196081, -0.758661314, 0.909502752, -1.01706051, 1.09478211, -1.15882998),
    *(1.21179553, -1.2295885, 1.22237605, -1.39888005, 1.7814645, -1.62174003, 0.650857974),
)


def ndtri(p: Tensor) -> Tensor:
    """Where the normal distribution reaches p."""
    rest = torch.minimum(p, 1 - p)
    t = (rest.log() * -2).sqrt()
    size = polynomial(1 - 8 / (t + 4), NORMAL_TAIL) * t
    return torch.where(rest < math.exp(-2), torch.where(p < 0.5, -size, size), torch.erfinv(2 * p - 1) * math.sqrt(2))


def of_floats(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Whole numbers are converted first, as PyTorch does."""

    def on_floats(*given: Any) -> Tensor:
        whole = [isinstance(v, Tensor) and not v.is_floating_point() for v in given]
        return function(*(v.to(torch.get_default_dtype()) if w else v for v, w in zip(given, whole, strict=True)))

    return on_floats


FUNCTIONS: dict[Any, Callable[..., Tensor]] = {
    aten.lgamma.default: lgamma,
    aten.digamma.default: digamma,
    aten.polygamma.default: polygamma,
    aten.special_i0e.default: i0e,
    aten.special_i1e.default: i1e,
    aten.i0.default: lambda x: i0e(x) * x.abs().exp(),
    aten.special_i1.default: lambda x: i1e(x) * x.abs().exp(),
    aten.special_erfcx.default: erfcx,
    aten.special_log_ndtr.default: log_ndtr,
    aten.special_ndtri.default: ndtri,
}
TABLE: dict[Any, Callable[..., Any]] = {target: of_floats(f) for target, f in FUNCTIONS.items()}
