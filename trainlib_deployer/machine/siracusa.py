"""Siracusa: 8 cores, 256 kB of L1, 2 MB of L2 (arXiv 2312.14750; GVSoC's model: four float units for eight cores).

GVSoC's model runs generated programs. Its controller has no float unit, so what runs there computes with whole numbers.
Cycles were not measured: links and costs are those of pulp-open, whose cores and DMA are of the same family.
"""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.machine.build import CODE, CONSTANTS, CONTENTS, DATA, TABLES, TENSORS, ZEROS, Bank
from trainlib_deployer.machine.machine import Clock, Cores, Machine, Memory
from trainlib_deployer.machine.pulp_open import BUILD, COSTS, DMA, FAR_LOAD, HYPERRAM, STACK

SIRACUSA = Machine(
    "siracusa",
    Cores(8, per_float_unit=2, stack=STACK, instruction_sets=("rv32imc", "zfinx", "xpulp")),
    (Memory("L1", 256 << 10, reserved=64), Memory("L2", 2 << 20, load=FAR_LOAD)),
    (DMA,),
    COSTS,
    about="Siracusa",
    clock=Clock(360, "arXiv 2312.14750; cycles are pulp-open's"),
    build=replace(
        BUILD,
        source="PULP-SDK's chips/siracusa/link.ld, where variables lie behind the code; maps of linked examples",
        outer=(
            Bank((CONSTANTS,), own=4216),
            Bank((CODE, DATA, ZEROS), begins=0x8000, own=7904),
            Bank((TABLES, TENSORS, CONTENTS), begins=0x10000, own=392),
        ),
        simulated=0,
    ),
    outside=HYPERRAM,
)
