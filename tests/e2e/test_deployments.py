"""What is in the folder of a project: the same as in those of the benchmarks, and built again where it is changed."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks.bench_linker import planned
from benchmarks.deployments import EXAMPLES, deploy
from trainlib_deployer import api, meanwhile
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


@pytest.mark.parametrize(
    ("target", "goals"),
    [
        ("pulp-open", ["build/host/train", "build/lib/net.so", "build/qemu-gcc/train.elf"]),
        ("cortex-m4f", ["build/host/train", "build/qemu-gcc/train.elf"]),
    ],
)
def test_a_header_that_is_changed_builds_all_objects_again(target: str, goals: list[str], tmp_path: Path) -> None:
    """Fault: who edited a kernel's header verified the program of before."""
    folder, compiler = tmp_path / "net", tmp_path / "compiler"
    deploy(EXAMPLES / "mlp.py", target, folder, "fp32")
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done; : > "$2"\n')  # nothing is there as fast
    compiler.chmod(0o755)
    instead = ["COMPILER=gcc", *(f"{name}={compiler}" for name in ("CC", "RV_CC", "BOARD_CC"))]

    def compiled(goal: str) -> set[str]:
        said = subprocess.run(["make", "-C", folder, goal, *instead], check=True, capture_output=True, text=True)
        return set(re.findall(rf"^{compiler} .* -c -o \S+ (\S+\.c)$", said.stdout, re.M))

    for goal in goals:
        first = compiled(goal)
        assert len(first) > 10 and not compiled(goal)
        for header in ("net.h", "kernels/tl_hal.h"):
            os.utime(folder / header, times=(later := time.time() + 1, later))
            assert compiled(goal) == first, f"{goal}: {header}"
            os.utime(folder / header, times=(0, 0))


def network(layers: int) -> nn.Sequential:
    torch.manual_seed(11)
    wide = [m for _ in range(layers) for m in (nn.Linear(37, 37), nn.BatchNorm1d(37), nn.Tanh(), nn.Dropout(0.3))]
    return nn.Sequential(*wide, nn.Linear(37, 5))


@pytest.mark.parametrize(("layers", "kind"), [(2, {"dtype": "mixed"}), (3, {"saved": "fp16"}), (0, {"saved": "fp16"})])
def test_a_project_is_the_same_whoever_works_out_its_own_check(
    layers: int, kind: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a copy of the process or in this one; without layers nothing is kept in halves, though that was asked for.
    Fault: the reference of mixed precision left marks on the buffers of a batch norm, which went into the project."""
    made = []
    for copied in (True, False):
        monkeypatch.setattr(meanwhile, "may_be_copied", lambda copied=copied: copied)
        torch.manual_seed(7)
        sample = torch.randn(13, 37), torch.randint(5, (13,))
        out = tmp_path / str(copied)
        api.deploy(network(layers), *sample, cores=8, l1="64k", out=out / "net", **kind)
        files = sorted(p.relative_to(out) for p in out.rglob("*") if p.is_file())
        made.append({str(f): (out / f).read_bytes().replace(str(out).encode(), b"") for f in files})
    assert "net/data.bin" in made[0]
    assert made[0] == made[1]
