"""What the QEMU back end makes of the emulator's words, and of tools and cores that are not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainlib_deployer.errors import ToolMissing, UsageError
from trainlib_deployer.run.emulated import counts, failure
from trainlib_deployer.run.qemu import Qemu
from trainlib_deployer.run.result import RunResult
from trainlib_deployer.run.spike import Spike

OUTPUT = "ARENA L1 640 of 656 bytes\nARENA L2 96 of 96 bytes\nDONE\nSTACK 104 of 1024 bytes\n"
NOTES = "a warning\nCOUNTS instructions critical=130 core0=120 core1=115\n"


def test_counts() -> None:
    found = counts(OUTPUT, NOTES)
    assert found["unit"] == "instructions"
    assert found["critical"] == 130
    assert found["per_core"] == [120, 115]


def test_memory_that_lost_its_paint() -> None:
    assert RunResult({}, OUTPUT).memory == {
        "L1": {"touched": 640, "planned": 656},
        "L2": {"touched": 96, "planned": 96},
        "stack": {"touched": 104, "planned": 1024},
    }


def test_without_plugin_and_stacks() -> None:
    assert counts("DONE\n", "") == {}
    assert RunResult({}, "DONE\n").memory == {}


def test_counts_by_operation() -> None:
    """A position that no core passed counts nothing; Spike prints its counts where the program prints."""
    lines = "COUNTS operation 0=17\nCOUNTS operation 2=5\n"
    for found in (counts(OUTPUT, NOTES + lines, ["a", "b", "c"]), counts(OUTPUT + NOTES + lines, "", ["a", "b", "c"])):
        assert found["operations"] == [
            {"position": 0, "name": "a", "instructions": 17},
            {"position": 1, "name": "b", "instructions": 0},
            {"position": 2, "name": "c", "instructions": 5},
        ]
        assert found["critical"] == 130


def test_a_fault_is_reported_as_the_program_put_it() -> None:
    report = failure("FAULT: store to 0x00000000; hart=4 net_position=7\n", "make: *** Error 4").message
    assert "store to 0x00000000; hart=4 net_position=7" in report
    assert "make" not in report


def test_without_a_fault_make_is_quoted() -> None:
    assert "undefined symbol: expf" in failure("", "ld.lld: error: undefined symbol: expf").message


@pytest.mark.parametrize("cores", [0, 9, 16])
def test_cores_that_the_machine_does_not_have(tmp_path: Path, cores: int) -> None:
    with pytest.raises(UsageError, match=f"cannot run {cores} cores"):
        Qemu().run(tmp_path, 1, cores, tmp_path / "record")


def test_unknown_compiler() -> None:
    with pytest.raises(UsageError, match="unknown compiler 'tcc'"):
        Qemu("tcc")


@pytest.mark.parametrize(
    ("there", "missing", "package"),
    [
        ([], "make", "make"),
        (["make"], "qemu-system-riscv32", "qemu-system-misc"),
        (["make", "qemu-system-riscv32"], "clang-19", "clang-19"),
        (["make", "qemu-system-riscv32", "clang-19"], "ld.lld-19", "lld-19"),
    ],
)
def test_a_missing_tool_names_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: list[str], missing: str, package: str
) -> None:
    for tool in there:
        (tmp_path / tool).write_text("#!/bin/sh\n")
        (tmp_path / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing) as error:
        Qemu().check_tools()
    assert f"'{missing}'" in error.value.message
    assert error.value.remedy.endswith(package)


@pytest.mark.parametrize(("emulator", "room"), ((Qemu(), 128 << 20), (Spike(), 192 << 20)))
def test_a_level_that_runs_into_the_next_one_is_refused(emulator: Qemu | Spike, room: int, tmp_path: Path) -> None:
    levels = {"L1": {"used": room + 4}, "L2": {"used": 8}}
    (tmp_path / "plan.json").write_text(json.dumps({"levels": levels, "ops": []}))
    with pytest.raises(UsageError, match=f"L1 takes {room + 4:,} bytes, and the next level begins after {room:,}"):
        emulator.run(tmp_path, 1, None, tmp_path / "record.bin")
