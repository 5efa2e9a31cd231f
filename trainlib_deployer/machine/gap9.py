"""GAP9: a cluster of 9 cores, 128 kB of L1, 1.5 MB of L2 (GreenWaves' product brief).

How its cores share float units GreenWaves does not say. Its kin Vega, whose cluster has nine cores and 128 kB of L1 too
(arXiv 2110.09101), shares four units among them, about one for two cores: that is taken for GAP9, and so is the energy
that Vega needs, for GreenWaves' figures are of 8-bit networks on an accelerator. Nothing was measured on it: links and
costs are those of pulp-open, whose cores and DMA are of the same family.
"""

from __future__ import annotations

from dataclasses import replace

from trainlib_deployer.machine.energy import Power
from trainlib_deployer.machine.machine import Clock, Cores, Machine, Memory
from trainlib_deployer.machine.pulp_open import BUILD, COSTS, DMA, FAR_LOAD, STACK

GAP9 = Machine(
    "gap9",
    Cores(9, per_float_unit=2, stack=STACK, instruction_sets=("rv32imc", "zfinx", "xpulp")),
    (Memory("L1", 128 << 10), Memory("L2", 3 << 19, load=FAR_LOAD)),
    (DMA,),
    COSTS,
    about="GAP9, the ninth core is the cluster's master",
    clock=Clock(370, "GreenWaves' product brief; cycles are pulp-open's"),
    power=Power(79, 49.4, "Vega's, arXiv 2110.09101: 79 GFLOPS/W in fp32 at best, 49.4 mW at most"),
    build=replace(BUILD, source="those of pulp-open under PULP-SDK: GAP SDK's were not measured", simulated=0),
)
