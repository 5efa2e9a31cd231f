"""python -m tests.mixed_examples [NAME ...]: the examples in half precision, by `verify` and by their own check."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.e2e.conftest import EXAMPLES, deploy_example
from trainlib_deployer.check.verify import Verification

SEEN = 0.04  # relative: a gradient that may be off by more hides a factor of 1.05


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mixed_examples", description=__doc__)
    parser.add_argument("names", nargs="*", default=EXAMPLES, metavar="NAME")
    parser.add_argument("--dtype", choices=("mixed", "fp16"), default="mixed")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mixed-") as folder:
        return sum(failed(name, given.dtype, Path(folder, name)) for name in given.names)


def failed(name: str, dtype: str, folder: Path) -> bool:
    run = deploy_example(name, folder, steps=2, cores=8, l1="64k", l2="64M", dtype=dtype).verify()
    command = ["make", "-s", "-C", folder, "host"]
    own = subprocess.run(command, check=False, capture_output=True, text=True).stdout.splitlines()
    total = sum(t.kind == "gradient" for t in run.verdict.tensors)
    print(f"{name}: {run.summary}; {len(blunt(run))} of {total} gradients hide 1.05; own check: {own[-1]}", flush=True)
    return bool(not run.passed or blunt(run) or not own[-1].startswith("PASS"))


def blunt(run: Verification) -> list[str]:
    """Gradients of which a factor of 1.05 may pass for rounding."""
    return [f"{t.step}/{t.name}" for t in run.verdict.tensors if t.kind == "gradient" and t.hides_factor > SEEN]


if __name__ == "__main__":
    sys.exit(main())
