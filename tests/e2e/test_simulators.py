"""Two simulators, two register files: the host's bits, the same instructions for every core and operation, and walls
around what is planned."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.e2e.simulators import SIMULATORS, needs, on_each_simulator, with_each_compiler
from trainlib_deployer.api import deploy
from trainlib_deployer.errors import VerificationFailed
from trainlib_deployer.run.host import Host

STEPS, CORES = 2, 5
PLANTED = 1234  # instructions


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network whose buffers do not fit L1: transfers, tiles and partial sums."""
    torch.manual_seed(11)
    model = nn.Sequential(nn.Conv2d(3, 10, 3, 2, 1), nn.GELU(), nn.Conv2d(10, 7, 3), nn.Flatten(), nn.Linear(567, 4))
    data = [(torch.randn(2, 3, 21, 21), torch.tensor([0, 3]))]
    folder = tmp_path_factory.mktemp("tiled") / "project"
    deploy(model, *data[0], data=data, steps=STEPS, out=folder, cores=CORES, l1="28k", l2="512k")
    assert any(op["tiles"] > 1 for op in json.loads((folder / "plan.json").read_text())["ops"])
    return folder


def emulated(simulator: str, compiler: str, folder: Path, record: str = "record.bin") -> dict[str, Any]:
    needs(simulator, compiler)
    return dict(SIMULATORS[simulator](compiler).run(folder, STEPS, None, folder / record).counts)


@on_each_simulator
@with_each_compiler
def test_same_bits_as_the_host(simulator: str, compiler: str, tiled: Path) -> None:
    emulated(simulator, compiler, tiled, "emulated record.bin")
    Host().run(tiled, STEPS, None, tiled / "host.bin")
    assert (tiled / "emulated record.bin").read_bytes() == (tiled / "host.bin").read_bytes()


@with_each_compiler
def test_both_count_the_same_instructions(compiler: str, tiled: Path) -> None:
    qemu, spike = (emulated(simulator, compiler, tiled) for simulator in ("qemu", "spike"))
    assert qemu == spike
    assert qemu == emulated("qemu", compiler, tiled)
    assert len(qemu["per_core"]) == CORES
    assert sum(op["instructions"] for op in qemu["operations"]) == qemu["critical"]
    assert max(qemu["per_core"]) <= qemu["critical"] <= sum(qemu["per_core"])


def planted(folder: Path, to: Path, position: int, statement: str) -> Path:
    """A copy of the project whose operation at `position` begins with a statement."""
    shutil.copytree(folder, to)  # what has been built too
    text = (to / "net.c").read_text()
    found = list(re.finditer(r"void op_\w+\(void\)\n\{\n", text))
    end = found[position].end()
    (to / "net.c").write_text(f"{text[:end]}    {statement}\n{text[end:]}")
    return to


@on_each_simulator
def test_more_work_shows_in_its_operation_only(simulator: str, tiled: Path, tmp_path: Path) -> None:
    position = 3
    before = emulated(simulator, "clang", tiled)["operations"]
    more = f'__asm__ volatile(".rept {PLANTED}\\n nop\\n .endr");'
    after = emulated(simulator, "clang", planted(tiled, tmp_path / "p", position, more))["operations"]
    assert [op["name"] for op in before] == [op["name"] for op in after]
    difference = [b["instructions"] - a["instructions"] for a, b in zip(before, after, strict=True)]
    assert difference == [PLANTED * STEPS if p == position else 0 for p in range(len(before))]


WILD = {
    "qemu": {"between": 0x8A000000, "past L1": 0x88000000 + 28 * 1024, "zero": 0},
    "spike": {"between": 0x1A000000, "past L1": 0x10000000 + 28 * 1024, "zero": 0},
}


@on_each_simulator
@pytest.mark.parametrize("place", ["between", "past L1", "zero"])
def test_a_wild_store_names_address_and_operation(simulator: str, place: str, tiled: Path, tmp_path: Path) -> None:
    operations = json.loads((tiled / "plan.json").read_text())["ops"]
    position, address = 2 * len(operations) // 3, WILD[simulator][place]
    wild = f"if (tl_core_id() == 2) *(volatile int *){address:#x}u = 1;"
    with pytest.raises(VerificationFailed) as caught:
        emulated(simulator, "clang", planted(tiled, tmp_path / "p", position, wild))
    assert f"store to 0x{address:08x}" in caught.value.message
    assert f"net_position={position} in {operations[position]['name']}" in caught.value.message
