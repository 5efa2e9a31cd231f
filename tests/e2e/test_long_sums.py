"""Convolutions of halves by one tap whose sums go on from tile to tile: the same bits whatever the tiles."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from trainlib_deployer.api import deploy
from trainlib_deployer.folder import read_plan


def test_long_sums_by_one_tap(tmp_path: Path) -> None:
    torch.manual_seed(6)
    model = nn.Sequential(nn.Conv2d(5, 131, 1), nn.Tanh(), nn.Conv2d(131, 134, 1), nn.ReLU(), nn.Conv2d(134, 7, 1))
    x, y = torch.randn(1, 5, 3, 5), torch.randn(1, 7, 3, 5)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    found = []
    for l1, cores in (("22k", 3), ("64k", 8), ("4M", 1)):
        made = deploy(
            model,
            x,
            y,
            loss=nn.MSELoss(),
            optimizer=optimizer,
            steps=2,
            out=tmp_path / l1,
            l1=l1,
            l2="1M",
            dtype="mixed",
        )
        ops = {op["name"]: op["tiles"] for op in read_plan(made.folder)["ops"]}
        result = made.verify(cores=cores)
        result.raise_if_failed()
        found.append({k: v.tobytes() for k, v in result.computed.items()})
        assert l1 == "4M" or ops["2.conv2d"] > 1
    assert found[0] == found[1] == found[2]
