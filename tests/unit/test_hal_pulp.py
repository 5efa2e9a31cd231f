"""The PULP-SDK back end against a strict stand-in for the SDK: team, stacks, split transfers, the record."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HAL = ROOT / "c_lib" / "hal" / "pulp.c"
STUBS = ROOT / "tests" / "stubs" / "pulp"
FLAGS = [
    "-std=gnu99",
    "-O1",
    "-g",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-DTL_HAL_PULP",
]
# Transfers carry 32-bit addresses: without position independence, static data of this machine has such addresses too.
LOW_ADDRESSES = ["-fno-pie", "-no-pie"]

pytestmark = pytest.mark.compiler


PORTS = "-DSTUB_PORTS"  # the engine has a port for each core, as on pulp-open


def build(folder: Path, hal: Path = HAL, ports: str = PORTS) -> Path:
    program = folder / "program"
    (folder / "given.bin").write_text("four.")
    sources = [str(STUBS / "program.c"), str(STUBS / "pmsis.c"), str(HAL.with_name("pulp_files.c")), str(hal)]
    includes = [f"-I{STUBS}", f"-I{ROOT / 'c_lib' / 'include'}"]
    record = ['-DTL_RECORD_FILE="record.bin"', *([ports] if ports else [])]
    subprocess.run(
        ["gcc", *FLAGS, *LOW_ADDRESSES, *record, *includes, *sources, "-pthread", "-o", str(program)], check=True
    )
    return program


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program), *arguments], cwd=program.parent, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("ports", [PORTS, ""])
def test_team_transfers_and_record(tmp_path: Path, ports: str) -> None:
    done = run(build(tmp_path, ports=ports))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "DONE\n"
    assert (tmp_path / "record.bin").read_bytes() == b"abcdefg"


def test_refuses_more_cores_than_the_cluster_has(tmp_path: Path) -> None:
    done = run(build(tmp_path), "more")
    assert done.returncode == 3
    assert "FAULT: the cluster has fewer cores" in done.stdout


def test_without_a_record_file_nobody_listens(tmp_path: Path) -> None:
    """Without a simulator the call for the file would never return: it must not even be in the program."""
    flags = [*FLAGS, f"-I{STUBS}", f"-I{ROOT / 'c_lib' / 'include'}"]
    objects = []
    for source in (HAL, HAL.with_name("pulp_files.c")):
        objects.append(str(tmp_path / f"{source.stem}.o"))
        subprocess.run(["gcc", *flags, "-c", str(source), "-o", objects[-1]], check=True)
    symbols = subprocess.run(["nm", *objects], check=True, capture_output=True, text=True).stdout
    assert "semihost" not in symbols


def test_arenas_have_no_contents_and_tables_lie_in_shared_l2(tmp_path: Path) -> None:
    """The SDK keeps a copy in L2 of all that has contents in L1, and its heap where constants go by themselves."""
    source = tmp_path / "sections.c"
    source.write_text(
        '#include "tl_hal.h"\n#define BYTES 4112\nTL_ARENA_L1(near, BYTES);\nTL_ARENA_L2(far, 48);\n'
        "TL_CONST const float table[3] = {1, 2, 3};\nuint8_t *use(int i) { return i ? near : far; }\n"
    )
    flags = [*FLAGS, f"-I{STUBS}", f"-I{ROOT / 'c_lib' / 'include'}"]
    subprocess.run(["gcc", *flags, "-c", str(source), "-o", str(tmp_path / "sections.o")], check=True)
    table = ["objdump", "-t", "-h", str(tmp_path / "sections.o")]
    words = subprocess.run(table, check=True, capture_output=True, text=True).stdout
    sections = {m[1]: m[2] for m in re.finditer(r"^ +\d+ (\S+) .*\n +(.*)$", words, re.MULTILINE)}
    assert "CONTENTS" not in sections[".bss_l1.near"]
    assert "READONLY" in sections[".l2_data.constant"]
    assert re.search(r"\.bss_l1\.near\s+0*1010 near$", words, re.MULTILINE)
    assert re.search(r"\.l2_data\.constant\s+0*c table$", words, re.MULTILINE)


ANYWHERE = [
    ("LARGEST_TRANSFER = 65520", "LARGEST_TRANSFER = 131072"),
    ("bytes == 0 || bytes > LARGEST_TRANSFER", "bytes == 0"),
    ("at.l2 += (uint32_t)(some * pitch)", "at.l2 += (uint32_t)(some * row_bytes)"),
    ("tl_pulp_team = job.cores", "tl_pulp_team = 8"),
    ("task.slave_stack_size = (uint32_t)stack_bytes", "task.slave_stack_size = 0"),
    ("        begin(transfer, at, row_bytes, rows, pitch);\n}", "        (void)rows;\n}"),
    ("finish(transfer);\n", ";\n"),
]
BY_THE_SDK = [
    (".merge = 1", ".merge = 0"),
    ("pi_cl_dma_cmd_wait(&transfer->command)", "(void)transfer"),
    ("(uint32_t)pitch, (uint32_t)row_bytes, at.dir", "(uint32_t)row_bytes, (uint32_t)row_bytes, at.dir"),
]
BY_PORTS = [
    ("pulp_write32(STATUS, own)", "(void)0"),
    ("while (pulp_read32(STATUS) & own)", "while (0)"),
    ("pulp_write32(COMMAND, (uint32_t)pitch)", "pulp_write32(COMMAND, (uint32_t)row_bytes)"),
    ("pulp_write32(COMMAND, at.l2)", "pulp_write32(COMMAND, at.l1)"),
    ("transfer->counter = pulp_read32(COMMAND)", "transfer->counter = 0"),
    ("PLP_DMA_PRIV)", "1)"),
]
PLANTED = [
    *((*m, ports) for ports in (PORTS, "") for m in ANYWHERE),
    *((*m, "") for m in BY_THE_SDK),
    *((*m, PORTS) for m in BY_PORTS),
]


@pytest.mark.parametrize(("correct", "mistake", "ports"), PLANTED)
def test_a_planted_mistake_is_found(tmp_path: Path, correct: str, mistake: str, ports: str) -> None:
    text = HAL.read_text()
    assert text.count(correct) == 1
    broken = tmp_path / "broken.c"
    broken.write_text(text.replace(correct, mistake))
    assert run(build(tmp_path, broken, ports)).returncode not in (0, 3)
