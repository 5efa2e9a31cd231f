"""Rows by PULP's own instructions, on Spike with an extension that knows them: the bits of portable C."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.test_rv32_hal import C_LIB, COMPILERS, NUMBERS, ROOT, build, emulate, without_spike
from trainlib_deployer.emit.library import Library
from trainlib_deployer.kernels.table import ROWS
from trainlib_deployer.run.spike import program as spike

PROGRAMS = ROOT / "tests" / "e2e" / "rv32"
FOLDERS = [f"-I{C_LIB / name}" for name in ("include", "ukernels")]
MISSING = [tool for tool in ("clang-19", "ld.lld-19", "llvm-objdump-19", "gcc", "g++") if shutil.which(tool) is None]

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


def sources(program: Path) -> list[Path]:
    """Of the rows that a program calls, and of what else it does."""
    text = program.read_text()
    called = set(re.findall(r"^void (tl_\w+)\(", text, re.MULTILINE))
    rows = [C_LIB / "kernels" / row.source for row in ROWS if row.symbol in called]
    assert len(rows) == len(called)
    return Library.at(C_LIB).needed(rows, [text])


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
@pytest.mark.parametrize(
    ("name", "sets"),
    [
        ("halves", "TL_XF16AUXVEC"),
        ("floats", "TL_XPULP"),
        ("planes", "TL_XPULP"),
        ("widened", "TL_XPULP TL_XF16AUXVEC"),
        ("updates", "TL_XPULP"),
        ("curves", "TL_XPULP"),
        ("curves", "TL_XF16AUXVEC"),
    ],
)
def test_the_same_bits_as_portable_c(tmp_path: Path, name: str, sets: str) -> None:
    program = PROGRAMS / f"{name}.c"
    host, wanted = tmp_path / "host", tmp_path / "host.bin"
    files = map(str, [program, *sources(program), C_LIB / "hal" / "host.c"])
    subprocess.run(["gcc", *NUMBERS, *FOLDERS, *files, "-pthread", "-lm", "-o", str(host)], check=True)
    subprocess.run([str(host)], check=True, env={"TL_RECORD": str(wanted)}, capture_output=True)
    elf = build(tmp_path, "spike-clang", *sets.split(), program=program, more=sources(program))
    done = emulate(elf, found := tmp_path / "spike.bin", extension=extension(tmp_path))
    assert done.stdout.startswith("DONE"), done.stdout + done.stderr
    assert found.read_bytes() == wanted.read_bytes()


def loops(folder: Path, name: str, family: str = "tile") -> list[list[int]]:
    """The bodies of a micro-kernel's hardware loops, word by word: each begins where the instruction set wants it, and
    ends with its last word."""
    target, source = folder / f"{name}.o", C_LIB / "kernels" / family / f"{name}.c"
    flags = [
        "-DTL_HAL_RV32",
        "-DTL_XF16AUXVEC",
        "-DTL_XPULP",
        "-ffreestanding",
        "-mno-relax",
        *FOLDERS,
    ]  # aligned at once
    subprocess.run([*COMPILERS["clang"], *NUMBERS, *flags, "-c", str(source), "-o", str(target)], check=True)
    listing = subprocess.run(["llvm-objdump-19", "-d", str(target)], check=True, capture_output=True, text=True).stdout
    words = {int(at, 16): int(word, 16) for at, word in re.findall(r"^ +([0-9a-f]+): ([0-9a-f]{8})\s", listing, re.M)}
    found = [(at, at + 2 * (word >> 20)) for at, word in words.items() if word & 0x707F == 0x407B]
    assert all(begin % 4 == 0 for begin, _ in found)
    return [[words[at] for at in range(begin + 4, end + 4, 4)] for begin, end in found]


def is_load(word: int) -> bool:
    """p.lw of the next word."""
    return word & 0x707F == 0x200B and word >> 20 == 4


def is_load_by(word: int) -> bool:
    """p.lw by a register."""
    return word & 0xFE00707F == 0x2000700B


def is_mac(word: int) -> bool:
    """fmadd.s"""
    return word & 0x0600007F == 0x43


def is_dot(word: int) -> bool:
    """vfdotpex.s.h"""
    return word & 0xFE00707F == 0x96000033


@pytest.mark.parametrize(
    ("name", "family", "is_step"),
    [
        ("tile_pairs", "tile", is_dot),
        ("matmul_update_f16", "matmul", is_dot),
        ("matmul_update", "matmul", is_mac),
        ("matmul_update_panels", "matmul", is_mac),
    ],
)
def test_encodings(tmp_path: Path, name: str, family: str, is_step: Callable[[int], bool]) -> None:
    """8 loads, each behind two of 16 sums of all rows with all columns."""
    bodies = loops(tmp_path, name, family)
    assert len(bodies) == 1
    for body in bodies:
        loads, dots = body[2::3], [word for at, word in enumerate(body) if at % 3 != 2]
        assert all(is_load(word) or is_load_by(word) for word in loads) and all(map(is_step, dots))
        loaded = {word >> 7 & 31 for word in loads}
        pairs = {(word >> 15 & 31, word >> 20 & 31) for word in dots}
        assert len(loaded) == 8
        assert len(pairs) == len({word >> 7 & 31 for word in dots}) == 16
        assert {a for a, _ in pairs} | {b for _, b in pairs} == loaded


def test_encodings_of_packing(tmp_path: Path) -> None:
    """Two loads from each of four lines, as many floats as halves, and a pair of each stored; pairs that are there
    are moved. Of lines side by side, two terms of two lines make a pair of lower halves, and one of upper ones."""
    bodies = loops(tmp_path, "pack_pairs")
    assert sorted(len(body) for body in bodies) == [8, 12, 16, 16]
    for body in bodies:
        stores = body[-4:]
        assert all(word & 0x707F == 0x202B for word in stores)  # p.sw
        if len(body) == 8:
            assert all(map(is_load, body[:4])) and len({word >> 15 & 31 for word in body[:4]}) == 4
        elif len(body) == 12:
            assert all(map(is_load_by, body[:4])) and len({word >> 15 & 31 for word in body[:4]}) == 2
            first, second = ([word >> 7 & 31 for word in body[at:4:2]] for at in (0, 1))
            assert [word & 0xFE00707F for word in body[4:8]] == [0xD0000057] * 2 + [0xC8000057] * 2
            assert [word >> 20 & 31 for word in body[4:6]] == first == [word >> 7 & 31 for word in body[6:8]]
            assert [word >> 15 & 31 for word in body[4:8]] == second * 2
        else:
            loads, pairs = body[:8], body[8:12]
            assert all(is_load_by(word) or word & 0xFE00707F == 0x5000700B for word in loads)  # p.lw, p.lhu
            lines = [word >> 15 & 31 for word in loads]
            assert lines[::2] == lines[1::2] and len({*lines}) == 4
            halves = not is_load_by(loads[0])
            assert all(word & 0xFE00707F == (0xD0000057 if halves else 0xB0002033) for word in pairs)
            below = [word >> (20 if halves else 15) & 31 for word in pairs]  # the first term's
            assert below == [word >> 7 & 31 for word in loads[::2]]
        assert len({word >> 20 & 31 for word in stores}) == 4


def test_encodings_of_weight_gradients(tmp_path: Path) -> None:
    """7 loads, of which the last one ends the loop, and 12 vfdotpex.s.h of four gradients with three inputs."""
    (body,) = loops(tmp_path, "tile_threes")
    loads, dots = [word for word in body if is_load(word)], [word for word in body if is_dot(word)]
    assert (len(body), len(loads), len(dots)) == (19, 7, 12) and is_load(body[-1])
    assert len({(word >> 15 & 31, word >> 20 & 31) for word in dots}) == len({word >> 7 & 31 for word in dots}) == 12
    assert {r for word in dots for r in (word >> 15 & 31, word >> 20 & 31)} == {word >> 7 & 31 for word in loads}


def test_encodings_of_kernel_rows(tmp_path: Path) -> None:
    """Four weights and 16 vfdotpex.s.h a tap, the last instruction among them, of four weights with four inputs; inputs
    by common loads: one more for each tap of neighbours, four for each of every other one."""
    shapes = ((3, 6), (3, 12), (2, 5), (1, 4))
    of_pairs, of_rows = (loops(tmp_path, "tile_planes")[first::2] for first in (0, 1))
    assert [len(around) - len(body) for around, body in zip(of_pairs, of_rows, strict=True)] == [7] * 4
    for body, (taps, inputs) in zip(of_rows, shapes, strict=True):
        assert len(body) == 20 * taps + inputs + 1  # and on to the next row
        assert sum(map(is_load, body)) == 4 * taps
        assert sum(word & 0x707F == 0x2003 for word in body) == inputs
        dots = [word for word in body if is_dot(word)]
        assert is_dot(body[-1]) and len(dots) == 16 * taps
        for tap in range(taps):
            of_tap = dots[16 * tap : 16 * tap + 16]
            assert len({word >> 7 & 31 for word in of_tap}) == len({word >> 15 & 0x3FF for word in of_tap}) == 16
            assert len({word >> 15 & 31 for word in of_tap}) == len({word >> 20 & 31 for word in of_tap}) == 4


def test_encodings_of_floats(tmp_path: Path) -> None:
    """Of panels and of rows: 8 loads and 16 multiply-adds of all with all."""
    found = loops(tmp_path, "tile")
    assert sorted(sum(map(is_load_by, body)) for body in found) == [2, 5]  # of panels, of rows
    for body in found:
        macs = [word for word in body if is_mac(word)]
        sums = {word >> 7 & 31 for word in macs}
        assert len(body) == 24 and len(macs) == len(sums) == 16
        assert sum(map(is_load, body)) + sum(map(is_load_by, body)) == 8
        assert {word >> 27 for word in macs} == sums, "each goes on with itself"
        assert not sums & {word >> 7 & 31 for word in body if not is_mac(word)}


@pytest.mark.parametrize(("name", "outputs", "stride"), [("3", 4, 1), ("3_twos", 2, 1), ("3_s2", 4, 2)])
def test_encodings_of_weight_gradients_of_floats(tmp_path: Path, name: str, outputs: int, stride: int) -> None:
    """Twelve sums by each output; an output of each of four channels, and each input but the first, which is the next
    group's at the end. A line begins with its first input and moves on to the next one's."""
    copy, body, line = sorted(loops(tmp_path, f"conv2d_bw_w_{name}", "conv"), key=len)
    assert is_load(line[0]) and line[2:-1] == body
    assert len(copy) == 4 and is_load(copy[1]) and is_load(copy[3])
    macs = [word >> 7 & 31 for word in body if is_mac(word)]
    assert sorted(macs) == sorted(outputs * [*dict.fromkeys(macs)]) and len({*macs}) == 12
    assert len(body) == len(macs) + 4 * outputs + (outputs - 1) * stride + 3


@pytest.mark.parametrize(("name", "squares"), [("conv2d_bw_x_3x3_s2", 4), ("conv2d_bw_x_3x3_s2_threes", 3)])
def test_encodings_of_squares(tmp_path: Path, name: str, squares: int) -> None:
    """Four sums a square, of which one has one tap, two have two and one all four; each weight and each of two rows of
    elements, one more than squares, and the last of these once more."""
    (body,) = loops(tmp_path, name, "conv")
    macs = [word >> 7 & 31 for word in body if is_mac(word)]
    assert sorted(map(macs.count, {*macs})) == [1] * squares + [2] * 2 * squares + [4] * squares
    assert len(body) == len(macs) + 9 + 2 * (squares + 1) + 1


def test_encodings_of_depthwise_squares(tmp_path: Path) -> None:
    """Two squares that each load two lower elements, or one at an edge, and left halves of two: with one, two, two and
    four taps an output, and all outputs stored."""
    bodies = loops(tmp_path, "conv2d_bw_x_depthwise_3x3_s2_pad1", "depthwise")
    whole, edge, half = sorted(bodies, key=lambda body: (-len(body), body))
    for body, taps, loads in ((whole, 9, 4), (edge, 9, 2), (half, 3, 2)):
        macs = [word for word in body if is_mac(word)]
        outputs = 8 if taps == 9 else 4
        assert len(macs) == 2 * taps and len(body) == len(macs) + loads + outputs
        assert sum(word >> 27 == 0 for word in macs) == outputs  # an output's first tap, onto zero
        assert sum(map(is_load_by, body)) == 2


def test_encodings_of_pairs_of_pixels(tmp_path: Path) -> None:
    """Sixteen sums of all weights with all pixels, and nine loads, of which two go on as a term says."""
    bodies = loops(tmp_path, "conv2d_fw_twos_s2", "conv")
    assert len(bodies) == 2  # of whole tiles and of one that is cut
    for body in bodies:
        macs = [word for word in body if is_mac(word)]
        pairs = {(word >> 15 & 31, word >> 20 & 31) for word in macs}
        assert len(macs) == len(pairs) == len({word >> 7 & 31 for word in macs}) == 16 and len(body) == 25
        assert sum(map(is_load_by, body)) == 2


@pytest.mark.parametrize(("taps", "stride"), [(5, 1), (5, 2), (7, 1), (7, 2)])
def test_encodings_of_depthwise_rows(tmp_path: Path, taps: int, stride: int) -> None:
    """Of six outputs and of four: a weight a tap, each pixel once, every output by every tap, and on to the next row.
    Of weight gradients, six outputs and pairs of them: their gradients, each pixel once, and on to the next ones."""
    name = f"{taps}{'_s2' if stride == 2 else ''}"
    bodies = loops(tmp_path, f"conv2d_fw_depthwise_{name}", "depthwise")
    for body in bodies:
        macs = [word >> 7 & 31 for word in body if is_mac(word)]
        outputs = len({*macs})
        assert sorted(macs) == sorted(taps * [*dict.fromkeys(macs)])
        assert sum(map(is_load, body)) == taps and is_load_by(body[-1])
        assert len(body) == len(macs) + (outputs - 1) * stride + taps + taps + 1
    assert sorted(sum(map(is_mac, body)) for body in bodies) == [4 * taps, 6 * taps]
    bodies = loops(tmp_path, f"conv2d_bw_w_depthwise_{name}", "depthwise")
    assert sorted(sum(map(is_mac, body)) for body in bodies) == [2 * taps, 6 * taps]
    for body in bodies:
        macs = [word >> 7 & 31 for word in body if is_mac(word)]
        outputs = len(macs) // taps
        assert sorted(macs) == sorted(outputs * [*dict.fromkeys(macs)])
        assert len(body) == len(macs) + (outputs - 1) * stride + taps + outputs + 1


def test_encodings_of_weight_gradients_of_three_taps(tmp_path: Path) -> None:
    """Along a row, nine sums; down rows of five and of six: each element once and the last upper one twice, and taps
    that meet a column."""
    bodies = loops(tmp_path, "conv2d_bw_w_depthwise_3x3", "depthwise")
    assert [len(body) for body in bodies] == [60, 73, 15]
    for body, columns in zip(bodies, (5, 6), strict=False):
        macs = [word >> 7 & 31 for word in body if is_mac(word)]
        assert sorted(map(macs.count, {*macs})) == [columns - 1] * 6 + [columns] * 3
        assert len(body) == len(macs) + 4 * columns + 1 and is_load_by(body[-1])


def is_choice(word: int) -> bool:
    """pv.shuffle2.h"""
    return word & 0xFE00707F == 0xC8000057


def test_encodings_of_depthwise_halves(tmp_path: Path) -> None:
    """Two rows of outputs in two columns, or in one, meet four rows of two words, by five pairs of taps each; of a
    weight gradient a word of outputs meets two words of each of three rows by nine taps."""
    bodies = loops(tmp_path, "depthwise_halves", "depthwise")
    columns = [body for body in bodies if any(map(is_dot, body))]
    assert sorted(len(body) for body in bodies if body not in columns) == [4, 4, 7, 9]  # copies: two halves; their rows
    assert sorted(map(len, columns)) == [25, 27, 41, 45]
    for body in columns:
        dots = [word >> 7 & 31 for word in body if is_dot(word)]
        outputs = len({*dots})
        assert sorted(dots) == sorted(5 * [*dict.fromkeys(dots)])
        assert sum(map(is_load, body)) == sum(map(is_load_by, body)) == 4
        assert sum(map(is_choice, body)) == outputs - 2
    bodies = [b for b in loops(tmp_path, "conv2d_bw_w_depthwise_3x3_f16", "depthwise") if any(map(is_dot, b))]
    assert sorted(len(body) for body in bodies if len(body) == 36) == 4 * [36]
    for body in bodies:
        dots = [word >> 7 & 31 for word in body if is_dot(word)]
        assert sorted(map(dots.count, {*dots})) == [len(dots) // 9] * 9
        assert sum(map(is_choice, body)) == len(dots) // 3


def test_encodings_of_depthwise_halves_of_stride_2(tmp_path: Path) -> None:
    """Two rows of outputs in a column meet five rows of two words; of a weight gradient two outputs meet three words of
    each of three rows."""
    bodies = loops(tmp_path, "conv2d_fw_depthwise_3x3_s2_f16", "depthwise")
    columns = [body for body in bodies if any(map(is_dot, body))]
    assert sorted(map(len, columns)) == [27, 29]
    for body in columns:
        dots = [word >> 7 & 31 for word in body if is_dot(word)]
        assert sorted(dots) == sorted(5 * [*dict.fromkeys(dots)]) and len({*dots}) == 2
        assert sum(map(is_load, body)) == sum(map(is_load_by, body)) == 5
    bodies = [b for b in loops(tmp_path, "conv2d_bw_w_depthwise_3x3_s2_f16", "depthwise") if any(map(is_dot, b))]
    assert sorted(map(len, bodies)) == [27, 27, 36, 61]  # two outputs; rows of them, and of one more
    for body in bodies:
        dots = [word >> 7 & 31 for word in body if is_dot(word)]
        assert sorted(map(dots.count, {*dots})) == [len(dots) // 9] * 9
        assert sum(map(is_choice, body)) == len(dots) // 3
