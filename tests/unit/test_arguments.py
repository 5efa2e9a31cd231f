"""Wrong types and values in `deploy()`: one of our messages, each naming the argument."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from trainlib_deployer.api import deploy
from trainlib_deployer.errors import DeployError

BAD: dict[str, list[Any]] = {
    "model": [3, None, nn.Linear],
    "example_input": ["x", object(), 3.5, np.ones((2, 2))],
    "example_target": ["x", {}, 10**30],
    "loss": [nn.MSELoss, 3, "x"],
    "optimizer": [3, "sgd", nn.Linear],
    "data": [3, torch.ones(2), lambda: 1, "x"],
    "cores": ["many", 0, 3.5, [], True, 10**30],
    "l1": ["x", 3.5, -1, [], object()],
    "l2": [{}, (1, 2)],
    "target": [3, [], "nowhere"],
    "out": [3, [], b"", ""],
    "steps": ["5", 0, 2.0, True, None, 10**30],
    "accumulate": ["5", -1, [], 10**30],
    "samples": ["5", 0, 1.5, 10**30],
    "saved": ["fp8", 3, []],
    "clip_grad_norm": ["x", -1, True, float("nan")],
    "scheduler": [3, "x", lambda o: 3],
    "metrics": [3, "x", [torch.mean]],
    "name": [3, []],
    "say": [3, "x"],
}


@pytest.mark.parametrize("what", BAD)
def test_wrong_types(what: str, tmp_path: Path) -> None:
    for value in BAD[what]:
        given: dict[str, Any] = {"model": nn.Linear(2, 2), "example_input": torch.randn(1, 2), "out": tmp_path / "p"}
        given |= {"example_target": torch.randn(1, 2), "loss": nn.MSELoss(), "say": lambda line: None, what: value}
        with pytest.raises(DeployError) as caught:
            deploy(**given)
        assert caught.value.message and "\n" not in caught.value.message and not (tmp_path / "p").exists(), (
            what,
            value,
        )


def test_a_module_in_another_one_gives_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    net = nn.DataParallel(nn.Linear(2, 2))
    made = deploy(net, torch.randn(1, 2), torch.randn(1, 2), loss=nn.MSELoss(), say=lambda line: None)
    assert made.folder == Path("generated/Linear")
    with pytest.raises(DeployError, match="the model is the class Linear"):
        deploy(nn.Linear, torch.randn(1, 2))  # type: ignore[arg-type]
