"""Training that is interrupted gives the bits of training that is not: in another life, on another machine."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import torch
from torch import nn

from benchmarks import bench_resume
from tests.e2e.simulators import needs
from trainlib_deployer.api import deploy
from trainlib_deployer.folder import read_plan
from trainlib_deployer.state.image import decode, encode
from trainlib_deployer.state.layout import Layout

torch.set_num_threads(1)


class Net(nn.Module):
    """Statistics that move, dropout, random numbers, odd extents."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(2, 5, 3), nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.3), nn.Flatten())
        self.head = nn.Linear(5 * 11, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x) + 0.1 * torch.rand(3, 55))  # type: ignore[no-any-return]


OPTIMIZERS: dict[str, Any] = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
}


def project(out: Path, optimizer: str = "adam", accumulate: int = 1, seed: int = 4, **options: Any) -> Path:
    torch.manual_seed(4)
    data = [(torch.randn(3, 2, 13), torch.randint(3, (3,))) for _ in range(7)]
    torch.manual_seed(seed)
    net = Net()
    made = OPTIMIZERS[optimizer](net.parameters())
    options = {"cores": 8, "l1": "64k", "l2": "1M", **options}
    return deploy(net, *data[0], optimizer=made, data=data, steps=3, accumulate=accumulate, out=out, **options).folder


def make(folder: Path, machine: str, *variables: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "-s", "-C", str(folder), machine, "TRACE=0", *variables]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize(("optimizer", "accumulate"), [("adam", 1), ("momentum", 2)])
def test_every_k_and_power_lost_at_every_byte(optimizer: str, accumulate: int, tmp_path: Path) -> None:
    said = bench_resume.driven(project(tmp_path / "p", optimizer, accumulate), bench_resume.DRIVER)
    assert said.startswith("fine: 10 steps"), said


def test_the_order_of_writing_alone_tells_a_part_of_a_save(tmp_path: Path) -> None:
    """Power lost at every byte, with a checksum that agrees with everything; planted mistakes are found."""
    folder = project(tmp_path / "p")
    code = folder / "kernels" / "state.c"
    correct = code.read_text()
    assert bench_resume.driven(folder, bench_resume.CUTS, without="kernels/state.o").startswith("fine: ")
    for right, wrong in {
        "w->store->erase(w->store, w->slot) || ": "",
        "last.end != END || ": "",
        "last == 0 ? 1 : 0": "last == 1",
    }.items():
        assert correct.count(right) == 1
        code.write_text(correct.replace(right, wrong))
        said = bench_resume.driven(folder, bench_resume.CUTS, without="kernels/state.o")
        assert said.startswith("manner"), (right, said)


def test_a_checkpoint_moves_between_projects(tmp_path: Path) -> None:
    """Other L1, other levels, other cores, another target, another machine; weights of the other project are others."""
    first = project(tmp_path / "first")
    other = project(tmp_path / "other", seed=5, cores=3, l1="8k")
    generic = project(tmp_path / "generic", seed=5, target="generic", cores=None, l1=None, l2=None)
    levels = [{b["name"]: (b["level"], b["offset"]) for b in read_plan(f)["buffers"]} for f in (first, other)]
    assert levels[0]["head.weight"] != levels[1]["head.weight"]
    half, whole = tmp_path / "half.state", tmp_path / "whole.state"
    assert make(first, "host", "STEPS=6", f"SAVE={whole}").returncode == 0
    assert make(first, "host", "STEPS=2", f"SAVE={half}").returncode == 0
    assert half.read_bytes() != whole.read_bytes()
    for folder in (other, generic):
        ended = tmp_path / "ended.state"
        done = make(folder, "host", "STEPS=6", f"LOAD={half}", f"SAVE={ended}")
        assert ended.read_bytes() == whole.read_bytes(), done.stdout
        ended.unlink()
    needs("qemu")
    done = make(other, "qemu", "STEPS=6", f"LOAD={half}", f"SAVE={tmp_path / 'emulated.state'}")
    assert (tmp_path / "emulated.state").read_bytes() == whole.read_bytes(), done.stdout


def test_what_is_no_state_of_this_network_is_refused(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", target="generic", cores=None, l1=None, l2=None)
    layout = Layout.of_plan(read_plan(folder))
    saved, wrong = tmp_path / "saved", tmp_path / "wrong"
    assert make(folder, "host", "STEPS=1", f"SAVE={saved}").returncode == 0
    whole = saved.read_bytes()
    assert encode(layout, decode(layout, whole)) == whole[: len(encode(layout, decode(layout, whole)))]
    other = whole[:8] + b"another network!" + whole[24:32]
    cases = {
        b"": "damaged",
        b"x" * len(whole): "nothing was saved there",
        whole[:100]: "damaged",
        whole[:99] + bytes([whole[99] ^ 4]) + whole[100:]: "damaged",
        whole[:4] + b"\x03" + whole[5:]: "saved by another version",
        whole[:8] + b"other" + whole[13:]: "damaged",
        other + crc32(other).to_bytes(4, "little") + whole[36:]: "saved by another network",
    }
    for content, words in cases.items():
        wrong.write_bytes(content)
        done = make(folder, "host", f"LOAD={wrong}")
        assert done.returncode and f"FAULT: loading {wrong}: {words}\n" in done.stdout, words
    wrong.unlink()
    done = make(folder, "host", f"LOAD={wrong}")
    assert f"FAULT: loading {wrong}: there is no such file, seen from the project's folder\n" in done.stdout
