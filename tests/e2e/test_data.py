"""A project's binary files: what a firmware needs in one, what only the verification needs in the other."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from trainlib_deployer.api import deploy
from trainlib_deployer.errors import UsageError
from trainlib_deployer.folder import read_plan
from trainlib_deployer.state.image import decode
from trainlib_deployer.state.layout import Layout

torch.set_num_threads(1)
FLAGS = ["-std=gnu99", "-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-fno-pie", "-no-pie"]
FIRMWARE = """\
#include "net.h"
#include "weights.h"
#include <stdio.h>
int main(void)
{
    static uint8_t contents[NET_STATE_BYTES];
    net_init();
    net_save(contents);
    return fwrite(contents, 1, sizeof contents, stdout) != sizeof contents;
}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Long names; minus zeros, which are no zeros."""
    torch.manual_seed(5)
    inner = nn.Sequential(nn.Linear(7, 5), nn.BatchNorm1d(5))
    for name in ("a_name_that_goes_on", "and_on_for_longer_than_any_line_may_be_" + "x" * 90):
        inner = nn.Sequential()
        inner.add_module(name, nn.Linear(7, 7) if name.startswith("a_name") else nn.Linear(7, 5))
    model = nn.Sequential(inner, nn.BatchNorm1d(5))
    with torch.no_grad():
        model[1].running_mean.fill_(-0.0)
    data = [(torch.randn(3, 7), torch.randint(5, (3,))) for _ in range(2)]
    out = tmp_path_factory.mktemp("data") / "project"
    deploy(model, *data[0], data=data, cores=2, l1="64k", l2="1M", steps=2, out=out)
    return out


def test_a_firmware_links_the_weights_alone_from_anywhere(project: Path, tmp_path: Path) -> None:
    """The folder moved, compiled from elsewhere, without samples, references and the program that verifies."""
    moved = tmp_path / "moved"
    shutil.copytree(project, moved, ignore=shutil.ignore_patterns("data.*", "main.c", "build"))
    (tmp_path / "firmware.c").write_text(FIRMWARE)
    sources = [tmp_path / "firmware.c", *(moved / f"{n}.c" for n in ("net", "loops", "state", "weights"))]
    sources += sorted((moved / "kernels").glob("*.c"))
    program = tmp_path / "firmware"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    command = ["cc", *FLAGS, f"-I{moved}", f"-I{moved / 'kernels'}", *map(str, sources), "-pthread", "-lm"]
    subprocess.run([*command, "-o", str(program)], cwd=elsewhere, check=True)
    contents = subprocess.run([str(program)], check=True, capture_output=True).stdout
    found = decode(Layout.of_plan(read_plan(project)), contents)
    weights = torch.load(project / "model" / "weights.pt", weights_only=True)
    for name, value in weights.items():
        assert found[name].tobytes() == value.numpy().astype(found[name].dtype).tobytes(), name


def test_zeros_take_no_room_and_lines_are_short(project: Path) -> None:
    weights = torch.load(project / "model" / "weights.pt", weights_only=True)
    kept = [v for v in weights.values() if v.is_floating_point() and v.numpy().view(np.uint32).any()]
    assert any((v == 0).all() for v in kept), "minus zero"
    constants = [t["bytes"] for t in read_plan(project)["tensors"].values() if t["role"] == "constant"]
    assert (project / "weights.bin").stat().st_size == sum(v.numel() * 4 for v in kept) + sum(constants)
    for name in ("weights.c", "data.c", "weights.h", "data.h"):
        assert max(map(len, (project / name).read_text().splitlines())) <= 120, name


def test_new_contents_are_linked_anew(project: Path) -> None:
    """make knows that the object depends on the file."""

    def made() -> str:
        command = ["make", "-C", str(project), "build/host/train"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert "-o build/host/weights.o" in made() and "-o build/host" not in made()
    for name, other in (("weights", "data"), ("data", "weights")):
        (project / f"{name}.bin").touch()
        words = made()
        assert f"-o build/host/{name}.o" in words and f"-o build/host/{other}.o" not in words


def test_samples_that_steps_cycle_over(tmp_path: Path) -> None:
    """Fewer than steps, more than steps: program and reference take the same ones."""
    torch.manual_seed(6)
    model = nn.Sequential(nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 2))
    data = [(torch.randn(4, 5), torch.randn(4, 2)) for _ in range(7)]
    for samples, steps in ((3, 2), (2, 1)):
        out = tmp_path / str(samples)
        made = deploy(model, data=data, samples=samples, steps=steps, cores=2, l1="64k", out=out)
        assert read_plan(out)["samples"] == {"count": samples, "bytes": samples * 4 * 7 * 4}
        assert made.verify(steps=5).passed
    with pytest.raises(UsageError, match="8 samples were asked for; data has 7, of 4x5 float32 each"):
        deploy(model, data=data, samples=8, out=tmp_path / "more")
