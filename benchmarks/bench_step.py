"""A step from Python beside one of the host program: processor time, which a busy machine does not change much, and
time by the clock.

    python -m benchmarks.bench_step [examples/resnet8.py ...]

Prints the table of docs/benchmarks.md.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from golden.load import load_task
from trainlib_deployer import Session
from trainlib_deployer.cli.main import cli

ROOT = Path(__file__).resolve().parents[1]
STEPS, ROUNDS = 20, 15


@dataclass(frozen=True)
class Took:
    """Seconds of the processor, the median of some runs, and by the clock, the least."""

    processor: float
    clock: float

    def __sub__(self, other: Took) -> Took:
        return Took(self.processor - other.processor, self.clock - other.clock)


def now(who: int) -> Took:
    used = resource.getrusage(who)
    return Took(used.ru_utime + used.ru_stime, time.perf_counter())


def least(who: int, run: Callable[[], object]) -> Took:
    runs = []
    for _ in range(ROUNDS):
        before = now(who)
        run()
        runs.append(now(who) - before)
    return Took(statistics.median(r.processor for r in runs), min(r.clock for r in runs))


def by_the_program(folder: Path, cores: int, steps: int) -> Took:
    words = ["build/host/train", "TRACE=0", f"CORES={cores}", f"STEPS={steps}"]
    subprocess.run(["make", "-s", "-C", str(folder), *words], check=True, capture_output=True)
    command = [folder / "build" / "host" / "train"]
    return least(resource.RUSAGE_CHILDREN, lambda: subprocess.run(command, capture_output=True, check=False))


def by_python(folder: Path, cores: int) -> Took:
    (inputs, target), session = load_task(folder / "model").samples[0], Session(folder, cores=cores)
    session.step(inputs, target)
    return least(resource.RUSAGE_SELF, lambda: [session.step(inputs, target) for _ in range(STEPS)])


def main() -> None:
    print("| network | threads | the program, ms | from Python, ms | times | by the clock | | times |")
    print("|---|---|---|---|---|---|---|---|")
    for example in [Path(a) for a in sys.argv[1:]] or [ROOT / "examples" / "resnet8.py"]:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place, "p")
            words = ["--model", str(example), "--cores", "8", "--l1", "64k", "--l2", "8M", "--out", str(folder)]
            assert CliRunner().invoke(cli, words).exit_code == 0
            for cores in (1, 2, 8):
                here = by_the_program(folder, cores, STEPS + 1) - by_the_program(folder, cores, 1)
                there = by_python(folder, cores)
                told = [
                    f"{1e3 * a / STEPS:.2f} | {1e3 * b / STEPS:.2f} | {b / a:.2f}"
                    for a, b in ((here.processor, there.processor), (here.clock, there.clock))
                ]
                print(f"| {example.stem} | {cores} | {' | '.join(told)} |", flush=True)


if __name__ == "__main__":
    main()
