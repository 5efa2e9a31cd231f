"""Learning on a controller without a float unit: sums on a core of the cluster, text by whole numbers."""

from __future__ import annotations

import ctypes
import re
import shutil
import struct
import subprocess
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.compiler
ROOT = Path(__file__).resolve().parents[2]
INCLUDE = f"-I{ROOT / 'c_lib' / 'include'}"
CONTROLLER = ["clang-19", "--target=riscv32", "-march=rv32im", "-mabi=ilp32", "-O1", "-ffreestanding", "-DTL_HAL_RV32"]
ON_A_CORE = {"add", "divide", "tl_accuracy"}

DECIMAL = """\
#include "fit_print.c"
#include <stdio.h>
#include <string.h>
static char said[64];
void tl_puts(const char *text) { strcat(said, text); }
void tl_put_number(uint32_t number) { sprintf(said + strlen(said), "%u", (unsigned)number); }
const char *decimal(float number) { said[0] = 0; tl_put_decimal(number); return said; }
"""


def with_floats(name: str, folder: Path) -> set[str]:
    """The functions of a file that call for float arithmetic where there is no unit for it."""
    out = folder / "out.s"
    source = str(ROOT / "c_lib" / "kernels" / name)
    subprocess.run([*CONTROLLER, "-fno-inline-functions", INCLUDE, "-S", source, "-o", str(out)], check=True)
    found, function = set(), ""
    for line in out.read_text().splitlines():
        begun = re.match(r"(\w+):", line)
        function = begun[1] if begun else function
        if re.search(r"call\s+__\w*[sd]f\w*", line):
            found.add(function)
    return found


@pytest.mark.skipif(not shutil.which("clang-19"), reason="clang-19 is not installed")
def test_the_controller_calculates_no_floats(tmp_path: Path) -> None:
    assert with_floats("fit.c", tmp_path) == ON_A_CORE
    assert not with_floats("fit_print.c", tmp_path)


def rounded(number: float) -> str:
    exact = Decimal(number)
    if not exact.is_finite() or abs(exact) >= 10**9:
        return "nan" if exact.is_nan() else "-" * (exact < 0) + "1e9 or more"
    return str(exact.quantize(Decimal("0.00001"), ROUND_HALF_UP)) if exact >= 0 else "-" + rounded(-number)


def test_decimals(tmp_path: Path) -> None:
    (tmp_path / "decimal.c").write_text(DECIMAL)
    out, include = tmp_path / "decimal.so", f"-I{ROOT / 'c_lib' / 'kernels'}"
    command = ["gcc", "-std=gnu99", "-O1", "-shared", "-fPIC", INCLUDE, include, str(tmp_path / "decimal.c")]
    subprocess.run([*command, "-o", str(out)], check=True)
    decimal = ctypes.CDLL(str(out)).decimal
    decimal.restype = ctypes.c_char_p
    rng = np.random.default_rng(6)
    usual = rng.integers(0, 2, 4000) << 31 | rng.integers(105, 157, 4000) << 23 | rng.integers(0, 1 << 23, 4000)
    all_bits = [*map(int, usual), *map(int, rng.integers(0, 1 << 32, 1000))]
    numbers = [struct.unpack("<f", struct.pack("<I", bits))[0] for bits in all_bits]
    numbers += [0.0, 0.5, 0.125, 2.0**-17, 0.999995, 0.99999499, 1e9, 999999936.0, 1e-45, float("inf"), float("nan")]
    for number in numbers:
        assert decimal(ctypes.c_float(number)).decode() == rounded(float(np.float32(number))), number
