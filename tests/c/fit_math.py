"""Minimax coefficients of tl_math.h and math*.c: prints each polynomial as C float literals, lowest order first.

Each row fits a polynomial P(u) to a smooth target with the error weighted as it enters the result. Coefficients are
rounded to float one by one, lowest order first, and the rest is fitted again, so that the rounding of one is absorbed
by the others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt

mp.mp.dps = 60
Doubles = npt.NDArray[np.float64]
Real = Callable[[mp.mpf], mp.mpf]


@dataclass(frozen=True)
class Fit:
    """P of `degree` such that `weight * (P - target)` is small over [lo, hi]."""

    name: str
    target: Real
    weight: Real
    lo: float
    hi: float
    degree: int


def nodes(fit: Fit, count: int = 600) -> Doubles:
    x = np.cos(np.pi * (np.arange(count) + 0.5) / count)
    u = fit.lo + (fit.hi - fit.lo) * (x + 1) / 2
    return np.where(np.abs(u) < 1e-6, 1e-6, u)


def minimax(u: Doubles, target: Doubles, weight: Doubles, powers: range) -> Doubles:
    """Lawson's iteration: least squares whose weights grow where the error is large."""
    scale = np.abs(u).max()
    basis = weight[:, None] * (u[:, None] / scale) ** np.array(powers)
    goal, lawson = weight * target, np.ones_like(u)
    best, best_error = None, np.inf
    for _ in range(300):
        root = np.sqrt(lawson)
        c = np.linalg.lstsq(basis * root[:, None], goal * root, rcond=1e-18)[0]
        error = np.abs(basis @ c - goal)
        if error.max() < best_error:
            best, best_error = c, error.max()
        lawson = lawson * (error / (error.max() + 1e-300) + 1e-3)
        lawson /= lawson.mean()
    assert best is not None
    scaled: Doubles = best / scale ** np.array(powers)
    return scaled


def solve(fit: Fit) -> tuple[list[np.float32], float]:
    u = nodes(fit)
    target = np.array([float(fit.target(mp.mpf(float(v)))) for v in u])
    weight = np.array([float(fit.weight(mp.mpf(float(v)))) for v in u])
    rest, out = target.copy(), []
    for power in range(fit.degree + 1):
        c = np.float32(minimax(u, rest, weight, range(power, fit.degree + 1))[0])
        out.append(c)
        rest = rest - float(c) * u**power
    return out, float(np.abs(weight * rest).max())


def root(u: mp.mpf) -> mp.mpf:
    return mp.sqrt(u)


def stirling(v: mp.mpf) -> mp.mpf:
    """x (lgamma x - (x - 1/2) (log x - 1) - (log 2 pi - 1) / 2) with v = 1 / x^2."""
    x = 1 / root(v)
    return x * (mp.loggamma(x) - (x - 0.5) * (mp.log(x) - 1) - (mp.log(2 * mp.pi) - 1) / 2)


def digamma_rest(v: mp.mpf) -> mp.mpf:
    """x^2 (log x - 1 / 2x - digamma x) with v = 1 / x^2."""
    x = 1 / root(v)
    return x**2 * (mp.log(x) - 1 / (2 * x) - mp.digamma(x))


DIGAMMA_ROOT = mp.findroot(mp.digamma, mp.mpf("1.4616321449683623"))


def digamma_slope(x: mp.mpf) -> mp.mpf:
    return mp.digamma(x) / (x - DIGAMMA_ROOT)


def erfinv_of(w: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    """x and erfinv(x) / x with w = -log(1 - x^2)."""
    x = root(-mp.expm1(-w))
    return x, mp.erfinv(x) / x


def erfcx_scaled(q: mp.mpf) -> mp.mpf:
    """(1 + 2 x) e^(x^2) erfc(x) - 1 with q = (x - 4) / (x + 4)."""
    x = 4 * (1 + q) / (1 - q)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x) - 1


def gauss_slope(u: mp.mpf) -> mp.mpf:
    return (mp.ncdf(root(u)) - mp.mpf(0.5)) / root(u)


def gauss_weight(u: mp.mpf) -> mp.mpf:
    return root(u) / max(mp.ncdf(-root(u)), mp.mpf(0.125))


def one(u: mp.mpf) -> mp.mpf:
    return mp.mpf(1)


