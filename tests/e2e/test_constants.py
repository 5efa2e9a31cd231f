"""Numbers in hot loops come with the instructions: a load of one from L2 takes as long as ten operations."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

from trainlib_deployer.api import deploy

FLAGS = "-std=gnu99 -O2 -ffp-contract=off -fno-math-errno -ffreestanding -fno-builtin -S -DTL_HAL_RV32".split()
COMPILERS = {
    "clang, floats in integer registers": "clang-19 --target=riscv32 -march=rv32imc_zicsr_zfinx -mabi=ilp32",
    "gcc, floats in integer registers": "riscv64-unknown-elf-gcc -march=rv32imc_zicsr_zfinx -mabi=ilp32",
    "gcc, floats in their own": "riscv64-unknown-elf-gcc -march=rv32imfc_zicsr -mabi=ilp32f",
}
IN_MEMORY = re.compile(r"\.s?rodata|\.LCPI?\d+|\.literal")
HOT = ("exp", "expm1", "log", "log1p", "sigmoid", "softplus", "tanh", "erf", "rsqrt", "floor", "round")


def assembly(compiler: str, source: Path, includes: list[Path], out: Path) -> str:
    command = COMPILERS[compiler].split()
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    subprocess.run([*command, *FLAGS, *(f"-I{i}" for i in includes), "-o", str(out), str(source)], check=True)
    return out.read_text()


def string_h(folder: Path, library: Path) -> Path:
    """Bare-metal compilers may come without a C library."""
    place = folder / "libc"
    place.mkdir()
    shutil.copy(library / "rv32_string.h", place / "string.h")
    return place


@pytest.mark.parametrize("compiler", COMPILERS)
def test_no_function_loads_its_constants(compiler: str, tmp_path: Path) -> None:
    library = Path(__file__).parents[2] / "c_lib"
    loops = [
        f"void map_{f}(int n, float *y, const float *x) {{ for (int i = 0; i < n; i++) y[i] = tl_{f}f(x[i]); }}"
        for f in HOT
    ]
    source = tmp_path / "maps.c"
    source.write_text("\n".join(['#include "tl_math.h"', *loops, ""]))
    text = assembly(compiler, source, [library / "include", string_h(tmp_path, library / "hal")], tmp_path / "maps.s")
    assert all(f"map_{f}:" in text for f in HOT)
    assert not IN_MEMORY.findall(text)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(7, 5), nn.GELU(), nn.LayerNorm(5), nn.Linear(5, 3), nn.ELU(0.5))
    folder = tmp_path_factory.mktemp("constants") / "project"
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    deploy(model, torch.randn(3, 7), torch.randn(3, 3), optimizer=optimizer, cores=8, l1="64k", out=folder)
    return folder


def test_generated_loops_load_no_constants(project: Path, tmp_path: Path) -> None:
    source = (project / "loops.c").read_text()
    assert "tl_lit(0.999f)" in source and "0.5f" in source and "tl_lit(0.5f)" not in source
    includes = [project, project / "kernels", string_h(tmp_path, project / "kernels")]
    text = assembly("clang, floats in integer registers", project / "loops.c", includes, tmp_path / "loops.s")
    assert "loop_" in text
    assert not IN_MEMORY.findall(text)
