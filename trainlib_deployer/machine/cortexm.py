"""Microcontrollers with one Cortex-M core and a float unit: tensors in RAM, code and initial contents in flash.

Sizes are those of ST's data sheets: STM32L4R5 (640 kB of SRAM in one piece, 2 MB of flash; MLPerf Tiny's reference
board has it), STM32H743 (512 kB of AXI SRAM, 2 MB), STM32U585 (768 kB of SRAM1 to 3, 2 MB). What runs them here are
QEMU's boards with the same core: instructions are known, cycles are not, and the costs are those of pulp-open.
"""

from __future__ import annotations

from trainlib_deployer.machine.build import CODE, CONSTANTS, CONTENTS, DATA, TABLES, TENSORS, ZEROS, Bank, Board, Build
from trainlib_deployer.machine.machine import Cores, Machine, Memory
from trainlib_deployer.machine.pulp_open import COSTS, DMA

STACK = 4096  # of the one core, by the script
VARIABLES = 64  # alignment between sections
START = 320  # vectors, what runs from reset to main, alignment


def chip(name: str, ram: int, about: str, board: Board) -> Machine:
    build = Build(
        name,
        "c_lib/hal/cortexm.ld",
        outer=(Bank((TENSORS, DATA, ZEROS), own=STACK + VARIABLES),),
        flash=(Bank((CODE, CONSTANTS, TABLES, CONTENTS), own=START),),
        flash_size=2 << 20,
        board=board,
        simulated=4 << 20,
    )
    memories = (Memory("L1", 0), Memory("L2", ram))
    return Machine(name, Cores(1, 1, stack=0, instruction_sets=()), memories, (DMA,), COSTS, about, build=build)


CORTEX_M4F = chip(
    "cortex-m4f",
    640 << 10,
    "Cortex-M4F: STM32L4R5",
    Board("mps2-an386", "-mcpu=cortex-m4 -mthumb -mfpu=fpv4-sp-d16 -mfloat-abi=hard", 0x0, 0x20000000),
)
CORTEX_M7 = chip(
    "cortex-m7",
    512 << 10,
    "Cortex-M7: STM32H743",
    Board("mps2-an500", "-mcpu=cortex-m7 -mthumb -mfpu=fpv5-sp-d16 -mfloat-abi=hard", 0x0, 0x20000000),
)
CORTEX_M33 = chip(
    "cortex-m33",
    768 << 10,
    "Cortex-M33: STM32U585",
    Board("mps2-an505", "-mcpu=cortex-m33 -mthumb -mfpu=fpv5-sp-d16 -mfloat-abi=hard", 0x10000000, 0x38000000),
)