FITS = [
    # e^r = 1 + r + r^2 P(r); the weight lies between those of e^r and e^r - 1, which share it
    Fit("exp", lambda r: (mp.expm1(r) - r) / r**2, lambda r: abs(r) ** 1.5 * mp.exp(-r), -0.3475, 0.3475, 4),
    # log(1 + f) = f - f^2 / 2 + f^3 P(f)
    Fit("log", lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3, lambda f: f**3 / mp.log1p(f), -0.33334, 0.33334, 8),
    # tanh x = x + x u P(u), u = x^2
    Fit("tanh", lambda u: (mp.tanh(root(u)) / root(u) - 1) / u, lambda u: u, 0.0, 0.36, 4),
    # erf x = x + x P(u), u = x^2
    Fit("erf", lambda u: mp.erf(root(u)) / root(u) - 1, one, 0.0, 1.001, 6),
    # the normal distribution at x: 1 / 2 + x P(u), u = x^2
    Fit("gauss_cdf", gauss_slope, gauss_weight, 0.0, 3.0656, 6),
    # the normal density at x: P(u), u = x^2
    Fit("gauss_density", lambda u: mp.npdf(root(u)), lambda u: 1 / mp.npdf(root(u)), 0.0, 3.0656, 7),
    # erf x = 1 - exp(-P(x))
    Fit("erf_tail", lambda x: -mp.log(mp.erfc(x)), mp.erfc, 0.92, 4.0, 8),
    # 2^r = 1 + r P(r)
    Fit("exp2", lambda r: mp.expm1(r * mp.log(2)) / r, lambda r: r, -0.5, 0.5, 6),
    # atanh s = s + s u (1 / 3 + u P(u)), u = s^2
    Fit("atanh", lambda u: (mp.atanh(root(u)) / root(u) - 1 - u / 3) / u**2, lambda u: u**2, 0.0, 0.0401, 3),
    # sinh x = x + x u P(u), u = x^2
    Fit("sinh", lambda u: (mp.sinh(root(u)) / root(u) - 1) / u, lambda u: u, 0.0, 1.0, 3),
    # sin r = r + r u P(u), cos r = 1 - u / 2 + u^2 P(u), u = r^2
    Fit("sin", lambda u: (mp.sin(root(u)) / root(u) - 1) / u, lambda u: u, 0.0, 0.6190, 3),
    Fit("cos", lambda u: (mp.cos(root(u)) - 1 + u / 2) / u**2, lambda u: u**2, 0.0, 0.6190, 3),
    # asin x = x + x u P(u), u = x^2 <= 1 / 4; atan x likewise, u <= 1
    Fit("asin", lambda u: (mp.asin(root(u)) / root(u) - 1) / u, lambda u: u, 0.0, 0.25, 5),
    Fit("atan", lambda u: (mp.atan(root(u)) / root(u) - 1) / u, lambda u: u, 0.0, 1.0, 8),
    # (1 + 2 x) e^(x^2) erfc(x) = 1 + P(q)
    Fit("erfc", erfcx_scaled, one, -0.6843, 0.4365, 10),
    # erfinv x = x P(w - 2.5) for w < 5, x P(sqrt(w) - 3) beyond
    Fit("erfinv", lambda v: erfinv_of(v + 2.5)[1], lambda v: 1 / erfinv_of(v + 2.5)[1], -2.4999, 2.5, 10),
    Fit("erfinv_tail", lambda v: erfinv_of((v + 3) ** 2)[1], lambda v: 1 / erfinv_of((v + 3) ** 2)[1], -0.764, 1.08, 9),
    # lgamma(1 + y) = y P(y) for -0.45 < y < 0.55, lgamma(2 + z) = z P(z) for -0.45 < z < 1
    Fit("lgamma1", lambda y: mp.loggamma(1 + y) / y, lambda y: y / mp.loggamma(1 + y), -0.4501, 0.5501, 12),
    Fit("lgamma2", lambda z: mp.loggamma(2 + z) / z, lambda z: z / mp.loggamma(2 + z), -0.4501, 1.0001, 10),
    # the rest of Stirling's formula for x >= 3, that of log x - 1 / 2x for x >= 2
    Fit("stirling", stirling, root, 1e-9, 0.112, 4),
    Fit("digamma_rest", digamma_rest, lambda v: v, 1e-9, 0.2501, 5),
    # digamma x = (x - x0) P(x - 1.5) for 1 <= x <= 2
    Fit("digamma", lambda v: digamma_slope(v + 1.5), lambda v: 1 / digamma_slope(v + 1.5), -0.5001, 0.5001, 9),
    # pi / tan(pi r) = 1 / r - r P(r^2), sin(pi r) = r P(r^2)
    Fit("cot", lambda u: (1 / root(u) - mp.pi * mp.cot(mp.pi * root(u))) / root(u), root, 1e-6, 0.25, 7),
    Fit("sinpi", lambda u: mp.sinpi(root(u)) / root(u), lambda u: root(u) / mp.sinpi(root(u)), 0.0, 0.25, 5),
]


def main() -> None:
    for fit in FITS:
        if len(sys.argv) > 1 and fit.name not in sys.argv[1:]:
            continue
        coefficients, error = solve(fit)
        print(f"{fit.name}: error {error:.2e} = {error * 2**24:.3f} half ulp")
        print("    " + ", ".join(f"{float(c):.9g}f" for c in coefficients))


if __name__ == "__main__":
    main()
