"""The generated program and the kernels under the address, undefined-behaviour and thread sanitizers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from trainlib_deployer.api import deploy
from trainlib_deployer.errors import DeployError
from trainlib_deployer.run.host import Host

torch.set_num_threads(1)
CORES, STEPS = 3, 2


class Net(nn.Module):
    """One layer of every family of kernels; no extent divides by three."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(2, 5, 3, stride=2, padding=1), nn.BatchNorm2d(5), nn.ReLU())
        self.depthwise = nn.Conv2d(5, 5, 3, padding=1, groups=5)
        self.pointwise = nn.Conv2d(5, 7, 1)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ConvTranspose2d(7, 4, 2, stride=2)
        self.norm = nn.GroupNorm(2, 4)
        self.head = nn.Linear(4 * 8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.pool(torch.tanh(self.pointwise(self.depthwise(self.stem(x)))))
        y = nn.functional.adaptive_avg_pool2d(nn.functional.gelu(self.norm(self.up(y))), (4, 2))
        return self.head(y.flatten(1)).softmax(1)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(5)
    model = Net()
    data = [(torch.randn(2, 2, 11, 13), torch.rand(2, 5)) for _ in range(STEPS)]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    out = tmp_path_factory.mktemp("sanitized") / "project"
    settings = {"cores": 8, "l1": "64k", "l2": "2M", "out": out, "steps": STEPS}
    return deploy(model, *data[0], loss=nn.MSELoss(), optimizer=optimizer, data=data, **settings).folder


def run(project: Path, sanitize: str, record: Path) -> bytes:
    Host(sanitize).run(project, STEPS, CORES, record)
    return record.read_bytes()


@pytest.mark.parametrize("sanitize", ["address,undefined", "thread"])
def test_clean_and_the_same_bits(sanitize: str, project: Path, tmp_path: Path) -> None:
    plain = run(project, "", tmp_path / "plain.bin")
    assert plain
    assert run(project, sanitize, tmp_path / "sanitized.bin") == plain


PLANTED = {
    "address,undefined": ("static float room[4];\nstatic volatile int five = 5;\n", "room[five] = 1.0f;"),
    "thread": ("static volatile int shared;\n", "shared = shared + 1;"),
}


@pytest.mark.parametrize("sanitize", PLANTED)
def test_a_planted_fault_is_found(sanitize: str, project: Path, tmp_path: Path) -> None:
    """In what every core runs."""
    source = project / "kernels" / "host.c"
    whole = source.read_text()
    declaration, statement = PLANTED[sanitize]
    entry = "static void *as_core(void *given)\n{\n"
    assert entry in whole
    source.write_text(whole.replace(entry, f"{declaration}{entry}    {statement}\n"))
    try:
        with pytest.raises(DeployError):
            run(project, sanitize, tmp_path / "record.bin")
    finally:
        source.write_text(whole)
