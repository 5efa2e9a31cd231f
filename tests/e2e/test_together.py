"""Options that meet in one deployment: a third memory below halves, sums of several steps and an evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from trainlib_deployer.api import Deployment, deploy


def deployed(folder: Path, **options: Any) -> Deployment:
    torch.manual_seed(5)
    net = nn.Sequential(
        nn.Conv2d(3, 7, 3, padding=1), nn.BatchNorm2d(7), nn.ReLU(), nn.Conv2d(7, 11, 3, stride=2), nn.Dropout(0.2)
    )
    net.extend([nn.ReLU(), nn.Flatten(), nn.Linear(11 * 20, 5)])
    data = [(torch.randn(3, 3, 9, 11), torch.randint(0, 5, (3,))) for _ in range(2)]
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    loss = nn.CrossEntropyLoss()
    together = {"evaluate": True, "batch": 2, "accumulate": 2, "steps": 2, "cores": 3, "l1": "12k", **options}
    return deploy(net, *data[0], data=data, loss=loss, optimizer=optimizer, out=folder, **together)


def course(made: Deployment) -> tuple[list[float], bytes]:
    """An evaluation before, between and after sums of several steps; what is learned behind a resumption."""
    torch.manual_seed(7)
    x, y = torch.randn(3, 3, 9, 11), torch.randint(0, 5, (3,))
    found = [evaluated(made, x, y)]
    for _ in range(3):
        found += [made.step(x, y), evaluated(made, x, y)]
    image = made.session.image()
    made.reset()
    made.session.load_image(image)
    found += [made.step(x, y), evaluated(made, x, y)]
    return found, made.session.image()


def evaluated(made: Deployment, x: torch.Tensor, y: torch.Tensor) -> float:
    return float(made.evaluate(x[:2], y[:2]))


HALVES = {"mixed": {"dtype": "mixed", "loss_scale": "dynamic:64:2"}, "saved": {"saved": "fp16"}}


@pytest.mark.parametrize("halves", HALVES.values(), ids=list(HALVES))
def test_a_third_memory_changes_no_bit_of_a_course(tmp_path: Path, halves: dict[str, str]) -> None:
    roomy = deployed(tmp_path / "roomy", l2="1M", **halves)
    far = deployed(tmp_path / "far", l2="40k", l3="1M", **halves)
    assert far.plan.program.far and not roomy.plan.program.far
    assert course(far) == course(roomy)
