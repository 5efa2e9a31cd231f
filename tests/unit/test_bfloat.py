"""Floats stored as bfloat16: every one of them there and back, and floats of all kinds against PyTorch's rounding."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

pytestmark = pytest.mark.compiler
LIBRARY = Path(__file__).parents[2] / "c_lib"
SOURCE = """
#include "tl_pair.h"
void narrow(int n, tl_bf16 *out, const float *x) { for (int i = 0; i < n; i++) out[i] = tl_to_bf16(x[i]); }
void widen(int n, float *out, const tl_bf16 *x) { for (int i = 0; i < n; i++) out[i] = tl_from_bf16(x[i]); }
void add(int n, float *sum, const tl_pair *a, const tl_pair *b)
{
    for (int i = 0; i < n; i++)
        sum[i] = tl_pair_add(sum[i], a[i], b[i]);
}
"""
ALL = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)

Floats = npt.NDArray[np.float32]
Bits = npt.NDArray[np.uint16]


@pytest.fixture(scope="module", params=["", "-DTL_XF16AUXVEC"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ctypes.CDLL]:
    """Also as a machine with instructions of halves builds it, which are not these."""
    folder = tmp_path_factory.mktemp("bfloat")
    source, binary = folder / "bfloat.c", folder / "bfloat.so"
    source.write_text(SOURCE)
    headers = [f"-I{LIBRARY / 'include'}", "-include", str(LIBRARY / "bf16/tl_half.h")]
    flags = ["-std=gnu99", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *headers]
    subprocess.run(["gcc", *flags, *request.param.split(), str(source), "-o", str(binary), "-lm"], check=True)
    yield ctypes.CDLL(str(binary))


def called(function: ctypes._NamedFuncPointer, *arrays: npt.NDArray[np.generic]) -> None:
    function(arrays[0].size, *(ctypes.c_void_p(a.ctypes.data) for a in arrays))


def widened(bits: Bits) -> Floats:
    return torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16).float().numpy()


def test_every_one_is_exact_and_comes_back(library: ctypes.CDLL) -> None:
    single, back = np.empty(ALL.size, np.float32), np.empty(ALL.size, np.uint16)
    called(library.widen, single, ALL)
    want = widened(ALL)
    nan = np.isnan(want)
    assert nan.any() and np.array_equal(np.isnan(single), nan)
    assert np.array_equal(single.view(np.uint32)[~nan], want.view(np.uint32)[~nan])
    called(library.narrow, back, single)
    assert np.array_equal(back[~nan], ALL[~nan])
    assert np.isnan(widened(back[nan])).all()


def test_floats_round_to_the_nearest_one(library: ctypes.CDLL) -> None:
    """Random bit patterns; all values, the points between two of them, and the floats next to both; NaNs that only
    lower bits tell from infinity."""
    raw = np.random.default_rng(23).integers(0, 1 << 32, 4_000_000, dtype=np.uint32)
    high = ALL.astype(np.uint32) << 16
    near = np.concatenate([high + low for low in (0, 1, 0x7FFE, 0x7FFF, 0x8000, 0x8001, 0xFFFF)])
    values = np.concatenate([raw, near]).astype(np.uint32).view(np.float32)
    got = np.empty(values.size, np.uint16)
    called(library.narrow, got, values)
    want = torch.from_numpy(values).bfloat16().view(torch.int16).numpy().view(np.uint16)
    nan = np.isnan(values)
    assert (nan & (values.view(np.uint32) & 0x7FFF0000 == 0x7F800000)).any()
    assert np.isnan(widened(got[nan])).all()
    wrong = np.flatnonzero((got != want) & ~nan)
    assert not wrong.size, f"{values[wrong[0]].hex()}: {got[wrong[0]]:#06x}"


def test_a_sum_goes_on_by_both_products(library: ctypes.CDLL) -> None:
    """Both products added with one rounding, and that sum with another."""
    generator = np.random.default_rng(24)
    a, b = (generator.standard_normal((5000, 2)).astype(np.float32) for _ in range(2))
    a, b = (torch.from_numpy(v).bfloat16() for v in (a, b))
    start = generator.standard_normal(5000).astype(np.float32)
    products = (a.double() * b.double()).numpy()
    wanted = start + (products[:, 0] + products[:, 1]).astype(np.float32)
    words = [np.ascontiguousarray(v.view(torch.int16).numpy()).view(np.uint32).reshape(-1) for v in (a, b)]
    called(library.add, start, *words)
    assert np.array_equal(start, wanted)
