"""Measurements of tiles that come with the package: trainlib_deployer/tune/measured.

    python -m benchmarks.tune_table [--dtype mixed] [--l2 4M] [--keep FILE] [NAME ...]    of these examples, or of all
    python -m benchmarks.tune_table --compare [--dtype mixed] [NAME ...]    only their steps with them and without
    python -m benchmarks.tune_table --check         how many hold, now that kernels have changed

PULP-SDK's configs/*.sh must have been sourced. The ways to cut each operation are measured; FILE keeps them, and what
is known there of kernels as they are is not measured again. Then steps are compared with what comes with the package
and without it. What does not make all of them faster is left out of the package, and so is what stays as estimated.
Prints cycles of each step by estimates and with what is left.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.deployments import EXAMPLES, all_examples
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.machine.tuned import MARGIN
from trainlib_deployer.options import Options
from trainlib_deployer.pipeline import deploy_user_model
from trainlib_deployer.plan.plan import Plan
from trainlib_deployer.plan.tuning import Choice, Tuning
from trainlib_deployer.run import SIMULATED
from trainlib_deployer.tune.asked import Tune
from trainlib_deployer.tune.shipped import path_of
from trainlib_deployer.tune.table import Table
from trainlib_deployer.tune.tuning import kernels
from trainlib_deployer.user.load_model import load

ROUNDS = 6
TARGET, L1 = "pulp-open", "64k"


@dataclass(frozen=True)
class Search:
    """Where steps are measured, and in which precision."""

    target: Machine
    dtype: str


@dataclass(frozen=True)
class Tuned:
    """A step as it was measured."""

    plan: Plan
    tuning: Tuning

    @staticmethod
    def of(name: str, search: Search, rounds: int, table: Path) -> Tuned:
        tune = Tune(SIMULATED, rounds, table=table)
        with tempfile.TemporaryDirectory() as scratch:
            options = Options(search.target, Path(scratch, name), steps=1, dtype=search.dtype, tune=tune)
            plan = deploy_user_model(load(str(EXAMPLES / f"{name}.py"), steps=1), options).plan
        assert plan.tuned is not None
        return Tuned(plan, plan.tuned)

    @property
    def changed(self) -> Iterator[tuple[str, Choice]]:
        """What is cut otherwise, and takes less in the whole step."""
        for c in self.tuning.choices:
            if c.taken[c.chosen] <= (1 - MARGIN) * c.taken[c.default]:
                yield self.plan.tilings[c.position].work, c

    def line(self, name: str, dtype: str) -> str:
        before, after = self.tuning.before or 0, self.tuning.after or 0
        gains = sorted(1 - c.taken[c.chosen] / c.taken[c.default] for _, c in self.changed)
        best = f"{gains[-1]:.1%}" if gains else ""
        cells = (name, dtype, f"{before:,}", f"{after:,}", f"{1 - after / before:.2%}", str(len(gains)), best)
        return f"| {' | '.join(cells)} |"


class Compared(NamedTuple):
    """What a step has of the package, and what was left out for it."""

    left: set[str]
    out: set[str]


def propose(name: str, search: Search, keep: Path, package: Table) -> None:
    """Adds to the package what makes a step faster."""
    step = Tuned.of(name, search, ROUNDS, keep)
    print(step.line(name, search.dtype), flush=True)
    called = kernels(step.plan)
    for work, c in step.changed:
        known = {way: c.taken[way] for way in (c.default, c.chosen, c.runner_up) if way is not None}
        package.drop({work})
        package.add(step.tuning.unit, {(work, way): took for way, took in known.items()}, {work: called[work]})


def compare(name: str, search: Search, package: Table) -> Compared:
    """Leaves out of the package what does not make this step faster."""
    with tempfile.TemporaryDirectory() as scratch:
        given = Path(scratch, "table.json")
        shutil.copy(package.path, given)
        step = Tuned.of(name, search, 1, given)
    print(step.line(name, search.dtype), flush=True)
    works = {step.plan.tilings[c.position].work for c in step.tuning.choices} & package.taken.keys()
    left = {work for work, _ in step.changed}
    package.drop(works - left)
    return Compared(left, works - left)


def compare_all(names: Sequence[str], search: Search, package: Table) -> None:
    """Until nothing is left out any more."""
    found = {name: compare(name, search, package) for name in names}
    while again := [name for name, c in found.items() if any(c.left & other.out for other in found.values())]:
        found |= {name: compare(name, search, package) for name in again}


def state(table: Table) -> str:
    """How many operations are known, and how many no more."""
    others = f"; {table.lost} more of kernels that are others now: {', '.join(sorted(table.outdated))}"
    return f"{table.path.name}: {len(table.taken)} operations{others if table.lost else ''}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("--l2", default="2M", help="of a simulator that has more, for networks that need it")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_args()
    search = Search(resolve(TARGET, None, L1, given.l2), given.dtype)
    package = Table.at(path_of(search.target))
    names = given.names or [path.stem for path in all_examples()]
    if not given.check:
        print("| network | precision | estimated | measured | less | operations cut otherwise | best of them |")
        print("|---|---|---|---|---|---|---|")
        for name in () if given.compare else names:
            propose(name, search, given.keep or Table.of(search.target, SIMULATED).path, package)
        compare_all(names, search, package)
    print(state(package))


if __name__ == "__main__":
    main()
