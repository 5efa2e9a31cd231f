"""The benchmark of kernels: it reaches every row of the families that it knows, and writes C that compiles."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import bench, bench_instructions, bench_loops, bench_rows
from benchmarks.asked import CASES
from benchmarks.bench_rows import timed
from trainlib_deployer.kernels.conv import CONV
from trainlib_deployer.kernels.conv_around import AROUND
from trainlib_deployer.kernels.conv_block import IN_A_BLOCK
from trainlib_deployer.kernels.conv_f16 import CONV_F16
from trainlib_deployer.kernels.conv_inside import INSIDE
from trainlib_deployer.kernels.conv_plane import PLANES
from trainlib_deployer.kernels.depthwise import DEPTHWISE
from trainlib_deployer.kernels.depthwise_f16 import DEPTHWISE_F16
from trainlib_deployer.kernels.matmul import MATMUL
from trainlib_deployer.kernels.matmul_f16 import MATMUL_F16
from trainlib_deployer.kernels.pool import POOL
from trainlib_deployer.kernels.winograd import WINOGRAD
from trainlib_deployer.kernels.winograd_f16 import WINOGRAD_F16

pytestmark = pytest.mark.compiler


def test_every_row_is_timed() -> None:
    pools = {r for r in POOL if "adaptive" not in r.symbol and "u16" not in r.symbol}
    assert {t.row for t in timed([])} == {
        *PLANES,
        *AROUND,
        *IN_A_BLOCK,
        *INSIDE,
        *CONV,
        *CONV_F16,
        *DEPTHWISE,
        *DEPTHWISE_F16,
        *MATMUL,
        *MATMUL_F16,
        *WINOGRAD,
        *WINOGRAD_F16,
        *pools,
    }


@pytest.mark.parametrize("bench", [bench_rows, bench_loops])
def test_the_program_compiles(tmp_path: Path, bench: ModuleType) -> None:
    bench.write(tmp_path, list(bench.timed([]) if bench is bench_rows else bench.cases()))
    check_syntax(tmp_path)


def check_syntax(folder: Path) -> None:
    compiler = ["gcc", "-std=gnu99", "-fsyntax-only", "-DNET_PROFILE", "-Wall", "-Werror", "-I", folder / "kernels"]
    subprocess.run([*compiler, folder / "main.c"], check=True)


def test_what_kernels_are_asked_for_compiles(tmp_path: Path) -> None:
    for name in ("cycles", "instructions"):
        (tmp_path / name).mkdir()
    bench_rows.write(tmp_path / "cycles", [bench.timed(asked) for asked in CASES])
    bench_instructions.write(tmp_path / "instructions", bench.timed(CASES[0]))
    check_syntax(tmp_path / "cycles")
    check_syntax(tmp_path / "instructions")
