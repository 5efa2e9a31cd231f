"""Which chip: what the table says of each is what a deployment for it does."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.e2e.conftest import ROOT
from trainlib_deployer.check.verify import read_plan
from trainlib_deployer.cli.main import cli
from trainlib_deployer.machine.targets import TARGETS

MODEL = str(ROOT / "examples" / "mlp.py")


@pytest.fixture(scope="module")
def chips(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("chips")
    done = CliRunner().invoke(cli, ["chips", "--model", MODEL, "--json", str(folder / "c.json"), "--csv", "-"])
    assert done.exit_code == 0, done.output
    found = json.loads((folder / "c.json").read_text())["chips"]
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [c["name"] for c in found] == list(TARGETS) == [r["name"] for r in rows]
    assert [c["fits"] for c in found] == [r["fits"] == "1" for r in rows]
    return {c["name"]: c for c in found}


@pytest.mark.parametrize("target", ("gap9", "cortex-m4f"))
def test_what_fits_deploys_in_as_much_memory(target: str, chips: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "p"
    done = CliRunner().invoke(cli, ["--model", MODEL, "--target", target, "--out", str(out)])
    assert done.exit_code == 0, done.output
    plan = read_plan(out)
    used = {name: level["used"] + level["reserved"] for name, level in plan["levels"].items() if level["size"]}
    flash = {"flash": plan["image"]["flash"]["firmware"]} if target.startswith("cortex") else {}
    assert chips[target]["fits"] and chips[target]["used"] == used | flash
    assert (chips[target]["milliseconds"] is None) == (target != "gap9") == (not chips[target]["clock"])


def test_what_does_not_fit_is_refused_by_as_many_bytes(chips: dict[str, Any], tmp_path: Path) -> None:
    chip = chips["pulp-open"]
    assert not chip["fits"] and not chip["used"] and "--target gap9" in chip["helps"]
    done = CliRunner().invoke(cli, ["--model", MODEL, "--target", "pulp-open", "--out", str(tmp_path / "p")])
    assert done.exit_code == 3 or done.exception is not None
    assert f"{chip['over']['L2']:,} bytes over" in (done.output + str(done.exception))


def test_boards_put_a_memory_beside_a_chip(tmp_path: Path) -> None:
    """What the table says of it is what a deployment with --l3 does, in the same types."""
    mixed = ["--model", MODEL, "--dtype", "mixed"]
    done = CliRunner().invoke(cli, ["chips", *mixed, "--l3", "--json", str(tmp_path / "c.json"), "--csv", "-"])
    assert done.exit_code == 0, done.output
    written = json.loads((tmp_path / "c.json").read_text())
    assert written["dtype"] == "mixed"
    found = {c["name"]: c for c in written["chips"]}
    assert found["pulp-open"]["fits"] and {n for n, c in found.items() if c["used"].get("L3")} == {"pulp-open"}
    row = next(r for r in csv.DictReader(io.StringIO(done.stdout)) if r["name"] == "pulp-open")
    assert int(row["L3"]) == found["pulp-open"]["used"]["L3"]
    out = tmp_path / "p"
    done = CliRunner().invoke(cli, [*mixed, "--target", "pulp-open", "--l3", "8M", "--out", str(out)])
    assert done.exit_code == 0, done.output
    levels = read_plan(out)["levels"]
    assert found["pulp-open"]["used"] == {name: level["used"] + level["reserved"] for name, level in levels.items()}
    assert (done.output + done.stderr).count("it fits with ") <= 1
