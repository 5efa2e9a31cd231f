"""A sweep over several types: each has the points that it has alone, and what rounds less is not beaten by what rounds
more."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import trainlib_deployer
from trainlib_deployer.advice.budget import Budget
from trainlib_deployer.advice.points import Points, dominates
from trainlib_deployer.cli.main import cli
from trainlib_deployer.errors import UsageError
from trainlib_deployer.options import DTYPES

ROOM: dict[str, Any] = {"cores": 3, "l1": "12k", "l2": "1M"}


def net() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(23, 41), nn.Tanh(), nn.Linear(41, 7))


def example() -> dict[str, Any]:
    return {"example_input": torch.randn(5, 23), "example_target": torch.randn(5, 7), **ROOM}


@pytest.fixture(scope="module")
def everything() -> Points:
    return trainlib_deployer.sweep(net(), **example(), dtype="fp32,mixed,fp16", every=True)


def test_each_type_has_the_points_that_it_has_alone(everything: Points) -> None:
    for dtype in DTYPES:
        alone = trainlib_deployer.sweep(net(), **example(), dtype=dtype, every=True)
        found = [p for p in everything if p.dtype == dtype]
        assert sorted((p.l1, p.l2, p.options, p.costs) for p in found) == sorted(
            (p.l1, p.l2, p.options, p.costs) for p in alone
        )
    assert len({p.options.partition(" --l2")[0] for p in everything if p.recompute == "none"}) == len(DTYPES)


def test_fewer_bits_beat_nothing_that_keeps_more(everything: Points) -> None:
    best = everything.front
    assert {p.dtype for p in best} == {*DTYPES}, "halves save memory, and floats round nothing"
    for mine in everything:
        for other in everything:
            if dominates(other.costs, mine.costs):
                assert DTYPES.index(other.dtype) <= DTYPES.index(mine.dtype)


def test_the_front_alone_is_the_front_of_all(everything: Points) -> None:
    alone = trainlib_deployer.sweep(net(), **example(), dtype="fp16, fp32,mixed")
    assert [(p.costs, p.dtype) for p in alone] == [(p.costs, p.dtype) for p in everything.front]


def test_within_a_budget_the_type_is_the_one_that_rounds_least(everything: Points) -> None:
    types = set()
    for size in {p.forecast.memory for p in everything}:
        best = Points.of("net", everything.points, Budget(memory=size)).best
        assert best is not None
        within = [p for p in everything if p.forecast.memory <= size]
        rivals = [p for p in within if (p.trained, p.samples) >= (best.trained, best.samples)]
        assert {(p.trained, p.samples) for p in rivals} == {(best.trained, best.samples)}
        assert DTYPES.index(best.dtype) == min(DTYPES.index(p.dtype) for p in rivals)
        types |= {p.dtype for p in rivals} if len({p.dtype for p in rivals}) > 1 else set()
    assert len(types) > 1, "one had a choice"


class Autocast(nn.Sequential):
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x)  # type: ignore[no-any-return]


def test_what_autocast_asks_for_is_there_once() -> None:
    points = trainlib_deployer.sweep(Autocast(*net().children()), **example(), dtype="fp32,mixed", every=True)
    alone = trainlib_deployer.sweep(Autocast(*net().children()), **example(), every=True)
    assert {p.dtype for p in points} == {"mixed"} and not any("--dtype" in p.options for p in points)
    assert [p.costs for p in points] == [p.costs for p in alone]


NET = """\
import torch
from torch import nn
model = nn.Sequential(nn.Linear(7, 6), nn.ReLU(), nn.Linear(6, 3))
example_input = torch.randn(2, 7)
example_target = torch.tensor([2, 0])
"""


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)
    words = ["sweep", "--model", "net.py", "--dtype", "fp32,fp16", "--all", "--json", "s.json", "--csv", "s.csv"]
    result = CliRunner().invoke(cli, [*words, "--target", "pulp-open"])
    assert result.exit_code == 0, result.output
    points = json.loads(Path("s.json").read_text())["points"]
    rows = list(csv.DictReader(io.StringIO(Path("s.csv").read_text())))
    assert [r["dtype"] for r in rows] == [p["dtype"] for p in points] and {r["dtype"] for r in rows} == {"fp32", "fp16"}
    heading, *lines = result.stdout.splitlines()[: 1 + len(points)]
    assert heading.split()[:3] == ["trained", "type", "parameters"] and heading.split()[-1] == "cycles"
    ends = [line.split()[-1] for line in lines]
    assert ends == [f"{p['cycles']:,}" for p in points] and len({*ends}) > 2
    budget = CliRunner().invoke(cli, ["sweep", "--model", "net.py", "--dtype", "fp16,fp32", "--memory", "100k"])
    assert " in fp32, is the most that can be trained" in budget.stdout


@pytest.mark.parametrize(
    ("types", "phrase"), [("fp32,bf16", "bf16"), ("fp32,,mixed", "dtype is ''"), ("half", "'half'")]
)
def test_bad_types(types: str, phrase: str) -> None:
    with pytest.raises(UsageError, match=phrase):
        trainlib_deployer.sweep(net(), **example(), dtype=types)
    result = CliRunner().invoke(cli, ["sweep", "--model", "net.py", "--dtype", types])
    assert result.exit_code == 2 and phrase in result.stderr and result.stdout == ""
