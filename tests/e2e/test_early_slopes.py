"""Slopes instead of operands: the bits of every tensor stay the same, in tiles, behind convolutions and beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from trainlib_deployer import passes
from trainlib_deployer.api import deploy
from trainlib_deployer.check.verify import verify
from trainlib_deployer.folder import read_plan
from trainlib_deployer.run.host import Host
from trainlib_deployer.run.record import read_record


class Smooth(nn.Module):
    """Each activation that has a slope, and the gradient of one that is summed up at once."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 7, 3, padding=1)
        self.second = nn.Conv2d(7, 7, 3, padding=1)
        self.third = nn.Linear(7, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.silu(self.first(x))
        x = x + nn.functional.gelu(self.second(x))
        x = nn.functional.mish(x).permute(0, 2, 3, 1)
        return nn.functional.gelu(self.third(x), approximate="tanh")


def results(folder: Path) -> dict[tuple[int, str, str], bytes]:
    path = folder / "record.bin"
    Host(poison=True).run(folder, 2, 3, path)
    return {key: value.tobytes() for key, value in read_record(path, read_plan(folder)["trace"]).items()}


def test_slopes_change_no_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    net = Smooth()
    x, y = torch.randn(2, 3, 13, 11), torch.randn(2, 13, 11, 5)
    found = []
    for folder in ("slopes", "operands"):
        deployed = deploy(net, x, y, loss=nn.MSELoss(), l1="24k", l2="1M", steps=2, out=tmp_path / folder)
        assert verify(deployed.folder).passed
        found.append((results(tmp_path / folder), (tmp_path / folder / "plan.json").read_text().count('.slope"') > 0))
        monkeypatch.setattr(passes, "early_slopes", lambda program: program)
    (with_slopes, some), (without, none) = found
    assert some and not none and len(without) > 12 and with_slopes == without
