"""PULP's open cluster as GVSoC models it and PULP-SDK runs it; costs were measured there.

8 cores of RV32IMC; core i and core i + 4 share a float unit (GVSoC's model); 64 kB of L1 in 16 banks, 512 kB of L2 by
the SDK's link script. A core's load from L2 takes 14 cycles more than one from L1. A transfer takes some 40 cycles to
issue and 70 until it flows, then 8 bytes a cycle; the SDK gives its size 16 bits, and the engine has 16 counters to
tell transfers apart (all measured on GVSoC). 64 bytes of L1 are the SDK's.

A board has 8 MB of HyperRAM (GVSoC's model: S27KS0641), which only the controller's uDMA reaches: a core asks it by
pi_cl_ram_read and _write. 4 kB take 5,140 cycles in and 6,166 out, 64 kB 66,600 and 82,961: 1,100 cycles, then a byte a
cycle, in, and 0.8, out, and 24 a row where there are several; the core that asks is busy for 260 (all measured on
GVSoC).
"""

from __future__ import annotations

from trainlib_deployer.machine.build import CODE, CONSTANTS, CONTENTS, DATA, TABLES, TENSORS, ZEROS, Bank, Build
from trainlib_deployer.machine.costs import (
    ConvCosts,
    Costs,
    LoopCosts,
    Measured,
    PairCosts,
    PanelCosts,
    PlanesCosts,
    PoolCosts,
    ProductCosts,
    ScanCosts,
    StripCosts,
    TileCosts,
    TwosCosts,
    UnpricedCosts,
    WinogradCosts,
    WinogradPairCosts,
    WinogradPanelCosts,
)
from trainlib_deployer.machine.machine import LEAN_STACK, Cores, Link, Machine, Memory, Outside

