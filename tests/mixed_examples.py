"""python -m tests.mixed_examples [NAME ...]: the examples in half precision, by `verify` and by their own check."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

from tests.e2e.conftest import EXAMPLES, deploy_example
from trainlib_deployer.check.verify import Verification

STEPS = {"mobilenet_v1": 24}  # branches of its 27 convolutions hide a factor of 1.05 in few steps
NORMS = (nn.modules.batchnorm._BatchNorm, nn.GroupNorm, nn.LayerNorm)
SEEN = 0.04  # relative: a gradient that may be off by more hides a factor of 1.05


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mixed_examples", description=__doc__)
    parser.add_argument("names", nargs="*", default=EXAMPLES, metavar="NAME")
    parser.add_argument("--dtype", choices=("mixed", "fp16"), default="mixed")
    parser.add_argument("--moved", action="store_true", help="norms start as if they had been trained")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mixed-") as folder:
        return sum(failed(name, given.dtype, Path(folder, name), given.moved) for name in given.names)


def failed(name: str, dtype: str, folder: Path, elsewhere: bool) -> bool:
    change = moved if elsewhere else lambda module: None
    steps = STEPS.get(name, 2)
    run = deploy_example(name, folder, steps=steps, change=change, cores=8, l1="64k", l2="64M", dtype=dtype).verify()
    command = ["make", "-s", "-C", folder, "host"]
    own = subprocess.run(command, check=False, capture_output=True, text=True).stdout.splitlines()
    total = sum(t.kind == "gradient" for t in run.verdict.tensors)
    print(f"{name}: {run.summary}; {len(blunt(run))} of {total} gradients hide 1.05; own check: {own[-1]}", flush=True)
    return not run.passed or not own[-1].startswith("PASS")


def moved(module: nn.Module) -> None:
    """As long as the bias of a norm is zero, the gradient of its weight is nothing but rounding if a ReLU and another
    norm follow, which take any factor out again: there no factor can show."""
    torch.manual_seed(7)
    with torch.no_grad():
        for norm in (m for m in module.modules() if isinstance(m, NORMS) and m.weight is not None):
            norm.weight.uniform_(0.7, 1.3)
            norm.bias.normal_(0, 0.3)


def blunt(run: Verification) -> list[str]:
    """Gradients of which a factor of 1.05 may pass for rounding."""
    return [f"{t.step}/{t.name}" for t in run.verdict.tensors if t.kind == "gradient" and t.hides_factor > SEEN]


if __name__ == "__main__":
    sys.exit(main())
