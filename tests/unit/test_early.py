"""The first tiles that come early: where from, for whom, and that they fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import nn

from trainlib_deployer.api import deploy
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.plan import chains
from trainlib_deployer.plan.early import bring_early, early_bytes, in_flight, own_flights
from trainlib_deployer.plan.layout import tensor_items
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.residents import SMALL
from trainlib_deployer.plan.setting import Setting
from trainlib_deployer.plan.tiles import Room, Tiling
from trainlib_deployer.program.ir import Program
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.segments import segments
from trainlib_deployer.program.together import Together

pytestmark = pytest.mark.slow

CORES, L1 = 3, 26 * 1024
Tilings = dict[int, Tiling]


def net() -> nn.Module:
    torch.manual_seed(3)
    layers = [nn.Conv2d(3, 9, 3, padding=1), nn.BatchNorm2d(9), nn.ReLU(), nn.Flatten()]
    sizes = (9 * 13 * 11, 21, 137, 90, 43)
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers)


def planned(folder: Path, accumulate: int = 1) -> Plan:
    data = [(torch.randn(1, 3, 13, 11), torch.randn(1, 43)) for _ in range(2)]
    options = {"loss": nn.MSELoss(), "steps": 1, "cores": CORES, "l1": L1, "l2": "1M"}
    return deploy(net(), *data[0], data=data, out=folder, accumulate=accumulate, **options).plan


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return planned(tmp_path_factory.mktemp("project") / "net")


def early(tilings: Tilings) -> Tilings:
    return {at: t for at, t in tilings.items() if t.host is not None}


def test_some_tiles_come_early_from_nearer_and_farther_hosts(plan: Plan) -> None:
    found = early(plan.tilings)
    assert len(found) >= 4
    assert any(at - t.host > 1 for at, t in found.items() if t.host is not None)
    for at, tiling in found.items():
        assert tiling.host is not None and tiling.host < at
        assert any(s.early for s in tiling.streams)
        assert not any(s.early and s.writes for s in tiling.streams)
    assert not any(s.early for t in plan.tilings.values() if t.host is None for s in t.streams)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_no_function_ends_with_a_tile_on_its_way(accumulate: int, tmp_path: Path) -> None:
    made = planned(tmp_path / "net", accumulate)
    function = {at: name for name, found in segments(made.program).items() for at in found}
    assert set(function.values()) == {"forward", "loss", "backward"} | ({"update"} if accumulate > 1 else set())
    for at, tiling in early(made.tilings).items():
        assert tiling.host is not None and function[at] == function[tiling.host]


def test_what_comes_early_is_not_written_meanwhile(plan: Plan) -> None:
    for at, tiling in early(plan.tilings).items():
        sources = {plan.home[s.tensor] for s in tiling.streams if s.early}
        meanwhile = plan.program.ops[tiling.host : at]
        assert not sources & {plan.home[v.tensor] for op in meanwhile for v in op.writes if v.tensor in plan.home}


def test_bytes_are_counted_where_they_are_started(plan: Plan) -> None:
    moved = [f.moved for f in plan.account.figures]
    assert sum(moved) == sum(t.moved for t in plan.tilings.values())
    at, tiling = next((k, t) for k, t in early(plan.tilings).items() if k not in plan.guests)
    assert moved[at] == tiling.moved - tiling.early_moved < tiling.moved


@dataclass
class Tight:
    """What `bring_early` gets for a plan without early tiles, with so many bytes more than the tiles take."""

    program: Program
    tilings: Tilings
    resident: frozenset[str]
    own: list[int]
    target: Machine

    @staticmethod
    def of(plan: Plan, target: Machine) -> Tight:
        program = plan.program
        found = Setting(program, tuple(tensor_items(program)), target, min(SMALL)).plan(early=False)
        assert found is not None
        near = frozenset(n for n, b in found.home.items() if b.level == "L1")
        scratch = [op.kind.scratch(CORES) for op in program.ops]
        own = [found.tilings[k].nbytes if k in found.tilings else s for k, s in enumerate(scratch)]
        return Tight(program, dict(found.tilings), near, own, target)

    def early(self, more: int) -> Tilings:
        rooms = [Room(self.resident, bytes_ + more, self.target) for bytes_ in self.own]
        found = bring_early(self.program, self.tilings, rooms)
        for at, room in enumerate(rooms):
            taken = sum(
                early_bytes(t, [i for i, s in enumerate(t.streams) if s.early])
                for k, t in early(found).items()
                if t.host <= at < k
            )
            own = found[at].nbytes if at in found else self.own[at]
            assert own + taken <= room.capacity, f"operation {at}"
        return found


@pytest.mark.parametrize("more", [0, 64, 1500, 5000, 11111, 60000])
def test_they_fit_beside_the_tiles_of_the_operations_before(more: int, plan: Plan) -> None:
    tight = Tight.of(plan, plan.target)
    found = tight.early(more)
    cycles = [sum(t.cycles for t in tilings.values()) for tilings in (tight.tilings, found)]
    assert cycles[1] < cycles[0] if early(found) else cycles[1] == cycles[0]
    if more >= 5000:
        assert len(early(found)) >= 8


def test_an_operation_is_cut_anew_where_that_gains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With few bytes to spare, the first tile of a later operation needs room that this one gives up: on
    a machine where a tile more takes little, and loops that are no series."""
    monkeypatch.setattr(chains, "put_in_series", lambda draft: None)
    plan = planned(tmp_path / "net")
    costs = plan.target.costs
    nimble = replace(costs, loop=replace(costs.loop, start=50))
    tight = Tight.of(plan, replace(plan.target, costs=nimble))
    found = tight.early(2000)
    smaller = [at for at, t in found.items() if t.nbytes < tight.tilings[at].nbytes]
    assert smaller
    assert all(any(t.host is not None and t.host <= at < k for k, t in found.items()) for at in smaller)


def test_costs_fall_by_what_is_hidden(plan: Plan) -> None:
    tight = Tight.of(plan, plan.target)
    found = tight.early(60000)
    for at, tiling in early(found).items():
        before = tight.tilings[at].cost
        hidden = before.exposed - tiling.cost.exposed
        assert 0 < hidden <= before.exposed
        assert tiling.cost.cycles == pytest.approx(before.cycles - hidden)
        assert tiling.cost.transfer == before.transfer


def test_the_engine_tells_all_transfers_apart(plan: Plan) -> None:
    tight = Tight.of(plan, plan.target)
    many = replace(tight.tilings[2], streams=tight.tilings[2].streams * 5)
    assert in_flight(many) > plan.target.link.channels - 1
    found = bring_early(
        tight.program, tight.tilings | {2: many}, [Room(tight.resident, 1 << 20, resolve(cores=CORES))] * len(tight.own)
    )
    assert all(t.host != 2 for t in found.values())


def test_one_transfer_is_left_for_what_loops_together_copy(plan: Plan) -> None:
    """Without one its cores would wait for ever: those that came early are awaited behind it."""
    op = plan.program.ops[0]
    assert own_flights(replace(op, kind=Together(())), None) == 1
    assert own_flights(replace(op, kind=Loop((1,), 0, (), (), (), (), (), ())), None) == 0
