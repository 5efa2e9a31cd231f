"""A loss with parameters of its own, which the optimizer trains beside the model's."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from trainlib_deployer import deploy
from trainlib_deployer.check.verify import verify

pytestmark = pytest.mark.compiler
NET = """
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 7), nn.ReLU(), nn.Linear(7, 4))


class Centers(nn.Module):
    def __init__(self):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(3, 4))

    def forward(self, y, labels):
        return F.cross_entropy(-torch.cdist(y, self.centers), labels)


{loss}
data = [(torch.randn(6, 10), torch.randint(3, (6,))) for _ in range(3)]
example_input, example_target = data[0]
"""
LOSSES = {
    "criterion": "loss = Centers()\noptimizer = torch.optim.Adam([*model.parameters(), *loss.parameters()], lr=0.01)",
    "center": (
        "center = Centers()\ndef loss(y, t):\n    return center(y, t) + 0.01 * y.square().mean()\n"
        "groups = [{'params': model.parameters()}, {'params': center.parameters(), 'lr': 0.5}]\n"
        "optimizer = torch.optim.SGD(groups, lr=0.1)"
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_from_a_file(name: str, tmp_path: Path) -> None:
    """Verified by the project alone, which reads the file again; and the weights that come out go in again."""
    net, weights = tmp_path / "net.py", tmp_path / "w.pt"
    net.write_text(NET.format(loss=LOSSES[name]))
    tool, there = [sys.executable, "-m", "trainlib_deployer"], tmp_path / "p"
    subprocess.run([*tool, "--model", net, "--cores", "8", "--l1", "64k", "--steps", "2", "--out", there], check=True)
    found = verify(there)
    found.raise_if_failed()
    assert (1, "parameter", f"2.{name}.centers") in found.computed
    subprocess.run(["make", "-s", "-C", there, "host", f"SAVE={tmp_path}/end.state"], check=True)
    subprocess.run([*tool, "weights", there, tmp_path / "end.state", "--out", weights], check=True)
    subprocess.run([*tool, "weights", there, "--in", weights], check=True)


def test_from_python(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET.format(loss=LOSSES["criterion"]))
    names = runpy.run_path(str(tmp_path / "net.py"))
    given = {n: names[n] for n in ("example_input", "example_target", "loss", "optimizer", "data")}
    deploy(names["model"], **given, cores=8, l1="64k", steps=2, out=tmp_path / "p").verify().raise_if_failed()
    assert dict(names["model"].named_parameters())["2.criterion.centers"] is names["loss"].centers
