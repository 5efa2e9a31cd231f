"""Division and square root through multiplications, as PULP's clusters compute them: the bits of the instructions."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLAGS = "-std=gnu99 -O2 -ffp-contract=off -fno-math-errno -Wall -Wextra -Werror".split()
EVERY = 127  # of the significands; every one of them is docs/math.md's proof

pytestmark = pytest.mark.compiler


def measured(folder: Path, source: str) -> dict[str, tuple[float, int]]:
    """For each line of the program's output how many cases there are, and how many differ."""
    file, binary = folder / "divide.c", folder / "divide"
    file.write_text(source)
    hardware = [] if "fma" not in Path("/proc/cpuinfo").read_text() else ["-mfma"]
    subprocess.run(
        ["gcc", *FLAGS, *hardware, f"-I{folder}", f"-I{ROOT / 'c_lib/include'}", str(file), "-lm", "-o", str(binary)],
        check=True,
    )
    lines = subprocess.run([str(binary), str(EVERY)], check=True, capture_output=True, text=True).stdout.splitlines()
    return {name: (float(cases), int(wrong)) for name, cases, wrong in map(str.split, lines)}


def test_all_bits_are_those_of_the_instructions(tmp_path: Path) -> None:
    found = measured(tmp_path, (ROOT / "tests/c/divide_exhaustive.c").read_text())
    assert {name: wrong for name, (_, wrong) in found.items() if wrong} == {}
    error, _ = found.pop("reciprocal")
    assert 0.99 < error < 1.0001  # in 2^-24: what makes the hard quotients the only ones to be looked at
    assert len(found) == 5 and all(cases > 30_000 for cases, _ in found.values())


@pytest.mark.parametrize(
    "right, wrong, shows",
    [
        ("tl_fmaf(tl_fmaf(-b, q, a), y, q)", "q", "hard"),
        ("0.749064326f", "0.749035776f", "hard"),
        ("tl_within_(a, -102, 191)", "tl_within_(a, -126, 215)", "special"),
        ("a == 0.0f ? q : a / b", "a / b * 1.0000001f", "special"),
        ("s = tl_fmaf(s, e, s);", "", "roots"),
        ("tl_bits(x) - 0x10000000u >= 0x6f800000u", "tl_bits(x) >= 0x7f800000u", "all_roots"),
    ],
)
def test_it_would_show(right: str, wrong: str, shows: str, tmp_path: Path) -> None:
    """What leaves out a step, takes constants that serve elsewhere, or trusts too many operands."""
    header = (ROOT / "c_lib/include/tl_divide.h").read_text()
    assert right in header
    (tmp_path / "tl_divide.h").write_text(header.replace(right, wrong))
    assert measured(tmp_path, (ROOT / "tests/c/divide_exhaustive.c").read_text())[shows][1] > 0
