"""A step from Python beside one of the host program: processor time, which a busy machine does not change much.

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
from pathlib import Path

from click.testing import CliRunner

from golden.load import load_task
from trainlib_deployer import Session
from trainlib_deployer.cli.main import cli

ROOT = Path(__file__).resolve().parents[1]
STEPS, ROUNDS = 20, 5


def by_the_program(folder: Path, cores: int, steps: int) -> float:
    words = ["build/host/train", "TRACE=0", f"CORES={cores}", f"STEPS={steps}"]
    subprocess.run(["make", "-s", "-C", str(folder), *words], check=True, capture_output=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([folder / "build" / "host" / "train"], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def by_python(folder: Path, cores: int) -> float:
    (inputs, target), session = load_task(folder / "model").samples[0], Session(folder, cores=cores)
    session.step(inputs, target)
    before = time.process_time()
    for _ in range(STEPS):
        session.step(inputs, target)
    return time.process_time() - before


def main() -> None:
    print("| network | threads | the program, ms | from Python, ms | times |\n|---|---|---|---|---|")
    for example in [Path(a) for a in sys.argv[1:]] or [ROOT / "examples" / "resnet8.py"]:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place, "p")
            words = ["--model", str(example), "--cores", "8", "--l1", "64k", "--l2", "8M", "--out", str(folder)]
            assert CliRunner().invoke(cli, words).exit_code == 0
            for cores in (1, 2, 8):
                pairs = [
                    (
                        by_the_program(folder, cores, STEPS + 1) - by_the_program(folder, cores, 1),
                        by_python(folder, cores),
                    )
                    for _ in range(ROUNDS)
                ]
                here, there = (1e3 * statistics.median(times) / STEPS for times in zip(*pairs, strict=True))
                print(f"| {example.stem} | {cores} | {here:.2f} | {there:.2f} | {there / here:.2f} |", flush=True)


if __name__ == "__main__":
    main()
