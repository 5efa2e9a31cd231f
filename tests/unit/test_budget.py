"""Budgets: what is written, what is known of a machine, what keeps within."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import trainlib_deployer
from trainlib_deployer.advice import chips
from trainlib_deployer.advice.budget import FREE, Budget
from trainlib_deployer.advice.chips import Chip
from trainlib_deployer.advice.forecast import Forecast
from trainlib_deployer.cli.main import cli
from trainlib_deployer.errors import DoesNotFit, UsageError
from trainlib_deployer.machine.energy import FLOPS, Power
from trainlib_deployer.machine.targets import TARGETS

NET = """
import torch
from torch import nn
torch.manual_seed(3)
model = nn.Sequential(nn.Linear(37, 23), nn.Tanh(), nn.Linear(23, 5))
example_input, example_target = torch.randn(6, 37), torch.randn(6, 5)
loss = nn.MSELoss()
"""


@pytest.mark.parametrize(
    ("words", "budget"),
    (
        (("50ms", None, None), Budget(milliseconds=50)),
        (("0.5 s", "2mJ", "300k"), Budget(500, 2, 300 << 10)),
        (("250us", "1.5uJ", None), Budget(0.25, 0.0015)),
        ((None, "3J", "777"), Budget(None, 3000, 777)),
        ((None, None, None), FREE),
    ),
)
def test_amounts(words: tuple[str | None, str | None, str | None], budget: Budget) -> None:
    found = Budget.parse(*words)
    assert found == budget and found.given == (budget is not FREE)
    assert "777" not in words or str(found) == "3000 mJ, 777 bytes"


@pytest.mark.parametrize("option", ("time", "energy", "memory"))
@pytest.mark.parametrize("text", ("50", "ms", "-3ms", "0ms", "0", "5 mW", "1e3ms", "", "5 kk", "٥ms"))
def test_what_is_no_amount_is_refused_in_one_line(option: str, text: str) -> None:
    if (option, text) == ("memory", "50"):
        return  # bytes
    words = dict.fromkeys(("time", "energy", "memory")) | {option: text}
    with pytest.raises(UsageError, match=f"--{option} '{text}' is ") as refused:
        Budget.parse(**words)
    assert refused.value.exit_code == 2 and refused.value.remedy
    assert option != "energy" or refused.value.remedy.endswith("like 50uJ or 50mJ or 50J")


def test_energy_is_a_range_that_contains_itself() -> None:
    power = Power(gigaflops_per_watt=80, most_milliwatts=50, source="a paper")
    found = power.of(macs=4_000_000, milliseconds=7)
    assert found.least == pytest.approx(FLOPS * 4e6 / 80e9 * 1e3) and found.most == pytest.approx(0.05 * 7)
    assert power.of(macs=10**9, milliseconds=1e-6).least == power.of(10**9, 1e-6).most
    assert found.source == "a paper" and " to " in str(found)
    assert all(m.power is None or (m.clock and m.power.source) for m in TARGETS.values())


def test_what_is_not_known_keeps_within_nothing() -> None:
    energy = Power(80, 50, "a paper").of(10**6, 3.0)
    known = Forecast(1000, 10, 3.0, energy)
    assert not Budget(3.0, energy.most, 1000).exceeded(known)
    assert len(Budget(2.9, energy.most * 0.99, 999).exceeded(known)) == 3
    assert Budget(millijoules=energy.least).exceeded(known), "the upper end counts"
    assert Budget(5.0, 5.0).exceeded(Forecast(7)) == ("time unknown", "energy unknown")
    assert not FREE.exceeded(Forecast(1 << 40))


@pytest.mark.parametrize(
    ("budget", "target"), ((Budget(5.0), "pulp-open"), (Budget(None, 5.0), "siracusa"), (Budget(5.0), "cortex-m7"))
)
def test_a_sweep_is_not_asked_for_what_nobody_knows(budget: Budget, target: str) -> None:
    with pytest.raises(UsageError, match=f"{target} is not known") as refused:
        budget.demand_known(TARGETS[target])
    assert "gap9" in refused.value.remedy


def points(**budget: str) -> trainlib_deployer.advice.points.Points:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(37, 23), nn.Tanh(), nn.Linear(23, 5))
    x, y = torch.randn(6, 37), torch.randn(6, 5)
    return trainlib_deployer.sweep(model, x, y, loss=nn.MSELoss(), target="gap9", every=True, **budget)


@pytest.mark.slow
def test_a_sweep_keeps_within_every_budget() -> None:
    free = points()
    assert free.within.points == tuple(p for p in free if not p.over) and free.best is not None
    assert free.best.trained == free.best.total and free.best.samples == 6
    times = sorted(p.forecast.milliseconds or 0 for p in free)
    sizes = sorted(p.forecast.memory for p in free)
    middle = times[len(times) // 2], sizes[len(sizes) // 2]
    given = points(time=f"{middle[0] + 1e-9:.12f}ms", memory=str(middle[1]))
    wanted = [p for p in free if (p.forecast.milliseconds or 0) <= middle[0] and p.forecast.memory <= middle[1]]
    assert 0 < len(wanted) < len(free)
    assert [(p.what, p.batch, p.l1) for p in given.within] == [(p.what, p.batch, p.l1) for p in wanted]
    assert given.best is not None and given.best.trained == max(p.trained for p in wanted)


@pytest.mark.slow
def test_the_commands_answer(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)

    def invoked(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(cli, [*words, "--model", str(tmp_path / "net.py")])
        refused = done.exception
        return (refused.exit_code, str(refused)) if isinstance(refused, DoesNotFit) else (done.exit_code, done.output)

    code, text = invoked("sweep", "--target", "gap9", "--memory", "21k", "--json", str(tmp_path / "s.json"))
    assert code == 0 and "within 21k: everything, batch 1, is the most" in text
    found = json.loads((tmp_path / "s.json").read_text())
    assert found["best"]["line"] == "" and found["best"]["millijoules_most"] > found["best"]["millijoules_least"] > 0
    assert all(p["energy_source"].startswith("Vega") for p in found["points"])
    code, text = invoked("sweep", "--target", "gap9", "--memory", "1k")
    assert code == 3 and "nothing of net can be trained within 1k" in text and "is what the least takes" in text
    code, text = invoked("sweep", "--target", "pulp-open", "--l1", "12k", "--l2", "60k")
    assert code == 3 and "each beaten by none" in text and "error: nothing of net fits pulp-open: " in text
    assert "at the least; more memory, or" in text
    code, text = invoked("chips", "--memory", "1k", "--csv", str(tmp_path / "c.csv"))
    assert code == 3 and "error: nothing of net can be trained within 1k; give more" in text
    assert "generic" in (tmp_path / "c.csv").read_text(), "by how much not is told all the same"
    code, text = invoked("chips", "--memory", "5k", "--json", str(tmp_path / "c.json"))
    assert code == 0 and "within 5k" in text
    rows = json.loads((tmp_path / "c.json").read_text())["chips"]
    within = {c["name"]: c["within_budget"] for c in rows}
    assert within["pulp-open"] is None, "its stacks alone are more"
    assert (within["generic"]["parameters_trained"], within["generic"]["batch"]) == (994, 1), "not in a batch of 6"


def test_a_network_for_no_chip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.py").write_text(NET)
    small = Chip("wren", "made up", False, {}, {"L2": 4321})
    monkeypatch.setattr(chips, "chips_of", lambda *args: [small])
    done = CliRunner().invoke(cli, ["chips", "--model", str(tmp_path / "net.py"), "--csv", "-"])
    assert done.exit_code == 3 and "error: a step of net fits none of these chips; a network" in done.stderr
    assert done.stdout.splitlines()[1].startswith("wren,0,,,,,4321,")
