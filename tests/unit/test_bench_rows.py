"""The benchmark of kernels: it reaches every row of the families that it knows, and writes C that compiles."""

from __future__ import annotations

import subprocess
from pathlib import Path

from benchmarks.bench_rows import timed, write
from trainlib_deployer.kernels.conv import CONV
from trainlib_deployer.kernels.depthwise import DEPTHWISE
from trainlib_deployer.kernels.matmul import MATMUL


def test_every_row_is_timed() -> None:
    assert {t.row for t in timed([])} == {*CONV, *DEPTHWISE, *MATMUL}


def test_the_program_compiles(tmp_path: Path) -> None:
    write(tmp_path, list(timed([])))
    compiler = ["gcc", "-std=gnu99", "-fsyntax-only", "-DNET_PROFILE", "-Wall", "-Werror", "-I", tmp_path / "kernels"]
    subprocess.run([*compiler, tmp_path / "main.c"], check=True)
