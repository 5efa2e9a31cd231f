"""The elementary functions of tl_math.h against double precision: random bit patterns, moderate and special values."""

from __future__ import annotations

import ctypes
import math
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

pytestmark = pytest.mark.compiler
LIBRARY = Path(__file__).parents[2] / "c_lib"
COUNT = 100_000

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Reference = Callable[..., torch.Tensor]

SPECIALS = [0.0, 1e-45, 1.1754942e-38, 1.17549435e-38, 6e-8, 0.25, 0.5, 0.99999994, 1.0, 1.0000001, 1.5, 2.0, 2.5, 3.0]
SPECIALS += [4.0, 8388607.5, 8388608.0, 88.72284, 88.8, 89.5, 103.972, 104.0, 3.40282347e38, math.inf, math.nan]


@dataclass(frozen=True)
class Function:
    """`spread` is the size of the moderate inputs; `reflected` bounds the terms that cancel where x < 0."""

    reference: Reference
    max_ulp: float
    spread: float
    reflected: Callable[[torch.Tensor], torch.Tensor] | None = None
    arguments: int = 1


def softplus(x: torch.Tensor) -> torch.Tensor:
    return torch.clamp(x, min=0.0) + torch.log1p(torch.exp(-x.abs()))


def gauss_cdf(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * torch.erfc(-math.sqrt(0.5) * x)


def gauss_density(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


def lgamma_reflected(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x < 0, torch.lgamma(-x).abs().clamp(min=1.0), 0.0)


def digamma_reflected(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x < 0, torch.digamma(1.0 - x).abs().clamp(min=1.0), 0.0)


def nan_max(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.where((a > b) | a.isnan(), a, b)


def nan_min(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.where((a < b) | a.isnan(), a, b)


FUNCTIONS = {
    "exp": Function(torch.exp, 1.0, 100.0),
    "expm1": Function(torch.expm1, 1.3, 40.0),
    "exp2": Function(torch.exp2, 1.0, 150.0),
    "log": Function(torch.log, 1.0, 3.0),
    "log1p": Function(torch.log1p, 1.6, 3.0),
    "log2": Function(torch.log2, 1.2, 3.0),
    "log10": Function(torch.log10, 1.3, 3.0),
    "sqrt": Function(torch.sqrt, 0.5, 10.0),
    "rsqrt": Function(torch.rsqrt, 0.501, 10.0),
    "inverse_root": Function(lambda x: 1.0 / (torch.sqrt(x) + float(np.float32(1e-3))), 3.5, 10.0),
    "inverse_root_near": Function(lambda x: 1.0 / (torch.sqrt(x) + float(np.float32(1e-2))), 3.5, 10.0),
    "inverse_root_near_least": Function(lambda x: 1.0 / (torch.sqrt(x) + 2.0**-36), 3.5, 2.0**-48),
    "inverse_root_least": Function(lambda x: 1.0 / (torch.sqrt(x) + 2.0**-36), 3.5, 2.0**-48),
    "sigmoid": Function(torch.sigmoid, 2.7, 30.0),
    "softplus": Function(softplus, 1.8, 30.0),
    "tanh": Function(torch.tanh, 1.5, 5.0),
    "sinh": Function(torch.sinh, 1.1, 30.0),
    "cosh": Function(torch.cosh, 1.1, 30.0),
    "sin": Function(torch.sin, 0.9, 10000.0),
    "cos": Function(torch.cos, 0.9, 10000.0),
    "tan": Function(torch.tan, 2.5, 10000.0),
    "asin": Function(torch.asin, 0.7, 1.0),
    "acos": Function(torch.acos, 0.7, 1.0),
    "atan": Function(torch.atan, 1.2, 5.0),
    "erf": Function(torch.erf, 1.0, 3.0),
    "erfc": Function(torch.erfc, 1.3, 8.0),
    "gauss_cdf": Function(gauss_cdf, 3.3, 4.0, lambda x: torch.full_like(x, 0.125)),
    "gauss_density": Function(gauss_density, 3.1, 4.0, lambda x: torch.full_like(x, 0.125)),
    "erfinv": Function(torch.erfinv, 2.7, 1.0),
    "lgamma": Function(torch.lgamma, 4.0, 10.0, lgamma_reflected),
    "digamma": Function(torch.digamma, 3.0, 10.0, digamma_reflected),
    "sign": Function(torch.sgn, 0.0, 1.0),
    "mantissa": Function(lambda x: torch.frexp(x)[0], 0.0, 100.0),
    "exponent": Function(lambda x: torch.frexp(x)[1].double(), 0.0, 100.0),
    "nextafter": Function(
        lambda x, toward: torch.nextafter(x.float(), toward.float()).double(), 0.0, 100.0, arguments=2
    ),
    "trunc": Function(torch.trunc, 0.0, 100.0),
    "floor": Function(torch.floor, 0.0, 100.0),
    "ceil": Function(torch.ceil, 0.0, 100.0),
    "round": Function(torch.round, 0.0, 100.0),
    "pow": Function(torch.pow, 1.0, 20.0, arguments=2),
    "atan2": Function(torch.atan2, 1.7, 5.0, arguments=2),
    "fmod": Function(torch.fmod, 0.0, 30.0, arguments=2),
    "remainder": Function(torch.remainder, 0.5, 30.0, arguments=2),
    "min": Function(nan_min, 0.0, 1.0, arguments=2),
    "max": Function(nan_max, 0.0, 1.0, arguments=2),
    "smaller_yet": Function(lambda a, b: nan_min(b, a), 0.0, 1.0, arguments=2),
    "larger_yet": Function(lambda a, b: nan_max(b, a), 0.0, 1.0, arguments=2),
}


CALLS = {
    **{"inverse_root": "tl_inverse_rootf(x[i], 1e-3f)", "inverse_root_least": "tl_inverse_rootf(x[i], 0x1p-36f)"},
    "inverse_root_near": "tl_inverse_root_nearf(x[i], 1e-2f)",
    "inverse_root_near_least": "tl_inverse_root_nearf(x[i], 0x1p-36f)",
}
LIMITS = {"at_least": "max", "at_most": "min"}


def wrapper_source() -> str:
    lines = ['#include "tl_math.h"']
    for name, function in FUNCTIONS.items():
        second, argument = (", const float *y", ", y[i]") if function.arguments == 2 else ("", "")
        call = CALLS.get(name, f"tl_{name}f(x[i]{argument})")
        lines.append(f"void map_{name}(int n, float *out, const float *x{second})")
        lines.append(f"{{ for (int i = 0; i < n; i++) out[i] = {call}; }}")
    for name in LIMITS:
        lines.append(f"void map_{name}(int n, float *out, const float *x, const float *y)")
        lines.append(f"{{ for (int i = 0; i < n; i++) out[i] = tl_{name}f(x[i], y[i]); }}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ctypes.CDLL]:
    folder = tmp_path_factory.mktemp("math")
    source, binary = folder / "maps.c", folder / "maps.so"
    source.write_text(wrapper_source())
    flags = [
        "-std=gnu99",
        "-O2",
        "-ffp-contract=off",
        "-fno-math-errno",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-shared",
        "-fPIC",
    ]
    sources = [str(source), *map(str, sorted((LIBRARY / "kernels").glob("math*.c")))]
    command = ["gcc", *flags, f"-I{LIBRARY / 'include'}", *sources, "-o", str(binary), "-lm"]
    subprocess.run(command, check=True)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield ctypes.CDLL(str(binary))
    torch.set_num_threads(threads)


def apply(library: ctypes.CDLL, name: str, *inputs: Floats) -> Floats:
    out = np.empty_like(inputs[0])
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (out, *inputs)]
    getattr(library, f"map_{name}")(ctypes.c_int(out.size), *pointers)
    return out


def specials() -> Floats:
    return np.array([*SPECIALS, *(-value for value in SPECIALS)], np.float32)


def samples(rng: np.random.Generator, spread: float) -> Floats:
    raw = rng.integers(0, 1 << 32, COUNT, dtype=np.uint32).view(np.float32)
    moderate = (rng.uniform(-spread, spread, COUNT // 2)).astype(np.float32)
    small = (np.exp2(rng.uniform(-20.0, 4.0, COUNT // 2)) * rng.choice([-1.0, 1.0], COUNT // 2)).astype(np.float32)
    return np.concatenate([specials(), raw, moderate, small])


def ulps(got: Floats, want: Doubles, least: Doubles | float = 0.0) -> Doubles:
    """The error in distances of floats around `want` (or `least`, if that is larger); inf for a wrong kind or sign."""
    limit = 2.0**128
    with np.errstate(invalid="ignore"):  # signalling NaNs
        value = np.clip(got.astype(np.float64), -limit, limit)
    true = np.clip(want, -limit, limit)
    exponent = np.frexp(np.minimum(np.maximum(np.abs(true), least), np.nextafter(limit, 0.0)))[1]
    error = np.abs(value - true) / np.ldexp(1.0, np.maximum(exponent, -125) - 24)
    error = np.where(np.isnan(got) & np.isnan(want), 0.0, error)
    wrong_zero = (want == 0.0) & ((got != 0.0) | (np.signbit(got) != np.signbit(want)))
    return np.where(np.isnan(error) | wrong_zero, np.inf, error)


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_that_is_a_number_gives_the_same_bits(library: ctypes.CDLL, name: str) -> None:
    x = samples(np.random.default_rng(5), 3.0)
    for limit in (*specials(), np.float32(0.5)):
        if not np.isnan(limit):
            y = np.full_like(x, limit)
            found, wanted = apply(library, name, x, y), apply(library, LIMITS[name], x, y)
            assert np.array_equal(found.view(np.uint32), wanted.view(np.uint32)), limit


@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_in_ulp(library: ctypes.CDLL, name: str) -> None:
    function = FUNCTIONS[name]
    rng = np.random.default_rng(sum(map(ord, name)))
    inputs = [samples(rng, function.spread)]
    if function.arguments == 2:
        edge = specials()
        pairs = np.stack(np.meshgrid(edge, edge)).reshape(2, -1)
        other = rng.permutation(samples(rng, function.spread))
        inputs = [np.concatenate([pairs[0], inputs[0]]), np.concatenate([pairs[1], other])]
    with np.errstate(invalid="ignore"):  # signalling NaNs
        exact = [torch.from_numpy(array.astype(np.float64)) for array in inputs]
    want = function.reference(*exact).numpy()
    least = function.reflected(exact[0]).numpy() if function.reflected else 0.0
    error = ulps(apply(library, name, *inputs), want, least)
    worst = int(error.argmax())
    assert error[worst] <= function.max_ulp, f"{name} of {[float(array[worst]) for array in inputs]}"


def test_ulps_counts_neighbours_and_rejects_other_kinds() -> None:
    true = np.array([1.0, 1.5, 2.0**127, 0.0, 0.0, math.inf, math.nan])
    near = np.nextafter(true[:3].astype(np.float32), np.float32(math.inf))
    got = np.concatenate([near, np.array([-0.0, 1e-45, math.nan, 1.0], np.float32)])
    assert ulps(got, true).tolist() == [1.0, 1.0, 1.0] + 4 * [math.inf]
