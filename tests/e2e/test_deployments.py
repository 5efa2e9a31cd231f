"""Projects of the benchmarks that link all examples for all targets: those of a deployment, but for what PyTorch
computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bench_linker import planned
from benchmarks.deployments import EXAMPLES, deploy
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.options import Options
from trainlib_deployer.pipeline import deploy_user_model
from trainlib_deployer.user.load_model import load


@pytest.mark.parametrize("dtype", ["fp32", "mixed"])
def test_one_capture_makes_the_projects_of_deployments(dtype: str, tmp_path: Path) -> None:
    """For one target after the other: what the first left behind must not be in the next."""
    example = EXAMPLES / "trainlib_default.py"
    for target in ("cortex-m4f", "siracusa"):
        options = Options(resolve(target, l2="16M"), tmp_path / "deployed" / target, dtype=dtype)
        deploy_user_model(load(str(example)), options)
        written = tmp_path / "written" / target
        deploy(example, target, written, dtype)
        sources = {p.relative_to(written) for p in written.rglob("*") if p.suffix in (".c", ".h", ".S", ".inc", ".ld")}
        assert sources >= {Path("net.c"), Path("loops.c"), Path("main.c"), Path("kernels/tl_hal.h")}
        for path in (*sources, Path("Makefile"), Path("weights.bin")):
            assert (written / path).read_bytes() == (options.out / path).read_bytes(), path
        assert planned(written) == planned(options.out)
