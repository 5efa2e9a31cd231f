"""The project as an application of PULP-SDK, with stand-ins for its rules and API: the same bits as on the host."""

from __future__ import annotations

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
    monkeypatch.delenv("RULES_DIR")
    host = deployed.verify(on="host")
    assert {k: v.tobytes() for k, v in simulated.computed.items()} == {k: v.tobytes() for k, v in host.computed.items()}


def test_without_the_sdk_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RULES_DIR", raising=False)
    with pytest.raises(ToolMissing, match="PULP-SDK is not set up") as caught:
        Gvsoc().check_tools()
    assert "source" in caught.value.remedy
