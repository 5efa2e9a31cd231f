"""Floats stored as halves: every half there and back, and floats of all kinds against numpy's rounding."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from golden.dither import by_chance, nearby

pytestmark = pytest.mark.compiler
LIBRARY = Path(__file__).parents[2] / "c_lib"
SOURCE = """
#include "tl_half.h"
void narrow(int n, tl_half *out, const float *x) { for (int i = 0; i < n; i++) out[i] = tl_to_half(x[i]); }
void choose(int n, float *out, const float *x, const uint32_t *words)
{
    for (int i = 0; i < n; i++)
        out[i] = tl_nearby_half(x[i], words[i]);
}
void widen(int n, float *out, const tl_half *x) { for (int i = 0; i < n; i++) out[i] = tl_from_half(x[i]); }
"""
HALVES = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
NUMBERS = HALVES[np.isfinite(HALVES.view(np.float16))]

Floats = npt.NDArray[np.float32]
Bits = npt.NDArray[np.uint16]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ctypes.CDLL]:
    folder = tmp_path_factory.mktemp("half")
    source, binary = folder / "half.c", folder / "half.so"
    source.write_text(SOURCE)
    flags = ["-std=gnu99", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{LIBRARY / 'include'}"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(binary)], check=True)
    yield ctypes.CDLL(str(binary))


def narrowed(library: ctypes.CDLL, values: Floats) -> Bits:
    out = np.empty(values.size, np.uint16)
    library.narrow(values.size, ctypes.c_void_p(out.ctypes.data), ctypes.c_void_p(values.ctypes.data))
    return out


def widened(library: ctypes.CDLL, halves: Bits) -> Floats:
    out = np.empty(halves.size, np.float32)
    library.widen(halves.size, ctypes.c_void_p(out.ctypes.data), ctypes.c_void_p(halves.ctypes.data))
    return out


def floats() -> Floats:
    """Random bit patterns; all halves, the points between two of them, and the floats next to both."""
    rng = np.random.default_rng(16)
    raw = rng.integers(0, 1 << 32, 4_000_000, dtype=np.uint32).view(np.float32)
    near = (np.exp2(rng.uniform(-26.0, 17.0, 1_000_000)) * rng.choice([-1.0, 1.0], 1_000_000)).astype(np.float32)
    exact = np.sort(NUMBERS.view(np.float16).astype(np.float32))
    ties = ((exact[:-1].astype(np.float64) + exact[1:]) / 2).astype(np.float32)
    points = np.concatenate([exact, ties, np.array([65520.0, -65520.0, 65536.0, 3e38], np.float32)])
    up, down = (np.nextafter(points, np.float32(end)) for end in (np.inf, -np.inf))
    return np.concatenate([raw, near, points, up, down, np.array([np.inf, -np.inf, np.nan], np.float32)])


def test_every_half_is_exact_and_comes_back(library: ctypes.CDLL) -> None:
    single = widened(library, HALVES)
    want = HALVES.view(np.float16).astype(np.float32)
    nan = np.isnan(want)
    assert np.array_equal(np.isnan(single), nan)
    assert np.array_equal(single.view(np.uint32)[~nan], want.view(np.uint32)[~nan])
    back = narrowed(library, single)
    assert np.array_equal(back[~nan], HALVES[~nan])
    assert np.isnan(back.view(np.float16)[nan]).all()


def test_floats_round_to_the_nearest_half(library: ctypes.CDLL) -> None:
    values = floats()
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        want = values.astype(np.float16)
    got = narrowed(library, values)
    nan = np.isnan(values)
    assert nan.any() and np.isnan(got.view(np.float16)[nan]).all()
    wrong = np.flatnonzero((got != want.view(np.uint16)) & ~nan)
    assert not wrong.size, f"{values[wrong[0]].hex()}: {got[wrong[0]]:#06x}"


def test_words_choose_one_of_the_two_halves_beside(library: ctypes.CDLL) -> None:
    """As golden/dither.py does, which the reference of fp16 runs; halves stay what they are."""
    values = floats()
    words = np.random.default_rng(17).integers(0, 1 << 32, values.size, dtype=np.uint32)
    got = np.empty(values.size, np.float32)
    library.choose(values.size, *(ctypes.c_void_p(a.ctypes.data) for a in (got, values, words)))
    want = nearby(torch.from_numpy(values), torch.from_numpy(words.astype(np.int64))).numpy()
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))
    inside = np.abs(values) < 65504  # above it, infinity is the next one
    given, found = values[inside], got[inside]
    assert np.array_equal(found.astype(np.float16).astype(np.float32), found)
    same = given.astype(np.float16).astype(np.float32) == given
    assert same.any() and np.array_equal(found[same], given[same])


@pytest.mark.parametrize("value", [0.1234567, -3.3, 1.00001, 3e-6, -2e-8, 6.1e-5])
def test_the_mean_of_what_words_choose_is_the_float(value: float) -> None:
    words = torch.from_numpy(np.random.default_rng(18).integers(0, 1 << 32, 1 << 18))
    found = nearby(torch.full((1 << 18,), value), words).double()
    low, high = found.min().item(), found.max().item()
    assert low < value < high and len(found.unique()) == 2
    assert abs(found.mean().item() - value) < 4 * (high - low) / 2**9 / 2


def test_an_update_beyond_the_largest_half_is_infinite() -> None:
    """Fault: the reference went on with 70,016, which no half is, while the program had infinity."""
    p = torch.nn.Parameter(torch.tensor([7e4, -1e9, 65504.0, 1.0, float("nan")]))
    by_chance({"p": p}, ["p"], 3)
    assert p.tolist()[:4] == [float("inf"), -float("inf"), 65504.0, 1.0] and p[4].isnan()
    q = torch.nn.Parameter(torch.full((4096,), 65512.0))
    by_chance({"q": q}, ["q"], 3)
    assert set(q.tolist()) == {65504.0, float("inf")}
