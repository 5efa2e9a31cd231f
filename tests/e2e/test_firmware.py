"""A firmware that is not our main.c: the example, on every machine; the interface from C++."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from tests.e2e.simulators import needs
from trainlib_deployer.api import deploy
from trainlib_deployer.cli.main import cli

torch.set_num_threads(1)
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "firmware"
EXPECTED = "nothing was saved there at step 0\nright at first: 29\ngoes on at step 300\nright in the end: 200\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("firmware") / "net"
    options = ["--model", EXAMPLE / "net.py", "--cores", 8, "--l1", "64k", "--out", out]
    assert CliRunner().invoke(cli, list(map(str, options))).exit_code == 0
    return out


@pytest.mark.parametrize("machine", ["host", "qemu"])
def test_the_example(machine: str, project: Path) -> None:
    """It learns, is interrupted, goes on; without samples and references."""
    if machine != "host":
        needs(machine)
    command = ["make", "-s", "-C", str(project), machine, f"MAIN={EXAMPLE / 'firmware.c'}", "CORES=2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout.startswith(EXPECTED), done.stdout + done.stderr
    assert done.returncode == 0 and not list(project.glob("build/*/data.o"))


def test_the_program_of_the_project_comes_back(project: Path) -> None:
    """make knows when another program is linked."""
    for variables, words in (
        ([f"MAIN={EXAMPLE / 'firmware.c'}"], "right in the end"),
        ([], "PASS"),
        ([f"MAIN={EXAMPLE / 'firmware.c'}"], "right"),
    ):
        done = subprocess.run(
            ["make", "-s", "-C", str(project), "host", "CORES=1", *variables],
            capture_output=True,
            text=True,
            check=True,
        )
        assert words in done.stdout


CPP = """\
#include "net.h"
#include <cstdio>
#include <vector>

int main()
{
    const float x[NET_INPUT_SIZE] = {1, 2};
    const int32_t y[NET_TARGET_SIZE] = {1};
    std::vector<uint8_t> image(NET_STATE_BYTES);
    net_init();
    const float loss = net_train_step(x, y, NET_LEARNING_RATE);
    net_save(image.data());
    const float less = net_evaluate(x, y);
    return net_load(image.data(), image.size()) || net_evaluate(x, y) != less || !(less < loss) || !net_t_class();
}
"""


class Namesakes(nn.Module):
    """Layers and outputs that are called as C++ calls things of its own."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("class", "new", "this", "template", "bool"):
            setattr(self, name, nn.Parameter(torch.rand(3)))
        self.operator = nn.Linear(2, 3)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        scale = sum(p for n, p in self.named_parameters() if "." not in n)
        return {"class": self.operator(x) * scale, "this": x}


def test_from_cpp(tmp_path: Path) -> None:
    torch.manual_seed(1)
    loss = nn.CrossEntropyLoss()
    options = {"cores": 2, "l1": "64k", "loss": lambda out, y: loss(out["class"], y), "steps": 1}
    folder = deploy(Namesakes(), torch.randn(1, 2), torch.tensor([1]), out=tmp_path / "p", **options).folder
    subprocess.run(["make", "-s", "-C", str(folder), "build/lib/net.so"], check=True)
    (tmp_path / "main.cpp").write_text(CPP)
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{folder}", f"-I{folder / 'kernels'}"]
    library = str(folder / "build" / "lib" / "net.so")
    subprocess.run(["g++", *flags, str(tmp_path / "main.cpp"), library, "-o", str(tmp_path / "main")], check=True)
    subprocess.run([str(tmp_path / "main")], check=True)
