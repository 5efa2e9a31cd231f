"""A large network takes a bounded multiple of its own bytes to deploy, whatever the number of steps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WIDTH, LAYERS = 1021, 4
MOST = 20  # times the bytes of the parameters: copies, gradients and references of one step, twice in double precision

CHILD = """
import sys
from pathlib import Path
import torch
from torch import nn
from trainlib_deployer.api import deploy

def deployed(width, out):
    torch.manual_seed(1)
    layers = [m for _ in range({layers}) for m in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*layers[:-1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    sample = torch.randn(1, width), torch.randn(1, width)
    deploy(model, *sample, loss=nn.MSELoss(), optimizer=optimizer, l1="64k", l2="1G", steps=7, out=sys.argv[1] + out)
    status = Path("/proc/self/status").read_text()  # getrusage would tell what this process was forked from, too
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))

print(-deployed(31, "/small") + deployed({width}, "/large"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the most memory ever used is told elsewhere")
def test_memory_is_a_multiple_of_the_parameters(tmp_path: Path) -> None:
    """Fault: the records of four runs were kept, each with the gradients and parameters of all steps: 82 times."""
    child = CHILD.format(layers=LAYERS, width=WIDTH)
    done = subprocess.run(
        [sys.executable, "-c", child, tmp_path], capture_output=True, text=True, check=True, timeout=300
    )
    parameters = 4 * LAYERS * WIDTH * (WIDTH + 1)
    grown = int(done.stdout.split()[-1]) / parameters
    assert 3 < grown < MOST
