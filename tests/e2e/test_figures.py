"""`make host` says what the linker placed beside what is planned, and more than that is no build; and which steps it
could compare."""

from __future__ import annotations

import subprocess
from pathlib import Path

import torch
from torch import nn

from trainlib_deployer import deploy


def made(folder: Path, steps: int = 1) -> subprocess.CompletedProcess[str]:
    command = ["make", "-s", "-C", str(folder), "host", f"STEPS={steps}"]
    return subprocess.run(command, check=False, capture_output=True, text=True)


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


def test_steps_that_nothing_is_compared_of_are_told(tmp_path: Path) -> None:
    """Fault: of 100 steps on 40 samples it said that 960 of 960 tensors agree, and not that these were those of 40."""
    torch.manual_seed(1)
    data = [(torch.randn(2, 7), torch.randn(2, 3)) for _ in range(3)]
    folder = tmp_path / "net"
    deploy(nn.Linear(7, 3), data[0][0], data=data, loss=nn.MSELoss(), cores=2, l1="64k", steps=5, out=folder)
    whole, more = made(folder, 5).stdout, made(folder, 11).stdout
    first, _, verdict = more.rpartition("PASS: ")
    assert whole.endswith(f"PASS: {verdict}") and "samples: " not in whole
    assert first.endswith(
        "\nsamples: 3, taken again and again; PyTorch's results are here for the first 5 of 11 steps, "
        "and the others are not compared\n"
    )
