"""Microcontrollers with one core: tensors in RAM, code and initial contents in flash.

Cortex-M, with a float unit; sizes are those of ST's data sheets: STM32L4R5 (640 kB of SRAM in one piece, 2 MB of flash;
MLPerf Tiny's reference board has it), STM32H743 (512 kB of AXI SRAM, 2 MB), STM32U585 (768 kB of SRAM1 to 3, 2 MB).
RISC-V without one; sizes are those of Espressif's data sheets: ESP32-C3 (RV32IMC, 400 kB of SRAM, 16 kB of them the
cache's; C3FH4 has 4 MB of flash) and ESP32-C6 (RV32IMAC, 512 kB of high-performance SRAM; C6FH4 has 4 MB). What
ESP-IDF, its radio and its tasks take of these is not counted.

What runs them here are QEMU's boards with the same core: instructions are known, cycles are not, and the costs are
those of pulp-open.
"""

from __future__ import annotations

from trainlib_deployer.machine.build import CODE, CONSTANTS, CONTENTS, DATA, TABLES, TENSORS, ZEROS, Bank, Board, Build
from trainlib_deployer.machine.machine import Cores, Machine, Memory
from trainlib_deployer.machine.pulp_open import COSTS, DMA

STACK = 4096  # of the one core, by the script
VARIABLES = 64  # alignment between sections
START = 320  # vectors, what runs from reset to main, alignment
# Of GCC 12's library as linked: sums, products, quotients, comparisons, conversions. It comes with short instructions
# only beside atomic ones.
SOFT_FLOATS = {"rv32imc": 5300, "rv32imac": 3900}


def chip(name: str, about: str, board: Board, compiler: str, ram: int, flash: int, start: int = START) -> Machine:
    build = Build(
        compiler,
        "c_lib/hal/single.ld",
        outer=(Bank((TENSORS, DATA, ZEROS), own=STACK + VARIABLES),),
        flash=(Bank((CODE, CONSTANTS, TABLES, CONTENTS), own=start),),
        flash_size=flash,
        board=board,
        simulated=4 << 20,
    )
    memories = (Memory("L1", 0), Memory("L2", ram))
    return Machine(name, Cores(1, 1, stack=0, instruction_sets=()), memories, (DMA,), COSTS, about, build=build)


def cortexm(
    name: str, about: str, machine: str, ram: int, flags: str, at: tuple[int, int] = (0, 0x20000000)
) -> Machine:
    flags = f"{flags} -mthumb -mfloat-abi=hard"
    board = Board("qemu-system-arm", machine, "arm-none-eabi-", flags, *at)
    return chip(name, about, board, name, ram, 2 << 20)


def riscv(name: str, about: str, isa: str, ram: int) -> Machine:
    board = Board(
        "qemu-system-riscv32",
        "virt -bios none -cpu rv32,f=false,d=false",
        "riscv64-unknown-elf-",
        f"-march={isa}_zicsr -mabi=ilp32",
        0x80000000,
        0x81000000,
        link_flags=f"-march={isa}",
    )
    return chip(name, about, board, "rv32imc", ram, 4 << 20, START + SOFT_FLOATS[isa])


CORTEX_M4F = cortexm(
    "cortex-m4f", "Cortex-M4F: STM32L4R5", "mps2-an386", 640 << 10, "-mcpu=cortex-m4 -mfpu=fpv4-sp-d16"
)
CORTEX_M7 = cortexm("cortex-m7", "Cortex-M7: STM32H743", "mps2-an500", 512 << 10, "-mcpu=cortex-m7 -mfpu=fpv5-sp-d16")
CORTEX_M33 = cortexm(
    "cortex-m33",
    "Cortex-M33: STM32U585",
    "mps2-an505",
    768 << 10,
    "-mcpu=cortex-m33 -mfpu=fpv5-sp-d16",
    (0x10000000, 0x38000000),
)
ESP32_C3 = riscv("esp32-c3", "RISC-V without a float unit: ESP32-C3", "rv32imc", 384 << 10)
ESP32_C6 = riscv("esp32-c6", "RISC-V without a float unit: ESP32-C6", "rv32imac", 512 << 10)
