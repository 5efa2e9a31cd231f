"""Whole numbers in generated loops wrap around at 32 bits as PyTorch's do, whatever a compiler makes of it."""

from __future__ import annotations

import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
FLAGS = "-std=gnu99 -ffp-contract=off -fno-math-errno -Wall -Wextra -Werror".split()
INCLUDES = [f"-I{ROOT / folder}" for folder in ("c_lib/include", "c_lib/ukernels")]
HEADER = (ROOT / "c_lib/include/tl_loop.h").read_text()
EDGES = [0, 1, -1, 2, -2, 3, -7, 31, 32, 33, -33, 65535, 65536, 2**30, -(2**30), 2**31 - 1, 1 - 2**31, -(2**31)]
CLANG = shutil.which("clang") or shutil.which("clang-19")

pytestmark = pytest.mark.compiler


def pairs() -> torch.Tensor:
    g = torch.Generator().manual_seed(31)
    drawn = torch.randint(-(2**31), 2**31, (3000, 2), generator=g)
    small = torch.randint(-40, 41, (1000, 2), generator=g)
    return torch.cat([torch.tensor(list(product(EDGES, EDGES))), drawn, small])


def wanted(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """What PyTorch makes of them, of 32 bits; its own quotient of the least one and -1 may be a trap."""
    x, y = a.int(), b.int()
    by = torch.where(b == 0, 1, b)
    rounded = [torch.div(a, by, rounding_mode=mode) for mode in ("trunc", "floor")]
    wrapped = [(v + 2**31) % 2**32 - 2**31 for v in rounded]
    rest, modulo = torch.fmod(a, by), torch.remainder(a, by)
    found = (x + y, x - y, x * y, -x, x.abs(), x << y, x >> y, wrapped[0], rest, wrapped[1], modulo)
    return torch.stack([v.long() for v in found], 1)


def computed(folder: Path, compiler: str, *options: str, header: str = HEADER) -> tuple[list[list[int]], str]:
    """What the program says of all pairs, and what the sanitizers say of it."""
    (folder / "tl_loop.h").write_text(header)
    binary, source = folder / "whole", ROOT / "tests/c/whole_numbers.c"
    command = [compiler, *FLAGS, *options, f"-I{folder}", *INCLUDES, str(source), "-o", str(binary)]
    subprocess.run(command, check=True)
    given = "\n".join(f"{a} {b}" for a, b in pairs().tolist())
    ran = subprocess.run([str(binary)], input=given, capture_output=True, text=True, check=False)
    return [[int(v) for v in line.split()] for line in ran.stdout.splitlines()], ran.stderr


def links(compiler: str, *options: str) -> bool:
    """Debian has clang's sanitizers in a package of their own."""
    command = [compiler, *options, "-x", "c", "-", "-o", "/dev/null"]
    tried = subprocess.run(command, input=b"int main(void) { return 0; }", capture_output=True, check=False)
    return tried.returncode == 0


@pytest.mark.parametrize("options", ["-O2", "-O3", "-O1 -fsanitize=undefined"])
@pytest.mark.parametrize("compiler", ["gcc", CLANG])
def test_all_wrap_around_as_in_pytorch(compiler: str | None, options: str, tmp_path: Path) -> None:
    if compiler is None or not links(compiler, *options.split()):
        pytest.skip("needs clang, with its libraries for sanitizers")
    found, said = computed(tmp_path, compiler, *options.split())
    a, b = pairs().unbind(1)
    assert said == ""
    assert found == wanted(a, b).tolist()


@pytest.mark.parametrize(
    "right, wrong",
    [
        ("(int32_t)((uint32_t)a + (uint32_t)b)", "a + b"),
        ("(int32_t)((uint32_t)a * (uint32_t)b)", "a * b"),
        ("(int32_t)(0u - (uint32_t)a)", "-a"),
        ("(uint32_t)by < 32 ? (int32_t)((uint32_t)a << by) : 0", "(int32_t)((uint32_t)a << by)"),
        ("a >> ((uint32_t)by < 32 ? by : 31)", "a >> by"),
        ("b == -1 ? tl_negi(a) : a / b", "a / b"),
    ],
)
def test_the_sanitizer_would_say(right: str, wrong: str, tmp_path: Path) -> None:
    assert HEADER.count(right) == 1
    _, said = computed(tmp_path, "gcc", "-O1", "-fsanitize=undefined", header=HEADER.replace(right, wrong))
    assert "runtime error" in said or "DEADLYSIGNAL" in said
