"""Norms whose channels are shared evenly, and statistics in the outer memory: the same on every number of cores."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import nn

from trainlib_deployer.api import deploy


def layers(inside: int, outside: int) -> list[nn.Module]:
    return [nn.Conv2d(inside, outside, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU6()]


def test_cores_go_on_with_their_own_channels_and_pass_statistics_on(tmp_path: Path) -> None:
    """Those of 96 channels in two pieces; 136 are too many for one core."""
    torch.manual_seed(5)
    net = nn.Sequential(*layers(3, 24), *layers(24, 96), *layers(96, 136), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    x = torch.randn(2, 3, 6, 6)
    made = deploy(net, x, torch.randn(2, 136), cores=8, l1="32k", l2="1M", steps=2, out=tmp_path / "net")
    text = (tmp_path / "net" / "net.c").read_text()
    passed = re.findall(r"tl_pass_on\([^;]*?, (\d+), (\d+)\);", text)
    assert sorted(int(size) for size, _ in passed) == [96, 96, 384, 384]
    assert len({core for _, core in passed}) == 4
    assert "if (PLAN_CORES < PLAN_TEAM)\n" in text
    found = [made.verify(cores=cores) for cores in (8, 3, 1)]
    for one in found:
        assert one.passed
        assert {k: v.tobytes() for k, v in one.computed.items()} == {
            k: v.tobytes() for k, v in found[0].computed.items()
        }
