"""What a deployment tells its report, and report.html written anew in a project."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from trainlib_deployer.advice.what_if import at_peak, what_if
from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.cli.main import cli
from trainlib_deployer.cli.report_command import report_command
from trainlib_deployer.errors import UsageError
from trainlib_deployer.folder import edited_files, foreign_files, note_written
from trainlib_deployer.plan.direct import FASTER, INDIVISIBLE, NO_ROOM
from trainlib_deployer.report.folder import compared, note_verdict, refreshed
from trainlib_deployer.run.host import Host
from trainlib_deployer.version import __version__

VERDICT = {"passed": True, "on": "host", "steps": 1, "losses": [2.5], "golden_losses": [2.5], "tensors": []}

pytestmark = pytest.mark.slow


def deployed(folder: Path, l1: str = "16k", cores: int = 3) -> Deployment:
    torch.manual_seed(5)
    model = nn.Sequential(nn.Conv2d(3, 7, 3), nn.BatchNorm2d(7), nn.ReLU(), nn.Flatten(), nn.Linear(7 * 121, 5))
    momentum = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.randn(2, 3, 13, 13), torch.tensor([1, 4])
    return deploy(model, x, y, optimizer=momentum, cores=cores, l1=l1, l2="1M", steps=1, out=folder)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    return deployed(tmp_path_factory.mktemp("report") / "net")


@pytest.fixture
def folder(project: Deployment, tmp_path: Path) -> Path:
    return Path(shutil.copytree(project.folder, tmp_path / "net"))


def test_what_if_counts_what_the_choices_save(project: Deployment) -> None:
    """Fault: the state is counted as if it were not kept from step to step, or the batch as if weights shrank, too."""
    program, target = project.plan.program, project.plan.target
    found = {w.what: w for w in what_if(program, target)}
    before, steps = at_peak(program, target), sum(op.kind.macs() for op in program.ops)
    sizes = [p.nbytes for p in (program.tensors[name] for name, _ in program.gradients)]
    state = found["an optimizer without state"]
    assert state.bytes_less == sum(target.aligned(s) for s in sizes) and state.macs == steps
    half = found["a batch of 1 instead of 2"]
    assert before - half.bytes == half.bytes_less and 2 * 7 * 121 * 4 <= half.bytes_less < 40_000
    last = found["train the last layer, '4', only"]
    assert last.macs < steps and last.how.startswith("for n, p in model.named_parameters()")
    assert json.loads((project.folder / "plan.json").read_text())["what_if"][0]["what"] == state.what
    assert state.what in (project.folder / "report.html").read_text()


def test_what_reads_the_outer_memory_says_why(tmp_path: Path) -> None:
    """Exactly the operations without tiles that touch it; none that tiles would be faster for."""
    project = deployed(tmp_path / "net", "10k")
    plan = project.plan
    outside = {n for n, b in plan.home.items() if b.level == plan.outer.name}
    wanted = {
        at
        for at, op in enumerate(plan.program.ops)
        if at not in plan.tilings and any(v.tensor in outside for v in (*op.reads, *op.writes))
    }
    found = {at: f.direct for at, f in enumerate(plan.account.figures) if f.direct is not None}
    assert set(found) == wanted and wanted
    for at, d in found.items():
        assert set(d.tensors) <= outside
        assert d.why != FASTER or (d.tiled is not None and d.cycles <= d.tiled)
        assert d.why != NO_ROOM or d.tiled is None or d.least <= d.free
        assert d.why in (FASTER, NO_ROOM, INDIVISIBLE) and 0 < d.free <= plan.inner.size
        assert json.loads((project.folder / "plan.json").read_text())["ops"][at]["direct"]["why"] == d.why


def test_a_verdict_goes_into_the_report(folder: Path) -> None:
    assert "Not verified yet" in (folder / "report.html").read_text()
    note_verdict(folder, VERDICT)
    text = (folder / "report.html").read_text()
    assert "steps on host agree with PyTorch" in text and '"losses":{"program":[2.5]' in text
    assert edited_files(folder) == [] and foreign_files(folder) == [], "it may be deployed anew"


def test_an_edited_report_stays(folder: Path) -> None:
    (folder / "report.html").write_text("mine")
    note_verdict(folder, VERDICT)
    assert (folder / "report.html").read_text() == "mine"
    with pytest.raises(UsageError, match=r"report\.html was edited"):
        refreshed(folder)


def test_a_report_beside_another_project(folder: Path, project: Deployment) -> None:
    before = (folder / "report.html").read_bytes()
    page = compared(folder, project.folder, folder / "build" / "compare.html")
    assert "Compared with Sequential" in page.read_text() and "the same" in page.read_text()
    assert (folder / "report.html").read_bytes() == before and foreign_files(folder) == []


def test_the_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr("webbrowser.open", shown.append)
    done = CliRunner().invoke(report_command, [str(folder), "--open"], catch_exceptions=False)
    assert done.output == f"{folder / 'report.html'}\n" and shown == [(folder / "report.html").as_uri()]
    assert "report" in cli.commands


def test_a_damaged_plan_is_said(folder: Path) -> None:
    path = folder / "plan.json"
    plan = json.loads(path.read_text())
    for key in ("model", "levels", "buffers", "tensors", "ops", "certificate", "traffic"):
        for junk in (None, 3, "x", [1]):
            path.write_text(json.dumps({**plan, key: junk}))
            with pytest.raises(UsageError, match=r"damaged"):
                refreshed(folder)


@pytest.mark.parametrize("key", ["model", "levels", "buffers", "ops"])
def test_a_plan_of_another_version_is_said(key: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of this version that lacks something is a mistake of ours, and stays a traceback."""
    path = folder / "plan.json"
    plan = json.loads(path.read_text())
    del plan[key]
    monkeypatch.setattr(Host, "check_tools", lambda self: None)  # what they find is none of this
    for version, error in (("0.1.0", SystemExit), (__version__, KeyError)):
        path.write_text(json.dumps({**plan, "tool": {**plan["tool"], "version": version}}))
        note_written(folder, ["plan.json"])
        for name in ("verify", "explain", "report") if key == "model" else ("explain", "report"):
            done = CliRunner().invoke(cli, [name, str(folder)])
            assert isinstance(done.exception, error), done.output
            assert error is KeyError or "was written by trainlib-deploy 0.1.0, which version" in done.stderr


@pytest.mark.parametrize("junk", [{"tensors": [{"passed": True}]}, {"tensors": 3}, {"losses": [None]}])
def test_a_damaged_verdict_is_none(junk: dict[str, Any], folder: Path) -> None:
    note_verdict(folder, {**VERDICT, **junk})
    assert "Not verified yet" in (folder / "report.html").read_text()


@pytest.mark.parametrize("text", [None, "make: nothing to be done\n"])
def test_a_profile_of_something_else(folder: Path, text: str | None) -> None:
    if text is not None:
        (folder / "build").mkdir()
        (folder / "build" / "log").write_text(text)
    with pytest.raises(UsageError, match=r"cannot read|has no table of \d+ operations"):
        refreshed(folder, folder / "build" / "log")
