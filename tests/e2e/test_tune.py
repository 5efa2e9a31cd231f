"""Tuning: the same bits in other tiles, measured once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.cli.main import cli
from trainlib_deployer.folder import read_plan
from trainlib_deployer.report.runs import Measured
from trainlib_deployer.tune import measure
from trainlib_deployer.tune.asked import Tune

NET = """
import torch
from torch import nn
torch.manual_seed(5)
layers = [nn.Conv2d(3, 11, 3), nn.ReLU(), nn.Conv2d(11, 7, 3, stride=2), nn.Flatten(), nn.Linear(7 * 5 * 6, 4)]
model = nn.Sequential(*layers)
example_input, example_target = torch.randn(2, 3, 13, 15), torch.tensor([1, 3])
"""
MANY = 500  # operations, and more


class Counting(Executor):
    """Another's executor, and how often it was asked."""

    def __init__(self, other: Executor, most: int = 99) -> None:
        self.other, self.most, self.asked = other, most, 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.asked += 1
        if self.asked > self.most:
            raise KeyboardInterrupt
        return self.other.submit(fn, *args, **kwargs)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def deployed(out: Path, tune: Tune | None) -> Deployment:
    names: dict[str, Any] = {}
    exec(NET, names)
    pair = names["example_input"], names["example_target"]
    return deploy(names["model"], *pair, out=out, cores=3, l1="12k", steps=2, tune=tune)


def test_two_workers_measure_and_the_bits_stay(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, get_context("spawn")) as workers:
        first = Counting(workers)
        tuned = deployed(tmp_path / "tuned", Tune("qemu", 2, first))
        again = Counting(workers)
        deployed(tmp_path / "again", Tune("qemu", 2, again))
    plain = deployed(tmp_path / "plain", None)
    assert first.asked == 3, "two rounds, the first of which is the step before, and the step after"
    assert again.asked == 2, "the step before and after"
    plan = read_plan(tmp_path / "tuned")["tuned"]
    assert plan["unit"] == "instructions" and plan["operations"] and read_plan(tmp_path / "plain")["tuned"] is None
    assert 0 < plan["after"] <= plan["before"]
    assert all(o["taken"] <= o["of_runner_up"] for o in plan["operations"] if o["chosen"] != o["default"])
    one, other = (computed(d, tmp_path / f"{at}.npz") for at, d in enumerate((tuned, plain)))
    assert one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


def computed(deployment: Deployment, file: Path) -> dict[str, Any]:
    """By a verified run."""
    result = deployment.verify()
    assert result.passed
    result.dump(file)
    return dict(np.load(file))


def test_what_is_slower_as_a_whole_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements that say the opposite of the truth, and a whole step that says so."""
    calls: list[int] = []

    def lies(project: bytes, on: str) -> Measured:
        """The second round is the faster one, the last step the slowest."""
        calls.append((90, 80, 100)[len(calls)])
        return Measured("cycles", dict.fromkeys(range(MANY), calls[-1]))

    monkeypatch.setattr("trainlib_deployer.tune.tuning.taken", lies)
    monkeypatch.setattr("trainlib_deployer.tune.tuning.ThreadPoolExecutor", lambda n: Now())
    deployed(tmp_path / "tuned", Tune("host", 2))
    deployed(tmp_path / "plain", None)
    plan, plain = (read_plan(tmp_path / name) for name in ("tuned", "plain"))
    assert plan["tuned"]["before"] == plan["tuned"]["after"] and len(calls) == 3
    assert [o["tiles"] for o in plan["ops"]] == [o["tiles"] for o in plain["ops"]]


class Now(Executor):
    """Without waiting."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


def test_an_interrupted_search_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    took = iter((90, 80, 85, 90, 70))
    monkeypatch.setattr(measure, "once", lambda folder, on: Measured("cycles", dict.fromkeys(range(MANY), next(took))))
    stopped = Counting(Now(), most=3)
    with pytest.raises(KeyboardInterrupt):
        deployed(tmp_path / "out", Tune("host", 3, stopped))
    assert not (tmp_path / "out").exists()
    rest = Counting(Now())
    deployed(tmp_path / "out", Tune("host", 3, rest))
    assert rest.asked == 2, "the step before and after"


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "pyproject.toml").write_text("[tool.trainlib-deploy]\ncores = 3\nevaluate = false\n")
    monkeypatch.chdir(tmp_path)

    def said(*words: str, code: int = 0) -> str:
        found = CliRunner().invoke(cli, words)
        assert found.exit_code == code, found.output
        return found.output if code else found.stdout  # without notes, which come when they may

    said("--model", "net.py", "--l1", "12k", "--out", "p", "--arithmetic", "direct", "-q")
    assert "never tuned" in said("tune", "p", "--report", code=2)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert "call it in the folder from which ../p was deployed" in said("tune", "../p", code=2)
    monkeypatch.chdir(tmp_path)
    table = said("tune", "p", "--on", "host", "--rounds", "2")
    assert "nanoseconds on host" in table and "operations cut otherwise" in table
    target = read_plan(Path("p"))["target"]
    assert (target["cores"], target["l1"]) == (3, 12 << 10), "with all that was said, in the file too"
    assert said("tune", "p", "--report").splitlines()[-1] == table.splitlines()[-1]


def test_what_was_deployed_from_python_says_how(tmp_path: Path) -> None:
    deploy(nn.Linear(3, 2), torch.randn(1, 3), torch.tensor([1]), out=tmp_path / "p")
    found = CliRunner().invoke(cli, ["tune", str(tmp_path / "p")])
    assert found.exit_code == 2 and "tune='qemu'" in found.output
