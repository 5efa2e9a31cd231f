"""Any microcontroller with a C compiler: one core, one memory. The inner one has no bytes, so nothing is streamed."""

from __future__ import annotations

from trainlib_deployer.machine.machine import Cores, Machine, Memory
from trainlib_deployer.machine.pulp_open import COSTS, DMA, FAR_LOAD

GENERIC = Machine(
    "generic",
    Cores(1, per_float_unit=1, stack=0, instruction_sets=()),
    (Memory("L1", 0), Memory("L2", 512 << 10, load=FAR_LOAD)),
    (DMA,),
    COSTS,
    bf16=True,
    about="one core, one memory: any microcontroller with a C compiler",
)
