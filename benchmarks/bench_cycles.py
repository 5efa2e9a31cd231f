"""Cycles of a training step of the examples on GVSoC's pulp-open under PULP-SDK, and how far the forecast is from them.

    python -m benchmarks.bench_cycles [NAME ...]

PULP-SDK's configs/*.sh must have been sourced. An operation's error is |forecast / cycles - 1|; of those that take 1 %
of the step or more, the median, how many are within 30 %, and the worst one.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.deployments import EXAMPLES, all_examples
from trainlib_deployer.folder import read_plan
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.options import Options
from trainlib_deployer.pipeline import deploy_user_model
from trainlib_deployer.user.load_model import load

LINE = re.compile(r"^ *(\d+) +\d+ .*? (\d+) +\d+\.\d{3}  (.*)$")
SHARE = 0.01


@dataclass(frozen=True)
class Operation:
    name: str
    kernel: str
    forecast: float
    cycles: int
    macs: int

    @property
    def error(self) -> float:
        return abs(self.forecast / self.cycles - 1)


@dataclass(frozen=True)
class Step:
    passed: bool
    cycles: int
    macs: int
    operations: list[Operation]

    @property
    def forecast(self) -> float:
        return sum(o.forecast for o in self.operations)

    @property
    def heavy(self) -> list[Operation]:
        return [o for o in self.operations if o.cycles >= SHARE * self.cycles]


def measured(name: str, folder: Path) -> Step:
    """Deploys an example and runs one step of it."""
    target = resolve("pulp-open", None, "64k", "2M")
    deploy_user_model(load(str(EXAMPLES / f"{name}.py"), steps=1), Options(target, folder, steps=1))
    return stepped(name, folder)


def stepped(name: str, folder: Path) -> Step:
    """One step of a deployed project."""
    command = ["make", "-C", str(folder), "clean", "all", "run", "PROFILE=1", "STEPS=1"]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=1800)
    lines = [found.groups() for found in map(LINE.match, ran.stdout.splitlines()) if found]
    ops = read_plan(folder)["ops"]
    if len(lines) != len(ops) + 1:
        raise SystemExit(f"{name}: no profile; make's last words: {(ran.stderr or ran.stdout).splitlines()[-1:]}")
    operations = [
        Operation(op["name"], op["kernel"], op["cycles"], int(cycles), int(macs))
        for op, (cycles, macs, _) in zip(ops, lines[:-1], strict=True)
    ]
    total, macs, _ = lines[-1]
    return Step("PASS:" in ran.stdout, int(total), int(macs), operations)


def line(name: str, step: Step) -> str:
    heavy, worst = step.heavy, max(step.heavy, key=lambda o: o.error)
    within = sum(o.error < 0.3 for o in heavy)
    cells = (
        f"{name}{'' if step.passed else ' FAILED'}",
        f"{step.cycles:,}",
        f"{step.macs:,}",
        f"{step.macs / step.cycles:.3f}",
        f"{step.forecast / step.cycles - 1:+.1%}",
        f"{median(o.error for o in heavy):.1%}",
        f"{within} of {len(heavy)}",
        f"{worst.name} ({worst.kernel}): {worst.forecast:,.0f} for {worst.cycles:,}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    names = sys.argv[1:] or [path.stem for path in all_examples()]
    print("| network | cycles | multiply-adds | per cycle | forecast | median error | within 30 % | worst |")
    print("|---|---|---|---|---|---|---|---|")
    errors: list[float] = []
    for name in names:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                step = measured(name, Path(scratch))
            except SystemExit as reason:
                print(f"| {reason} |", flush=True)
                continue
        errors += [o.error for o in step.heavy]
        print(line(name, step), flush=True)
    if not errors:
        return
    print(f"\nAll {len(errors)} operations that take {SHARE:.0%} of their step: ", end="")
    print(f"median {median(errors):.1%}, worst {max(errors):.0%}")


if __name__ == "__main__":
    main()
