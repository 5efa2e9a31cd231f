"""`pip install .` and a deployment from another directory: nothing of the checkout is needed any more."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NET = """
import torch
from torch import nn

model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(75, 4))
example_input = torch.randn(1, 2, 7, 7)
example_target = torch.tensor([2])
"""


def files_in(package: Path) -> set[Path]:
    return {
        path.relative_to(package) for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }


def test_installed_package_deploys_from_elsewhere(tmp_path: Path) -> None:
    copy, site, work = tmp_path / "copy", tmp_path / "site", tmp_path / "work"
    shutil.copytree(
        ROOT,
        copy,
        ignore=shutil.ignore_patterns(".venv", ".git", "out", "generated", "build", "*.egg-info", ".*_cache"),
    )
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(copy)]
    subprocess.run(install, check=True)
    shutil.rmtree(copy)
    # Looked for one by one: a checkout that is installed editable would lend a package that is missing.
    sources = files_in(ROOT / "trainlib_deployer") | {Path("c_lib") / path for path in files_in(ROOT / "c_lib")}
    assert files_in(site / "trainlib_deployer") == sources
    assert files_in(site / "golden") == files_in(ROOT / "golden")
    work.mkdir()
    (work / "net.py").write_text(NET)
    environment = {**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"}
    where = "import trainlib_deployer, golden; print(trainlib_deployer.__file__); print(golden.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", where], cwd=work, env=environment, check=True, capture_output=True, text=True
    )
    assert all(line.startswith(str(site)) for line in found.stdout.split())
    command = [
        sys.executable,
        "-m",
        "trainlib_deployer",
        "--model",
        "net.py",
        "--cores",
        "3",
        "--l1",
        "64k",
        "--run",
        "host",
    ]
    done = subprocess.run(command, cwd=work, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "PASS" in done.stdout
    assert list((work / "generated" / "net" / "kernels").glob("conv2d_fw*.c"))
    assert (site / "bin" / "trainlib-deploy").is_file()