FUNCTIONS = {
    **{"lt": 2.7, "le": 2.2, "gt": 3, "ge": 1.5, "eq": 3.2, "ne": 3.2, "select": 3.7, "copy": 0},
    **{"max": 3.6, "min": 3.6, "sign": 7, "div": 16, "sqrt": 42, "rsqrt": 31, "inverse_root": 21},
    **{"fmod": 66, "remainder": 74},
    **{"exp": 22, "exp2": 69, "expm1": 42, "log": 33, "log2": 82, "log10": 86, "log1p": 44, "pow": 315},
    **{"sin": 74, "cos": 78, "tan": 120, "asin": 93, "acos": 90, "atan": 49, "atan2": 105},
    **{"sinh": 27, "cosh": 106, "tanh": 31, "erf": 20, "erfc": 60, "erfinv": 115, "lgamma": 143, "sigmoid": 35},
    **{"gauss_cdf": 17, "gauss_density": 37},
    **{"floor": 15, "ceil": 17, "trunc": 11, "round": 12},
}
COSTS = Costs(
    Measured(
        where="GVSoC (December 2025), pulp-open: 8 cores, core i and i + 4 share a float unit; PULP-SDK",
        when="November 2026",
        compiler="clang 19, -O2, rv32imc_zfinx, without PULP's own instructions",
    ),
    PanelCosts(
        tile=148,
        tile_block=0,
        tile_term=32.6,
        visit=97.6,
        visit_block=321,
        visit_term=2.71,
        edge_block=1.41,
        edge_term=19.6,
    ),
    PanelCosts(
        tile=221,
        tile_block=11.1,
        tile_term=32.6,
        visit=408,
        visit_block=312,
        visit_term=22.3,
        edge_block=202,
        edge_term=34.4,
    ),
    PanelCosts(
        tile=190,
        tile_block=0,
        tile_term=32.6,
        visit=351,
        visit_block=116,
        visit_term=47.9,
        edge_block=0,
        edge_term=52.5,
    ),
    PanelCosts(
        tile=0,
        tile_block=70.1,
        tile_term=32.6,
        visit=287,
        visit_block=38.9,
        visit_term=0.11,
        edge_block=202,
        edge_term=0,
    ),
    PanelCosts(
        tile=124,
        tile_block=20.2,
        tile_term=32.6,
        visit=1850,
        visit_block=0,
        visit_term=12.4,
        edge_block=0,
        edge_term=9.88,
    ),
    PanelCosts(
        tile=49.8,
        tile_block=243,
        tile_term=25.0,
        visit=199,
        visit_block=0,
        visit_term=2.5,
        edge_block=0,
        edge_term=0,
    ),
    PairCosts(tile_block=77.4, tile_term=18.24, visit_block=923.7, block=332.9, packed=6.33),
    PairCosts(tile_block=0, tile_term=17.6, visit_block=1302, block=1862, packed=17.3),
    PairCosts(tile_block=200.4, tile_term=22.96, visit_block=1813, block=0, packed=0),
    PlanesCosts(step=1400, tile=275.3, tap=34, weights=8, pixels=5.1),
    StripCosts(step=2050, tile=252, pair=25.5, inputs=16, gradients=14),
    TwosCosts(start=905, plane=397, row=25.2, copied=4.04, paired=8.06, output=19.7, met=19.9),
    ProductCosts(
        outer=300,
        outer_mac=3.0,
        rows=257,
        rows_quad=135,
        rows_block=16.4,
        rows_mac=2.43,
        split=813,
        split_mac=2.49,
    ),
    ConvCosts(
        depthwise=867,
        depthwise_column=98.7,
        depthwise_output=17.5,
        depthwise_image=450,
        depthwise_term=23.2,
        depthwise_plane=214,
        depthwise_element=4.89,
        depthwise_line=41.1,
        depthwise_plane_mac=2.27,
        depthwise_classes=1775,
        depthwise_squares=191,
        depthwise_square=23.2,
        depthwise_mac=7.31,
        scattered=0.92,
        by_table=2.35,
        in_place=0.32,
        by_two=1.0,
        sum=54,
        sum_block=6,
        square=494,
        square_term=71,
        square_copy=5.93,
        packed_weight=7.29,
        packed_block=193,
    ),
    WinogradCosts(
        start=6200,
        step=1860,
        weight=116,
        input=356,
        output=385,
        gradient=345,
        sums=170,
        apart=2.86,
        tile=1550,
        block=2500,
        term=481,
    ),
    WinogradPanelCosts(
        start=5400,
        weight=108,
        panel=3750,
        input=296,
        output=287,
        tile=1020,
        term=514,
    ),
    WinogradPairCosts(
        start=4500,
        step=600,
        weight=480,
        input=750,
        output=2700,
        apart=2.0,
        tile=1200,
        term=550,
    ),
    LoopCosts(
        start=321,
        row=4.76,
        load=1.19,
        store=0.995,
        step=0.336,
        single=4.74,
        plain=0.905,
        alone=1.28,
        result=7.09,
        fold=2.98,
        block=19.5,
        functions=FUNCTIONS,
        folds={"max": 7, "min": 7},
    ),
    ScanCosts(step=324, mac=2.4, unit=24.3, gate=75),
    ScanCosts(step=319, mac=2.25, unit=10, gate=45),
    PoolCosts(
        row=109,
        maximum=9.6,
        mean=4.5,
        any_tap=24,
        shared=7.12,
        cleared=3,
        given=27.6,
        gathered=65,
        rounded=6.5,
        each=135,
        each_window=45,
    ),
    UnpricedCosts(start=1530, element=9.14, mac=1.3),
    TileCosts(tile=720, kernel=1850, loop=586, link=1410, turn=200, early=1000, early_more=100),
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
    back=0.07,
)
HYPERRAM = Outside(
    Memory("L3", 8 << 20),
    Link(
        inner=1,
        outer=2,
        bytes_per_cycle=0.9,
        issue=1100,
        row=24,
        short_row=24,
        short=1,
        channels=2,
        largest=1 << 23,
        asked=260,
    ),
)
STACK = LEAN_STACK  # with what the SDK starts a core with: steps of five networks were verified on GVSoC
FAR_LOAD = 14
BUILD = Build(
    "pulp-sdk",
    "PULP-SDK's chips/pulp/link.ld; maps of linked examples, November 2026: the SDK's own are alike to 22 bytes in all",
    outer=(
        Bank((CONSTANTS, DATA, ZEROS), own=4368),  # private bank 0: with 2,048 bytes of the controller's stack
        Bank((CODE,), begins=0x8000, own=7552),  # private bank 1
        Bank((TABLES, TENSORS, CONTENTS), begins=0x10000, own=392),
    ),
    # The SDK's HyperRAM and hyperbus 3,548, this back end's 1,240, files 1,000, copies in net.c 146, as linked.
    driver=5950,
    apart=192 << 20,
    simulated=0x190000,
)

PULP_OPEN = Machine(
    "pulp-open",
    Cores(8, per_float_unit=2, stack=STACK, instruction_sets=("rv32imc", "zfinx", "xpulp", "xf16auxvec")),
    (Memory("L1", 64 << 10, reserved=64), Memory("L2", 512 << 10, load=FAR_LOAD)),
    (DMA,),
    COSTS,
    about="PULP cluster as in GVSoC and PULP-SDK",
    build=BUILD,
    outside=HYPERRAM,
)
