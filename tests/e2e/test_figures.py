"""`make host` says what the linker placed beside what is planned, and more than that is no build."""

from __future__ import annotations

import subprocess
from pathlib import Path

import torch
from torch import nn

from trainlib_deployer import deploy


def made(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "-s", "-C", str(folder), "host", "STEPS=1"], check=False, capture_output=True, text=True
    )


def test_figures_of_the_linker_stand_beside_those_of_the_plan(tmp_path: Path) -> None:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(97, 61), nn.ReLU(), nn.Linear(61, 3))
    folder = tmp_path / "net"
    done = deploy(
        net, torch.randn(2, 97), torch.randn(2, 3), loss=nn.MSELoss(), l1="16k", l2="1M", cores=2, steps=1, out=folder
    )
    output = made(folder)
    assert output.returncode == 0, output.stderr
    for level in done.plan.levels.values():
        assert level.used > 0
        assert f"{level.name}: {level.used} bytes of tensors planned, {level.used} linked\n" in output.stderr
    makefile = folder / "Makefile"
    used = done.plan.outer.used
    makefile.write_text(makefile.read_text().replace(f"L2={used}", f"L2={used - 4}"))
    output = made(folder)
    assert output.returncode != 0 and f"L2: {used - 4} bytes of tensors planned, {used} linked" in output.stderr
