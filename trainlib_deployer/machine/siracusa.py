"""Siracusa: 8 cores, 256 kB of L1, 2 MB of L2 (arXiv 2312.14750; GVSoC's model: four float units for eight cores).

Nothing was measured on it: links and costs are those of pulp-open, whose cores and DMA are of the same family.
"""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.machine.machine import Clock, Cores, Machine, Memory
from trainlib_deployer.machine.pulp_open import BUILD, COSTS, DMA, FAR_LOAD, STACK

SIRACUSA = Machine(
    "siracusa",
    Cores(8, per_float_unit=2, stack=STACK, instruction_sets=("rv32imc", "zfinx", "xpulp")),
    (Memory("L1", 256 << 10, reserved=64), Memory("L2", 2 << 20, load=FAR_LOAD)),
    (DMA,),
    COSTS,
    about="Siracusa",
    clock=Clock(360, "arXiv 2312.14750; cycles are pulp-open's"),
    build=replace(
        BUILD, source="PULP-SDK's chips/siracusa/link.ld has the banks of pulp-open; bytes measured there", simulated=0
    ),
)
