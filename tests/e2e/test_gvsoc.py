"""The project as an application of PULP-SDK, with stand-ins for its rules and API: the same bits as on the host."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

from trainlib_deployer.api import deploy
from trainlib_deployer.errors import ToolMissing
from trainlib_deployer.run.gvsoc import Gvsoc

STUBS = Path(__file__).resolve().parents[1] / "stubs" / "pulp"


def network() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Conv2d(3, 10, 3, 2, 1, bias=False),
        nn.BatchNorm2d(10),
        nn.ReLU(),
        nn.Conv2d(10, 7, 3),
        nn.Flatten(),
        nn.Linear(567, 4),
    )


@pytest.mark.parametrize("l1", ["1M", "40k"], ids=["resident", "tiled"])
def test_same_bits_as_on_the_host(l1: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULES_DIR", str(STUBS))
    data = [(torch.randn(2, 3, 21, 21), torch.tensor([0, 3]))]
    deployed = deploy(network(), *data[0], data=data, steps=2, out=tmp_path / "project", cores=5, l1=l1, l2="2M")
    simulated = deployed.verify(on="gvsoc")
    simulated.raise_if_failed()
    host = deployed.verify(on="host")
    assert {k: v.tobytes() for k, v in simulated.computed.items()} == {k: v.tobytes() for k, v in host.computed.items()}


def test_the_goals_of_this_machine_remain_with_the_sdk_sourced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULES_DIR", str(STUBS))
    data = [(torch.randn(1, 3), torch.tensor([1]))]
    folder = deploy(nn.Linear(3, 2), data[0][0], data=data, out=tmp_path / "p").folder
    make = ["make", "-s", "-C", str(folder)]
    assert "PASS" in subprocess.run([*make, "host"], check=True, capture_output=True, text=True).stdout
    assert (folder / "build").exists() and not (folder / "BUILD").exists()
    assert "PASS" in subprocess.run([*make, "all", "run"], check=True, capture_output=True, text=True).stdout
    subprocess.run([*make, "clean"], check=True)
    assert not (folder / "build").exists() and not (folder / "BUILD").exists()


def link_flags(folder: Path, **settings: str) -> str:
    subprocess.run(["make", "-C", str(folder), "clean", "all", *(f"{k}={v}" for k, v in settings.items())], check=True)
    return (folder / "BUILD" / "train.link").read_text().strip()


def test_figures_judges_what_fits_the_simulator_and_not_the_linker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "sdk" / "kernel" / "chips" / "pulp" / "link.ld"
    script.parent.mkdir(parents=True)
    sizes = "  L2           : ORIGIN = 0x1c000004, LENGTH = {}\n  L2_aliased   : ORIGIN = 4, LENGTH = 0x00003ffc\n"
    script.write_text(sizes.format("0x0007fffc"))
    folder = deploy(
        nn.Linear(3, 2), torch.randn(1, 3), data=[(torch.randn(1, 3), torch.tensor([1]))], out=tmp_path / "p"
    ).folder
    monkeypatch.setenv("RULES_DIR", str(STUBS))
    assert link_flags(folder) == "-lm"  # another chip
    monkeypatch.setenv("PULPOS_TARGET", "pulp")
    monkeypatch.setenv("PULPOS_PULP_HOME", str(tmp_path / "sdk"))
    assert link_flags(folder, platform="board") == "-lm"
    assert not (folder / "BUILD" / "link").exists()
    assert link_flags(folder) == "-lm -LBUILD/link"
    assert (folder / "BUILD" / "link" / "chips" / "pulp" / "link.ld").read_text() == sizes.format("0x00fffffc")


def test_more_cores_than_planned_or_simulated_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = [(torch.randn(1, 3), torch.tensor([1]))]
    folder = deploy(nn.Linear(3, 2), data[0][0], data=data, out=tmp_path / "p", cores=12).folder
    monkeypatch.setenv("RULES_DIR", str(STUBS))
    make = ["make", "-C", str(folder), "all"]
    more = subprocess.run([*make, "CORES=13"], capture_output=True, text=True, check=False)
    assert more.returncode and "13 as CORES: the plan has room for 1 to 12 of them" in more.stderr
    monkeypatch.setenv("PULPOS_TARGET", "pulp")
    monkeypatch.setenv("PULPOS_PULP_HOME", str(STUBS))
    simulated = subprocess.run(make, capture_output=True, text=True, check=False)
    assert simulated.returncode and "the simulated cluster has 9 cores: 12 are too many" in simulated.stderr


def test_without_the_sdk_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RULES_DIR", raising=False)
    with pytest.raises(ToolMissing, match="PULP-SDK is not set up") as caught:
        Gvsoc().check_tools()
    assert "source" in caught.value.remedy
