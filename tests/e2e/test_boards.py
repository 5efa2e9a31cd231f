"""One core on QEMU's board, with a float unit and without: the same bits as here, in the memory that is planned."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import nn

import trainlib_deployer
from benchmarks.objects import Elf
from trainlib_deployer.check.verify import read_plan
from trainlib_deployer.emit.brought import ESTIMATED
from trainlib_deployer.errors import DoesNotFit, UsageError
from trainlib_deployer.machine.sizes import aligned
from trainlib_deployer.machine.targets import MICROCONTROLLERS, resolve

CHIPS = [machine.name for machine in MICROCONTROLLERS]


class Small(nn.Module):
    """Convolutions, a pooling, an embedding, division and exponentials."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 7, 3, padding=1)
        self.depthwise = nn.Conv2d(7, 7, 3, groups=7)
        self.norm = nn.BatchNorm2d(7)
        self.head = nn.Linear(7 * 9, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.gelu(self.norm(self.depthwise(torch.tanh(self.conv(x)))))
        return self.head(nn.functional.max_pool2d(x, 3).flatten(1))


def deployed(folder: Path, target: str, steps: int = 2, **options: object) -> trainlib_deployer.Deployment:
    torch.manual_seed(11)
    model = Small()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x, y = torch.randn(2, 3, 11, 11), torch.randint(0, 5, (2,))
    return trainlib_deployer.deploy(model, x, y, optimizer=optimizer, target=target, steps=steps, out=folder, **options)


@pytest.mark.parametrize(
    ("chip", "board"), [(chip, "qemu-arm" if chip.startswith("cortex") else "qemu-riscv") for chip in CHIPS]
)
def test_same_bits_as_here_and_no_more_memory_than_planned(chip: str, board: str, tmp_path: Path) -> None:
    project = deployed(tmp_path / "p", chip)
    here, there = project.verify(), project.verify(on=board)
    for result in (here, there):
        result.raise_if_failed()
    assert there.counts["critical"] > 100_000 and len(there.counts["operations"]) > 20
    assert here.computed.keys() == there.computed.keys()
    for key, value in here.computed.items():
        assert value.tobytes() == there.computed[key].tobytes(), key
    shares = read_plan(project.folder)["image"]["flash"]["shares"]
    unknown = sum(s["bytes"] for s in shares if s["what"].endswith(ESTIMATED))  # newer than the sizes of code
    for memory, planned, linked in built(project.folder):
        assert linked <= planned <= 1.03 * linked + unknown, (memory, planned, linked)


START = """
#include <stdint.h>
extern uint32_t contents, data_start, data_end, zeros_start, zeros_end, stack_top;
int main(void);
void reset(void)
{
    uint32_t *from = &contents, *to = &data_start;
    while (to < &data_end)
        *to++ = *from++;
    for (to = &zeros_start; to < &zeros_end;)
        *to++ = 0;
    main();
    for (;;)
        continue;
}
__attribute__((section(".vectors_of_the_chip"), used)) void *const vectors[] = {&stack_top, (void *)reset};
"""
SCRIPT = """
ENTRY(reset)
MEMORY { FLASH (rx) : ORIGIN = 0x08000000, LENGTH = 2048K  RAM (xrw) : ORIGIN = 0x24000000, LENGTH = 512K }
stack_top = ORIGIN(RAM) + LENGTH(RAM);
contents = LOADADDR(.data);
SECTIONS {
  .text : { KEEP(*(.vectors_of_the_chip)) *(.text* .rodata*) . = ALIGN(4); } > FLASH
  .data : { data_start = .; *(.data*) . = ALIGN(4); data_end = .; } > RAM AT> FLASH
  .bss : { zeros_start = .; *(.bss* COMMON) . = ALIGN(4); zeros_end = .; } > RAM
}
"""
FIRMWARE = """
#include "net.h"
volatile float last;
int main(void)
{
    static float x[NET_INPUT_SIZE];
    static const int32_t y[NET_TARGET_SIZE];
    net_init();
    for (;;)
        last = net_train_step(x, y, NET_LEARNING_RATE);
}
"""


def test_a_firmware_of_ones_own_builds_as_the_projects_readme_says(tmp_path: Path) -> None:
    """With a vendor's kind of start and link script. Fault: the README of a Cortex-M project spoke of an emulated
    RISC-V cluster, of PULP-SDK and of `make spike`, which there is none of."""
    project = deployed(tmp_path / "p", "cortex-m7").folder
    readme = (project / "README.md").read_text()
    assert "in C for 1 core." in readme and "| L1 |" not in readme and "verify . --on qemu-arm" in readme
    for text in (readme, (project / "Makefile").read_text().split("\n\n")[0]):
        assert not re.search("PULP|spike|RISC-V|threads", text)
    command = re.search(r"^    (arm-none-eabi-gcc .*?) -c \.\.\.$", readme, re.MULTILINE | re.DOTALL)
    assert command is not None
    words = command[1].replace("\\\n", " ").split()
    for name, text in (("start.c", START), ("chip.ld", SCRIPT), ("firmware.c", FIRMWARE)):
        (tmp_path / name).write_text(text)
    sources = [*(f"{name}.c" for name in ("loops", "net", "state", "weights", "fit")), "../start.c", "../firmware.c"]
    sources += [str(path) for path in project.glob("kernels/*.c")]
    link = ["-nostartfiles", "-T", "../chip.ld", "-Wl,--gc-sections", "-lm", "-o", "firmware.elf"]
    subprocess.run([*words, *sources, *link], cwd=project, check=True)
    table = ["arm-none-eabi-nm", "firmware.elf"]
    linked = subprocess.run(table, cwd=project, capture_output=True, text=True, check=True).stdout
    assert "net_train_step" in linked and "tl_single_start" not in linked, "the chip's start, not the board's"


def built(folder: Path) -> list[tuple[str, int, int]]:
    """What `make qemu` says of flash and RAM; it ends otherwise where there is more than planned."""
    done = subprocess.run(["make", "-s", "-C", str(folder), "qemu"], capture_output=True, text=True, check=True)
    rows = re.findall(r"^(flash|RAM): (\d+) bytes planned for this build, (\d+) linked$", done.stdout, re.MULTILINE)
    assert len(rows) == 2 and "PASS" in done.stdout
    return [(name, int(planned), int(linked)) for name, planned, linked in rows]


@pytest.mark.parametrize("chip", ("cortex-m4f", "esp32-c3"))
def test_samples_references_and_names_are_counted_to_the_byte(chip: str, tmp_path: Path) -> None:
    """Fault: neither a byte a tensor for the size of its elements nor what aligns tables was, and a plan was 11 bytes
    below the linker. Equal names lie there once."""
    folder = deployed(tmp_path / "p", chip, steps=3).folder
    subprocess.run(["make", "-s", "-C", str(folder), "build/qemu-gcc/data.o"], check=True)
    sections = [s for s in Elf.of(folder / "build/qemu-gcc/data.o").sections if s.loaded]
    held = sum(s.size for s in sections if not s.name.endswith("data_operations"))  # which only a profile has
    shares = {s["what"]: s["bytes"] for s in read_plan(folder)["image"]["flash"]["shares"]}
    told = sum(shares[what] for what in ("samples", "references", "names of tensors"))
    names = Counter(re.findall(r'^    "(.*)"', (folder / "data.c").read_text(), re.MULTILINE))
    again = sum((n - 1) * aligned(len(name) + 1, 4) for name, n in names.items())
    assert held <= told - again < held + 4, "the last name ends where it ends"


@pytest.mark.parametrize("chip", CHIPS)
def test_too_little_ram_is_one_clear_message(chip: str, tmp_path: Path) -> None:
    with pytest.raises(DoesNotFit, match=f"does not fit {chip}") as refused:
        deployed(tmp_path / "p", chip, l2="16k")
    assert "L2: needs" in str(refused.value)


def test_a_board_runs_only_its_own_projects(tmp_path: Path) -> None:
    project = deployed(tmp_path / "p", "cortex-m7")
    with pytest.raises(UsageError, match="this project is for cortex-m7") as refused:
        project.verify(on="qemu-riscv")
    assert refused.value.remedy == "deploy it with --target esp32-c3"


@pytest.mark.parametrize(
    ("given", "words"), (({"cores": 3}, "cortex-m7 has 1 core, not 3"), ({"l1": "32k"}, "cortex-m7 has one memory"))
)
def test_a_chip_has_the_cores_and_memories_that_it_has(given: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        resolve("cortex-m7", **given)  # type: ignore[arg-type]
    assert refused.value.exit_code == 2
