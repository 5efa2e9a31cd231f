"""The sweep: dominance against brute force, and every point against a deployment of the same thing."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from torch import nn

import trainlib_deployer
from trainlib_deployer.advice.points import Costs, Point, Points, dominates, front
from trainlib_deployer.advice.sweeping import Batch, batches
from trainlib_deployer.advice.variants import Parameters
from trainlib_deployer.api import deploy
from trainlib_deployer.cli.main import cli
from trainlib_deployer.errors import Unsupported, UsageError

BATCH = 3
ROOM: dict[str, Any] = {"cores": 3, "l1": "12k", "l2": "1M"}


class Net(nn.Module):
    """A recurrent layer, which keeps less for a backward pass that does not come; a norm; an activation whose slope is
    kept; a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.scale = nn.Parameter(torch.rand(11))
        self.conv = nn.Conv1d(11, 24, 3, padding=1)
        self.norm = nn.BatchNorm1d(24)
        self.gru = nn.GRU(24, 13, batch_first=True)
        self.fc = nn.Linear(13, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(nn.functional.gelu(self.conv(x * self.scale[:, None])))
        y: torch.Tensor = self.fc(self.gru(x.transpose(1, 2))[0][:, -1].tanh())
        return y


def example() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(7)
    model = Net()
    return {
        "model": model,
        "example_input": torch.randn(BATCH, 11, 37, generator=generator),
        "example_target": torch.randint(5, (BATCH,), generator=generator),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
    }


@pytest.fixture(scope="module")
def everything() -> Points:
    return trainlib_deployer.sweep(**example(), **ROOM, every=True)


# ---- dominance


def random_costs(rng: random.Random) -> Costs:
    """Few values, so that many are equal."""
    l2 = rng.randrange(4)
    work, trained, samples, rounded = (rng.randrange(n) for n in (4, 4, 2, 2))
    return (l2, 0 if l2 else rng.randrange(4)), float(work), trained, 1 + samples, rounded


def as_numbers(c: Costs) -> tuple[float, ...]:
    """All of them better when smaller."""
    return c[0][0] * 100 + c[0][1], c[1], -c[2], -c[3], c[4]


@pytest.mark.parametrize("seed", range(60))
def test_front_against_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    costs = [random_costs(rng) for _ in range(rng.randrange(1, 40))]
    numbers = [as_numbers(c) for c in costs]

    def beaten(i: int) -> bool:
        mine = numbers[i]
        better = any(n != mine and all(a <= b for a, b in zip(n, mine, strict=True)) for n in numbers)
        return better or mine in numbers[:i]

    assert front(costs) == [not beaten(i) for i in range(len(costs))]


def test_dominates() -> None:
    assert dominates(((9, 0), 5.0, 7, 1, 0), ((10, 0), 5.0, 7, 1, 0))
    assert not dominates(((9, 0), 5.0, 7, 1, 0), ((9, 0), 5.0, 7, 1, 0)), "equal"
    assert not dominates(((9, 0), 5.0, 6, 1, 0), ((10, 0), 5.0, 7, 1, 0)), "trains less"
    assert not dominates(((9, 0), 5.0, 7, 1, 0), ((10, 0), 5.0, 7, 2, 0)), "averages fewer samples"
    assert not dominates(((9, 0), 5.0, 7, 1, 1), ((10, 0), 5.0, 7, 1, 0)), "rounds more"
    assert dominates(((9, 0), 5.0, 7, 1, 0), ((9, 0), 5.0, 7, 1, 1))
    assert dominates(((0, 900), 5.0, 7, 1, 0), ((1, 0), 5.0, 7, 1, 0)), "L2 comes first"


# ---- which parameters


def kept_by(line: str, model: nn.Module) -> set[str]:
    exec(line, {"model": model})
    return {n for n, p in model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("frozen", [(), ("conv.weight", "fc.bias"), ("scale",)])
def test_lines_do_what_they_say(frozen: tuple[str, ...]) -> None:
    shapes = {n: tuple(p.shape) for n, p in Net().named_parameters()}
    trained = {n: s for n, s in shapes.items() if n not in frozen}
    found = list(Parameters(trained, frozenset(frozen)).selections())
    assert found[0].line == "" and found[0].keep == trained.keys()
    assert len({s.keep for s in found}) == len(found) >= 5
    for selection in found[1:]:
        model = Net()
        for name in frozen:
            model.get_parameter(name).requires_grad_(False)
        assert kept_by(selection.line, model) == selection.keep, selection.line


def test_layers_inside_of_layers() -> None:
    """`a` holds a parameter and a layer `a.b`, and `a.bc` begins like it."""
    shapes = {"a.w": (2, 2), "a.b.w": (2, 2), "a.bc.w": (2, 2), "root": (2, 2)}
    for selection in list(Parameters(shapes).selections())[1:]:
        condition = selection.line.partition("requires_grad_")[2]
        assert {n for n in shapes if eval(condition, {"n": n})} == selection.keep, selection.line
    assert [len(s.keep) for s in Parameters(shapes).selections()] == [4, 3, 2, 1]


def test_norms_go_with_the_layer_before() -> None:
    shapes = {n: tuple(p.shape) for n, p in Net().named_parameters()}
    assert Parameters(shapes).blocks() == [[""], ["conv", "norm"], ["gru"], ["fc"]]


# ---- points against deployments


def deployed(point: Point, folder: Path, room: dict[str, Any]) -> dict[str, Any]:
    """What plan.json says when the user does what the point says."""
    given = example()
    if point.line:
        exec(point.line, {"model": given["model"]})
    for what in ("example_input", "example_target"):
        given[what] = given[what][: point.batch]
    option, _, value = point.options.partition(" ")
    room = room | ({option.removeprefix("--"): value} if option else {})
    deploy(**given, **room, accumulate=point.accumulate, steps=1, out=folder)
    plan: dict[str, Any] = json.loads((folder / "plan.json").read_text())
    return plan


CHOICES: dict[str, Callable[[Point], bool]] = {
    "everything": lambda p: p.what == "everything" and p.recompute == "none" and p.batch == BATCH,
    "recomputed": lambda p: p.what == "everything" and p.recompute == "free" and p.batch == BATCH,
    "frozen": lambda p: "'fc', only" in p.what and p.batch == BATCH,
    "half frozen": lambda p: "from 'gru'" in p.what and p.recompute == "none" and p.batch == BATCH,
    "biases": lambda p: "biases only" in p.what and p.recompute == "none" and p.batch == BATCH,
    "accumulated": lambda p: p.what == "everything" and p.accumulate == BATCH and p.recompute == "none",
    "one": lambda p: "from 'conv'" in p.what and p.samples == 1,
}


@pytest.mark.parametrize("choice", CHOICES)
def test_a_point_is_what_deploying_it_takes(everything: Points, choice: str, tmp_path: Path) -> None:
    point = next(p for p in everything if CHOICES[choice](p))
    check_same(point, deployed(point, tmp_path / "net", ROOM))
    assert point.over == 0 and point.as_json()["fits"]


def check_same(point: Point, plan: dict[str, Any]) -> None:
    assert (plan["levels"]["L1"]["used"], plan["levels"]["L2"]["used"]) == (point.l1, point.l2)
    assert plan["certificate"]["peak"] == point.as_json()["total_bytes"]
    assert plan["certificate"]["proved_optimal"] == point.proved_optimal
    assert plan["model"]["parameters"] == {"total": point.total, "trained": point.trained}
    assert sum(op["macs"] for op in plan["ops"]) == point.macs
    assert [op["name"] for op in plan["ops"]] == [op.name for op in point.plan.program.ops]
    assert [b["name"] for b in plan["buffers"]] == [b.name for b in point.plan.buffers]


def test_what_it_takes_to_fit_is_what_a_deployment_does(everything: Points, tmp_path: Path) -> None:
    """Too little memory for the step as it is, and for what is free."""
    free = next(p for p in everything if p.what == "everything" and p.recompute == "free" and p.batch == BATCH)
    room = ROOM | {"l2": int(free.options.removeprefix("--l2 ")) - 1024}
    points = trainlib_deployer.sweep(**example(), **room, every=True)
    point = next(p for p in points if p.what == "everything" and p.recompute == "fitting" and p.batch == BATCH)
    assert point.repeated > free.repeated and point.macs > free.macs and point.over == 0
    check_same(point, deployed(point, tmp_path / "net", room))


def test_the_points_of_a_sweep(everything: Points) -> None:
    assert {(p.batch, p.accumulate) for p in everything} == {(3, 1), (1, 1), (1, 3)}
    assert {p.recompute for p in everything} >= {"none", "free"}
    assert [p.pareto for p in everything] == marked_in_order(everything)
    memory = [p.costs[0] for p in everything]
    assert memory == sorted(memory)


def marked_in_order(points: Points) -> list[bool]:
    """Equal costs once."""
    return [not any(dominates(q.costs, p.costs) for q in points) and p in points.front.points for p in points]


def test_the_front_alone_is_the_front_of_all(everything: Points) -> None:
    """What is left out before it is planned would have been beaten."""
    alone = trainlib_deployer.sweep(**example(), **ROOM)
    assert [p.costs for p in alone] == [p.costs for p in everything.front]
    assert 1 < len(alone) < len(everything) and all(p.pareto for p in alone)


def test_the_model_is_left_as_it_was() -> None:
    given = example()
    given["model"].fc.bias.requires_grad_(False)
    before = {n: (p.requires_grad, p.detach().clone()) for n, p in given["model"].named_parameters()}
    points = trainlib_deployer.sweep(**given, **ROOM)
    for name, p in given["model"].named_parameters():
        assert p.requires_grad == before[name][0] and torch.equal(p, before[name][1]), name
    assert max(p.trained for p in points) == sum(v.numel() for _, v in before.values()) - 5
    assert all("p.requires_grad and" in line for line in points.lines().values())


def test_what_does_not_fit_says_by_how_much(everything: Points) -> None:
    full = max(everything.points, key=lambda p: p.l2)
    small = trainlib_deployer.sweep(**example(), **(ROOM | {"l2": full.l2 - 4096}), every=True)
    same = next(p for p in small if (p.what, p.batch, p.accumulate) == (full.what, full.batch, full.accumulate))
    levels = [p for p in small if (p.what, p.samples, p.batch) == (same.what, same.samples, same.batch)]
    assert any(p.recompute == "none" for p in levels)
    for p in small:
        missing = sum(max(level.used - level.size, 0) for level in p.plan.levels.values())
        assert (p.over, p.as_json()["fits"]) == (missing, missing == 0)
    assert any(p.over for p in trainlib_deployer.sweep(**example(), cores=3, l1="12k", l2="8k"))


def test_batches() -> None:
    assert batches(Batch(1, 4)) == [Batch(1, 4)]
    assert batches(Batch(2, 1)) == [Batch(2, 1), Batch(1, 1), Batch(1, 2)]
    assert batches(Batch(9, 2)) == [Batch(9, 2), Batch(4, 2), Batch(1, 2), Batch(1, 18)]


class OnlyInPairs(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(x) < 2:
            raise ValueError("too few")
        return super().forward(x)


def test_a_variant_that_fails_is_left_out_aloud() -> None:
    lines: list[str] = []
    given = example()
    given["model"] = OnlyInPairs()
    given["optimizer"] = None
    points = trainlib_deployer.sweep(**given, **ROOM, say=lines.append)
    assert {p.batch for p in points} == {BATCH}
    assert [line for line in lines if line.startswith("left out: batch 1, everything") and "too few" in line]


class Counted(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.nonzero(x).sum()


def test_refused_as_deploying_is() -> None:
    given = example()
    with pytest.raises(Unsupported):
        trainlib_deployer.sweep(nn.Sequential(nn.Linear(3, 3), Counted()), torch.rand(3, 3), torch.rand(3, 3))
    with pytest.raises(UsageError, match=r"not an nn\.Module"):
        trainlib_deployer.sweep(Net, given["example_input"], given["example_target"])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="accumulate is 0"):
        trainlib_deployer.sweep(**given, accumulate=0)


def test_in_a_notebook(everything: Points) -> None:
    html = everything.front._repr_html_()
    assert html.count("<tr>") == 1 + len(everything.front)
    assert "&quot;fc.&quot;" in html and "the last layer, &#x27;fc&#x27;, only" in html


# ---- the command

NET = """\
import torch
from torch import nn
print("loading")
model = nn.Sequential(nn.Linear(7, 6), nn.ReLU(), nn.Linear(6, 3))
example_input = torch.randn(2, 7)
example_target = torch.tensor([2, 0])
"""


def call(*args: str) -> Result:
    return CliRunner().invoke(cli, ["sweep", *args])


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)


@pytest.mark.usefixtures("net")
def test_files_and_table() -> None:
    result = call("--model", "net.py", "--cores", "2", "--l1", "8k", "--all", "--json", "s.json", "--csv", "s.csv")
    assert result.exit_code == 0, result.output
    assert "note: optimizer" in result.stderr and "note:" not in result.stdout and "loading" not in result.stdout
    content = json.loads(Path("s.json").read_text())
    assert (content["model"], content["target"]["cores"], content["target"]["l1"]) == ({"name": "net"}, 2, 8192)
    rows = list(csv.DictReader(io.StringIO(Path("s.csv").read_text())))
    assert [list(r) for r in rows] == [list(p) for p in content["points"]]
    assert [["" if v is None else str(v) for v in p.values()] for p in content["points"]] == [
        list(r.values()) for r in rows
    ]
    assert {p["batch"] for p in content["points"]} == {1, 2} and {p["accumulate"] for p in content["points"]} == {1, 2}
    assert f"{len(rows)} points; {sum(p['pareto'] for p in content['points'])} of them beaten by none" in result.stdout
    assert (
        "# the last layer, '2', only\nfor n, p in model.named_parameters(): p.requires_grad_(n.startswith(\"2.\"))"
        in (result.stdout)
    )


@pytest.mark.usefixtures("net")
def test_stdout_is_the_file_alone() -> None:
    as_json = call("--model", "net.py", "--json", "-")
    points = json.loads(as_json.stdout)["points"]
    assert all(p["pareto"] for p in points)
    rows = list(csv.DictReader(io.StringIO(call("--model", "net.py", "--csv", "-").stdout)))
    assert [r["trained"] for r in rows] == [p["trained"] for p in points]


@pytest.mark.usefixtures("net")
@pytest.mark.parametrize(
    ("args", "code", "phrase"),
    [
        ("", 2, "Missing option '--model'"),
        ("--model none.py", 2, "there is no file none.py"),
        ("--model net.py --l1 64q", 2, "--l1 '64q' is not a size"),
        ("--model net.py --target gap8", 2, "unknown target"),
        ("--model net.py --accumulate 0", 2, "'--accumulate'"),
        ("--model net.py --json no/x.json", 2, "there is no directory no"),
        ("--model net.py --csv .", 2, "--csv: . is a directory"),
        ("--model net.py --json - --csv -", 2, "cannot both write to stdout"),
        ("--model net.py --steps 3", 2, "No such option"),
        ("--model net.py extra", 2, "unexpected extra argument"),
    ],
)
def test_bad_usage(args: str, code: int, phrase: str) -> None:
    result = call(*args.split())
    assert result.exit_code == code and phrase in result.stderr, result.output
    assert result.stdout == "" and "Traceback" not in result.stderr
    assert [p.name for p in Path().iterdir()] == ["net.py"]


def test_a_chip_counts_what_its_build_brings() -> None:
    """Tensors alone would fit 60 kB; with code and the SDK nothing does."""
    points = trainlib_deployer.sweep(**example(), target="pulp-open", l1="12k", l2="60k")
    assert all(p.over and p.plan.outer.used < 60 << 10 for p in points)


def test_points_in_half_precision(tmp_path: Path) -> None:
    """Each is what deploying with its options takes."""
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(23, 41), nn.Tanh(), nn.Linear(41, 7))
    given = {"example_input": torch.randn(5, 23), "example_target": torch.randn(5, 7), **ROOM}
    plain, halves = (trainlib_deployer.sweep(net, **given, dtype=d) for d in ("fp32", "fp16"))
    most, other = (max((p for p in points if p.batch == 5), key=lambda p: p.trained) for points in (halves, plain))
    assert most.trained == other.trained and most.options == "--dtype fp16" and other.options == ""
    deployed = trainlib_deployer.deploy(net, **given, dtype="fp16", out=tmp_path / "net")
    assert most.plan.outer.used + most.plan.inner.used == deployed.plan.outer.used + deployed.plan.inner.used
    assert most.plan.outer.used + most.plan.inner.used < other.plan.outer.used + other.plan.inner.used


class Autocast(nn.Sequential):
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x)  # type: ignore[no-any-return]


def test_points_of_autocast_are_what_is_deployed() -> None:
    torch.manual_seed(3)
    layers = nn.Linear(23, 41), nn.Tanh(), nn.Linear(41, 7)
    given = {"example_input": torch.randn(5, 23), "example_target": torch.randn(5, 7), **ROOM}
    found = trainlib_deployer.sweep(Autocast(*layers), **given)
    mixed = trainlib_deployer.sweep(nn.Sequential(*layers), **given, dtype="mixed")
    used = [[p.plan.outer.used + p.plan.inner.used for p in points] for points in (found, mixed)]
    assert used[0] == used[1] and not any("--dtype" in p.options for p in found)


def test_what_a_third_memory_makes_fit() -> None:
    """Points that do not fit without it, as a deployment plans them."""
    options = {"cores": 3, "l1": "12k", "l2": "40k"}
    without = trainlib_deployer.sweep(**example(), **options, every=True)
    found = trainlib_deployer.sweep(**example(), **options, l3="1M", every=True)
    far = [p for p in found if p.recompute == "far"]
    assert far and all(p.over == 0 and p.l2 <= 40 << 10 for p in far)
    assert max(p.trained for p in found.within) > max((p.trained for p in without.within), default=0)
    assert len(found) == len(without) + len(far)
