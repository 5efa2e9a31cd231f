"""What a plan's account says of code that is at hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from trainlib_deployer.api import deploy
from trainlib_deployer.formats import DType
from trainlib_deployer.kernels.table import ROWS, chosen
from trainlib_deployer.machine.pulp_open import PULP_OPEN
from trainlib_deployer.ops.matmul import MatMul
from trainlib_deployer.plan.account import (
    USUAL,
    code_of,
    functions_of,
    is_short,
    kernels_at_hand,
    loops_at_hand,
    read_once,
)
from trainlib_deployer.plan.cycles import reading_cycles
from trainlib_deployer.program.expr import Instr
from trainlib_deployer.program.ir import Part, View
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.series import Series
from trainlib_deployer.program.together import Together

COSTS = replace(
    PULP_OPEN.costs.tile,
    first=2.0,
    held=50,
    again=-100.0,
    loop_first=10.0,
    loop_again=-1.0,
    loop_stream=0.5,
    loop_tile=-0.25,
    loop_short=-7.0,
)


def test_a_kernel_is_fetched_the_first_time_and_is_there_right_after_it() -> None:
    a, b = ROWS[:2]
    order = [(a,), (), (a,), (b, a), (b,), (b,), (a,)]
    code = {a: 40, b: 60}
    assert [*kernels_at_hand(order, COSTS, code.__getitem__)] == [80.0, 0.0, -100.0, 100.0, 0.0, -100.0, 0.0]


def test_bytes_of_kernels_are_known_of_chips_whose_compiler_is() -> None:
    code = code_of(PULP_OPEN)
    sizes = sorted(code(row) for row in ROWS)
    assert sizes[0] < 500 and sizes[-1] > 5000
    assert {code_of(replace(PULP_OPEN, build=None))(row) for row in ROWS} == {USUAL}


def product(m: int, n: int, k: int, left: str, results: str = "mn") -> tuple[MatMul, list[View], list[View]]:
    def lying(order: str, **extents: int) -> View:
        first, second = order
        steps = {first: extents[second], second: 1}
        return View("", (1, *extents.values()), (0, *(steps[axis] for axis in extents)))

    return MatMul(1, m, n, k), [lying(left, m=m, k=k), lying("kn", k=k, n=n)], [lying(results, m=m, n=n)]


def known(*work: Any) -> float:
    row = chosen(*work, 8)
    assert row is not None and row.settled is not None
    return row.settled(*work, 8, PULP_OPEN.costs)


def test_a_product_takes_more_where_rows_are_packed_or_results_are_apart() -> None:
    whole, ragged = known(*product(8, 64, 4, "km")), known(*product(6, 64, 4, "km"))
    assert ragged > 1.5 * whole, "the last two rows are packed for each panel"
    assert known(*product(6, 64, 4, "mk")) < ragged, "where they lie in rows they are read there"
    assert known(*product(32, 32, 16, "mk", "nm")) > 1.2 * known(*product(32, 32, 16, "mk"))


def test_a_product_of_halves_takes_more_where_tiles_are_partly_outside() -> None:
    def halves(m: int, n: int) -> float:
        kind, *operands = product(m, n, 12, "mk")
        return known(replace(kind, storage=DType.F16), *operands)

    assert halves(2, 288) > 1.5 * halves(4, 288)
    assert halves(4, 287) > halves(4, 288)


def test_what_reads_the_outer_memory_reads_each_element_at_least_once(tmp_path: Path) -> None:
    net, data = nn.Linear(64, 2), [(torch.randn(2, 64), torch.randn(2, 2))]
    plan = deploy(net, *data[0], data=data, out=tmp_path / "net", loss=nn.MSELoss(), steps=1, cores=8, l1="12k").plan
    home = {name: replace(b, level=plan.outer.name) for name, b in plan.home.items()}
    outside = replace(plan, home=home, tilings={})
    products = [at for at, op in enumerate(plan.program.ops) if isinstance(op.kind, MatMul)]
    assert products
    assert all(read_once(plan, at) == 0 for at in plan.tilings)
    for at in products:
        op, machine = plan.program.ops[at], plan.target
        touched, again = reading_cycles(Part(op.kind, op.reads, op.writes), outside.outside(at), machine)
        assert touched > 0 and again > 0
        assert read_once(outside, at) == min(touched, again)
        assert read_once(replace(outside, home={}), at) == 0


def test_loops_that_are_called_again_in_an_operation_take_less(tmp_path: Path) -> None:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Conv2d(3, 13, 3), nn.BatchNorm2d(13), nn.ReLU(), nn.Flatten(), nn.Linear(13 * 121, 5))
    data = [(torch.randn(2, 3, 13, 13), torch.randn(2, 5))]
    plan = deploy(net, *data[0], data=data, out=tmp_path / "net", loss=nn.MSELoss(), steps=1, cores=7, l1="24k").plan
    plan = replace(plan, target=replace(plan.target, costs=replace(plan.target.costs, tile=COSTS)))
    kinds = [op.kind for op in plan.program.ops]
    series = {at: kind for at, kind in enumerate(kinds) if isinstance(kind, Series)}
    tiled = [at for at in series if at in plan.tilings and len(plan.tilings[at].parts) > 1]
    assert tiled, "a normalisation is in several tiles"
    for at, kind in series.items():
        tiles = len(plan.tilings[at].parts) if at in plan.tilings else 1
        loops = [stage.loop for stage in kind.stages]
        assert loops_at_hand(plan, at) == 10 * len(set(loops)) - (tiles * len(loops) - len(set(loops)))
    together = {at: kind for at, kind in enumerate(kinds) if isinstance(kind, Together)}
    assert together
    assert all(loops_at_hand(plan, at) == 1 - len(kind.loops) for at, kind in together.items())
    alone = {at: plan.tilings.get(at) for at, kind in enumerate(kinds) if isinstance(kind, Loop)}
    assert any(alone.values()) and not all(alone.values())
    short = {at for at, kind in enumerate(kinds) if isinstance(kind, Loop) and is_short(kind)}
    assert any(tiling is None and at in short for at, tiling in alone.items())
    for at, tiling in alone.items():
        untiled = -7.0 if at in short else 0.0
        expected = untiled if tiling is None else len(tiling.streams) / 2 - (tiling.count - 1) / 4
        assert loops_at_hand(plan, at) == expected
    others = (at for at in range(len(kinds)) if at not in (*series, *together, *alone))
    assert all(loops_at_hand(plan, at) == 0 for at in others)


def test_a_loop_that_converts_is_not_short() -> None:
    """Fault: one of 1,704 cycles was forecast at 1,124."""
    plain = Loop.pointwise(512, (DType.F32,), Instr("abs", (0,), DType.F32))
    widened = (Instr("from_half", (0,), DType.F32), Instr("abs", (1,), DType.F32))
    halves = replace(plain, inputs=(DType.F16,), body=widened, results=(2,))
    root = Loop.pointwise(512, (DType.F32,), Instr("sqrt", (0,), DType.F32))
    assert [is_short(kind) for kind in (plain, halves, root)] == [True, False, False]


def test_a_function_is_called_for_large_values_once_an_operation(tmp_path: Path) -> None:
    net, data = nn.Sequential(nn.Linear(8, 64), nn.GELU()), [(torch.randn(2, 8), torch.randn(2, 64))]
    plan = deploy(net, *data[0], data=data, out=tmp_path / "net", loss=nn.MSELoss(), steps=1, cores=8, l1="12k").plan
    loops = [at for at, op in enumerate(plan.program.ops) if "gauss_cdf" in functions_of(op.kind)]
    assert loops
    costs = replace(plan.target.costs, loop=replace(plan.target.costs.loop, rarely={}))
    without = replace(plan, target=replace(plan.target, costs=costs))
    assert all(loops_at_hand(plan, at) > loops_at_hand(without, at) for at in loops)
