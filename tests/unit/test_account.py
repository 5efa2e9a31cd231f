"""What a plan's account says of code that is at hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from trainlib_deployer.api import deploy
from trainlib_deployer.kernels.table import ROWS
from trainlib_deployer.machine.pulp_open import PULP_OPEN
from trainlib_deployer.plan.account import kernels_at_hand, loops_at_hand
from trainlib_deployer.program.series import Series
from trainlib_deployer.program.together import Together

COSTS = replace(PULP_OPEN.costs.tile, first=1000.0, again=-100.0, loop_first=10.0, loop_again=-1.0)


def test_a_kernel_is_fetched_the_first_time_and_is_there_right_after_it() -> None:
    a, b = ROWS[:2]
    order = [(a,), (), (a,), (b, a), (b,), (b,), (a,)]
    assert [*kernels_at_hand(order, COSTS)] == [1000.0, 0.0, -100.0, 1000.0, 0.0, -100.0, 0.0]


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
    assert all(loops_at_hand(plan, at) == 0 for at in range(len(kinds)) if at not in (*series, *together))
