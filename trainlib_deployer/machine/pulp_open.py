"""PULP's open cluster as GVSoC models it and PULP-SDK runs it; costs were measured there.

8 cores of RV32IMC; core i and core i + 4 share a float unit (GVSoC's model); 64 kB of L1 in 16 banks, 512 kB of L2 by
the SDK's link script. A core's load from L2 takes 14 cycles more than one from L1. A transfer takes some 40 cycles to
issue and 70 until it flows, then 8 bytes a cycle; the SDK gives its size 16 bits, and the engine has 16 counters to
tell transfers apart (all measured on GVSoC). 64 bytes of L1 are the SDK's.
"""

from __future__ import annotations

from trainlib_deployer.machine.costs import ConvCosts, Costs, LoopCosts, Measured, PanelCosts, ProductCosts, TileCosts
from trainlib_deployer.machine.machine import Cores, Link, Machine, Memory

COSTS = Costs(
    Measured(
        where="GVSoC (December 2025), pulp-open: 8 cores, core i and i + 4 share a float unit; PULP-SDK",
        when="November 2026",
        compiler="clang 19, -O2, rv32imc_zfinx, without PULP's own instructions",
    ),
    PanelCosts(
        tile=87.5,
        tile_block=31.98,
        tile_term=37.77,
        visit=0,
        visit_block=487.4,
        visit_term=0.43,
        edge_block=1.62,
        edge_term=25.99,
    ),
    PanelCosts(
        tile=183.4,
        tile_block=0,
        tile_term=35.76,
        visit=0,
        visit_block=0,
        visit_term=38.01,
        edge_block=333,
        edge_term=28.64,
    ),
    PanelCosts(
        tile=0,
        tile_block=0,
        tile_term=38.93,
        visit=0,
        visit_block=0,
        visit_term=34.97,
        edge_block=0,
        edge_term=57.44,
    ),
    PanelCosts(
        tile=0,
        tile_block=0,
        tile_term=40.81,
        visit=2631,
        visit_block=0,
        visit_term=28.11,
        edge_block=0,
        edge_term=0,
    ),
    ProductCosts(
        outer=300,
        outer_mac=3.0,
        rows=250,
        rows_quad=110,
        rows_block=16,
        rows_mac=2.8,
        split=900,
        split_mac=2.7,
    ),
    ConvCosts(
        depthwise=900,
        depthwise_column=79.6,
        depthwise_output=22,
        depthwise_row=60,
        depthwise_term=29,
        depthwise_plane_mac=3.3,
        depthwise_sparse_mac=6.3,
        depthwise_class_mac=11,
        depthwise_mac=9,
        scattered=1.5,
        packed_weight=8,
        packed_block=180,
    ),
    LoopCosts(start=50, element=8, mac=1.3),
    TileCosts(tile=800, link=1200, early=1000, early_more=100),
)
DMA = Link(
    inner=0,
    outer=1,
    bytes_per_cycle=8,
    issue=110,
    row=2,
    short_row=8,
    short=16,
    channels=16,
    largest=65520,
)
STACK = 1536  # what the SDK's own start code and a printf leave to spare
FAR_LOAD = 14

PULP_OPEN = Machine(
    "pulp-open",
    Cores(8, per_float_unit=2, stack=STACK, instruction_sets=("rv32imc", "zfinx", "xpulp")),
    (Memory("L1", 64 << 10, reserved=64), Memory("L2", 512 << 10, load=FAR_LOAD)),
    (DMA,),
    COSTS,
    about="PULP cluster as in GVSoC and PULP-SDK",
)
