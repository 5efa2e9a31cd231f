"""Costs measured on GVSoC's model of pulp-open."""

from __future__ import annotations

from trainlib_deployer.machine.costs import ConvCosts, Costs, LoopCosts, Measured, PanelCosts, ProductCosts, TileCosts

PULP_OPEN_COSTS = Costs(
    Measured(
        where="GVSoC (December 2025), pulp-open: 8 cores, core i and i + 4 share a float unit; PULP-SDK",
        when="November 2026",
        compiler="clang 19, -O2, rv32imc_zfinx, without PULP's own instructions",
    ),
    PanelCosts(
        tile=90,
        tile_block=60,
        tile_term=45,
        visit=600,
        visit_block=90,
        visit_term=14,
        edge_block=375,
        edge_term=18,
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
    ConvCosts(depthwise=500, depthwise_mac=3.0, scattered=1.5, packed_weight=8, packed_block=180),
    LoopCosts(start=50, element=8, mac=1.3),
    TileCosts(tile=800, link=1200, early=1000, early_more=100),
)
