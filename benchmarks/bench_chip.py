"""Every example on one chip as it is, with a third memory where it does not fit without: deployed, run, verified.

    python -m benchmarks.bench_chip [--target pulp-open] [--l3 8M] [--on host,qemu,gvsoc] [EXAMPLE ...]

A row says what each memory takes, with all that a build brings, what is copied, and the verdict of each run. A back end
whose tools are not there is left out; with PULP-SDK's configs/*.sh sourced GVSoC is among them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.deployments import all_examples, example
from trainlib_deployer.errors import DoesNotFit, ToolMissing, VerificationFailed
from trainlib_deployer.folder import read_plan
from trainlib_deployer.run import backend

STEPS = "1"


def deploy(path: Path, target: str, folder: Path, *more: str) -> int:
    options = ["--model", str(path), "--target", target, "--steps", STEPS, "--out", str(folder), *more]
    done = subprocess.run([sys.executable, "-m", "trainlib_deployer", "-q", *options], check=False, capture_output=True)
    if done.returncode not in (0, DoesNotFit.exit_code):
        raise RuntimeError(done.stderr.decode())
    return done.returncode


def verdict(folder: Path, on: str) -> str:
    command = [sys.executable, "-m", "trainlib_deployer", "-q", "verify", str(folder), "--on", on, "--steps", STEPS]
    code = subprocess.run(command, check=False, capture_output=True).returncode
    return {0: "PASS", VerificationFailed.exit_code: "FAIL"}.get(code, f"exit {code}")


def there(names: list[str]) -> Iterator[str]:
    for name in names:
        try:
            backend(name).check_tools()
        except ToolMissing as missing:
            print(f"{name} is left out: {missing.message}", file=sys.stderr)
        else:
            yield name


def cells(plan: dict[str, Any]) -> Iterator[str]:
    for level in list(plan["levels"].values())[:3]:
        yield f"{level['used'] + level['reserved']:,}"
    yield from ["-"] * (3 - len(plan["levels"]))
    carried = plan["carried"]
    yield f"{carried['copies']:,}" if carried else "-"
    yield f"{carried['moved']:,}" if carried else "-"


def row(path: Path, target: str, l3: str, on: list[str]) -> tuple[str, bool]:
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / path.stem
        if deploy(path, target, folder) and deploy(path, target, folder, "--l3", l3):
            return f"| {path.stem} | does not fit |", False
        verdicts = [verdict(folder, name) for name in on]
        words = (path.stem, *cells(read_plan(folder)), *verdicts)
        return f"| {' | '.join(words)} |", set(verdicts) == {"PASS"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="pulp-open")
    parser.add_argument("--l3", default="8M")
    parser.add_argument("--on", default="host,qemu,gvsoc")
    parser.add_argument("examples", nargs="*", type=example)
    given = parser.parse_args()
    on = list(there(given.on.split(",")))
    headings = ("example", "L1", "L2", "L3", "copies", "bytes copied", *on)
    print(f"| {' | '.join(headings)} |\n|{'---|' * len(headings)}", flush=True)
    wrong = 0
    for path in given.examples or all_examples():
        line, holds = row(path, given.target, given.l3, on)
        print(line, flush=True)
        wrong += not holds
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
