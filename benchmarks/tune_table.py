"""Measurements of tiles that come with the package: trainlib_deployer/tune/measured.

    python -m benchmarks.tune_table [NAME ...]      of these examples, or of all
    python -m benchmarks.tune_table --check         which of them hold, now that kernels have changed

PULP-SDK's configs/*.sh must have been sourced. What is measured already, of kernels as they are, is not measured again.
Prints cycles of each step by estimates and by all measurements so far.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.deployments import EXAMPLES, all_examples
from trainlib_deployer.folder import read_plan
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.options import Options
from trainlib_deployer.pipeline import deploy_user_model
from trainlib_deployer.run import SIMULATED
from trainlib_deployer.tune.asked import Tune
from trainlib_deployer.tune.shipped import path_of
from trainlib_deployer.tune.table import Table
from trainlib_deployer.user.load_model import load

ROUNDS = 3
TARGET = resolve("pulp-open", None, "64k", "2M")


def line(name: str, folder: Path) -> str:
    tune = Tune(SIMULATED, ROUNDS, table=path_of(TARGET))
    deploy_user_model(load(str(EXAMPLES / f"{name}.py"), steps=1), Options(TARGET, folder, steps=1, tune=tune))
    found = read_plan(folder)["tuned"]
    gains = sorted(1 - o["taken"] / o["of_default"] for o in found["operations"] if o["chosen"] != o["default"])
    best = f"{gains[-1]:.1%}" if gains else ""
    cells = (name, f"{found['before']:,}", f"{found['after']:,}", f"{len(gains)} of {len(found['operations'])}", best)
    return f"| {' | '.join(cells)} |"


def state(table: Table) -> str:
    """How many operations are known, and how many no more."""
    others = f"; {table.lost} more of kernels that are others now: {', '.join(sorted(table.outdated))}"
    return f"{table.path.name}: {len(table.taken)} operations{others if table.lost else ''}"


def main() -> None:
    names = [word for word in sys.argv[1:] if word != "--check"]
    if "--check" not in sys.argv[1:]:
        print("| network | estimated | measured | operations cut otherwise | best of them |")
        print("|---|---|---|---|---|")
        for name in names or [path.stem for path in all_examples()]:
            with tempfile.TemporaryDirectory() as scratch:
                print(line(name, Path(scratch, name)), flush=True)
    print(state(Table.at(path_of(TARGET))))


if __name__ == "__main__":
    main()
