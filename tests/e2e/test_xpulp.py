"""Rows for halves by PULP's own instructions, on Spike with an extension that knows them: the bits of portable C."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.test_rv32_hal import C_LIB, COMPILERS, NUMBERS, ROOT, build, emulate, without_spike
from trainlib_deployer.emit.library import Library
from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.table import ROWS
from trainlib_deployer.run.spike import program as spike

PROGRAM = ROOT / "tests" / "e2e" / "rv32" / "halves.c"
FOLDERS = [f"-I{C_LIB / name}" for name in ("include", "ukernels")]
MISSING = [tool for tool in ("clang-19", "ld.lld-19", "llvm-objdump-19", "gcc", "g++") if shutil.which(tool) is None]

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


def sources() -> list[Path]:
    rows = [C_LIB / "kernels" / row.source for row in ROWS if row.storage is DType.F16]
    return Library.at(C_LIB).needed(rows, [])


def extension(folder: Path) -> Path:
    simulator = spike()
    assert simulator is not None
    include, target = simulator.parents[1] / "include", folder / "xpulp.so"
    folders = [f"-I{include / name}" for name in ("", "riscv", "softfloat")]
    flags = ["-std=c++20", "-O1", "-ffp-contract=off", "-D_GLIBCXX_USE_CXX11_ABI=0", "-fPIC", "-shared"]
    source = ROOT / "tests" / "e2e" / "rv32" / "xpulp.cc"
    subprocess.run(["g++", *flags, *folders, str(source), "-o", str(target)], check=True)
    return target


@without_spike
def test_the_same_bits_as_portable_c(tmp_path: Path) -> None:
    host, wanted = tmp_path / "host", tmp_path / "host.bin"
    files = map(str, [PROGRAM, *sources(), C_LIB / "hal" / "host.c"])
    subprocess.run(["gcc", *NUMBERS, *FOLDERS, *files, "-pthread", "-lm", "-o", str(host)], check=True)
    subprocess.run([str(host)], check=True, env={"TL_RECORD": str(wanted)}, capture_output=True)
    elf = build(tmp_path, "spike-clang", "TL_XF16AUXVEC", program=PROGRAM, more=sources())
    done = emulate(elf, found := tmp_path / "spike.bin", extension=extension(tmp_path))
    assert done.stdout.startswith("DONE"), done.stdout + done.stderr
    assert found.read_bytes() == wanted.read_bytes()


def test_encodings(tmp_path: Path) -> None:
    """The micro-kernel's loop, word by word, as the instruction set has it: 8 loads, 16 vfdotpex.s.h of all rows with
    all columns, and a hardware loop that ends with the last one."""
    target, source = tmp_path / "tile_pairs.o", C_LIB / "kernels" / "tile" / "tile_pairs.c"
    flags = ["-DTL_HAL_RV32", "-DTL_XF16AUXVEC", "-ffreestanding", *FOLDERS]
    subprocess.run([*COMPILERS["clang"], *NUMBERS, *flags, "-c", str(source), "-o", str(target)], check=True)
    listing = subprocess.run(["llvm-objdump-19", "-d", str(target)], check=True, capture_output=True, text=True).stdout
    words = [(int(at, 16), int(word, 16)) for at, word in re.findall(r"^ +([0-9a-f]+): ([0-9a-f]{8})\s", listing, re.M)]
    loops = [i for i, (_, word) in enumerate(words) if word & 0x707F == 0x407B]
    assert len(loops) == 2  # sums that overwrite, sums that are added
    for i in loops:
        begin, setup = words[i]
        assert begin % 4 == 0
        body = words[i + 1 : i + 25]
        assert begin + 2 * (setup >> 20) == body[-1][0] == begin + 4 * 24
        loads, dots = [w for _, w in body[:8]], [w for _, w in body[8:]]
        assert all(word & 0x707F == 0x200B and word >> 20 == 4 for word in loads)
        assert all(word & 0xFE00707F == 0x96000033 for word in dots)
        loaded = {word >> 7 & 31 for word in loads}
        pairs = {(word >> 15 & 31, word >> 20 & 31) for word in dots}
        assert len(loaded) == 8
        assert len(pairs) == len({word >> 7 & 31 for word in dots}) == 16
        assert {a for a, _ in pairs} | {b for _, b in pairs} == loaded
