"""Peak, bound and seconds of the memory planner: MiniMalloc instances and random training graphs.

python benchmarks/bench_arena.py [directory with MiniMalloc's *.csv] [--seconds 30] [--sizes 500 2000 6000]
"""

from __future__ import annotations

import argparse
import csv
import random
import time
from pathlib import Path

from trainlib_deployer.plan.arena import Interval, Problem, place
from trainlib_deployer.plan.check import check_placement


def minimalloc(path: Path) -> Problem:
    """Columns id, lower, upper, size; the capacity is in the name: A.1048576.csv."""
    with path.open() as file:
        rows = [Interval(r["id"], int(r["size"]), int(r["lower"]), int(r["upper"])) for r in csv.DictReader(file)]
    return Problem(tuple(rows), capacity=int(path.name.split(".")[1]))


def training_graph(seed: int, tensors: int) -> Problem:
    """Activations until their backward, gradients and scratch, and a quarter of whatever."""
    draw = random.Random(seed)
    layers = tensors // 4
    end = 2 * layers
    found = []
    for layer in range(layers):
        size = 64 * draw.choice([1, 2, 3, 4, 6, 8]) * draw.choice([1, 4, 16, 64]) * draw.randint(1, 4)
        backward = end - 1 - layer
        found.append(Interval(f"activation{layer}", size, layer, backward + 1))
        found.append(Interval(f"gradient{layer}", size, backward, min(end, backward + draw.choice([1, 2, 2, 3]))))
        found.append(Interval(f"scratch{layer}", 16 * draw.randint(1, 2000), backward, backward + 1))
    for other in range(tensors - len(found)):
        birth = draw.randrange(end)
        death = min(end, birth + 1 + int(draw.expovariate(1 / 8)))
        found.append(Interval(f"other{other}", 16 * draw.randint(1, 3000), birth, death))
    return Problem(tuple(found), alignment=16)


def report(name: str, problem: Problem, seconds: float) -> None:
    start = time.perf_counter()
    found = place(problem, seconds)
    took = time.perf_counter() - start
    wrong = check_placement(problem, found)
    verdict = f"WRONG: {wrong[0]}" if wrong else "optimal" if found.proved else ""
    if problem.capacity and not wrong:
        verdict = ("fits" if found.peak <= problem.capacity else "DOES NOT FIT") + (", optimal" if found.proved else "")
    over = found.peak / found.lower_bound - 1
    print(
        f"{name:24} {len(problem.intervals):7} {found.lower_bound:10} {found.peak:10} {over:7.2%} {took:7.2f}  "
        f"{verdict:14} {found.method}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("suite", type=Path, nargs="?")
    parser.add_argument("--seconds", type=float, default=30.0, help="for each MiniMalloc instance")
    parser.add_argument("--sizes", type=int, nargs="*", default=[500, 2000, 6000], help="of random graphs")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    print(f"{'problem':24} {'buffers':>7} {'bound':>10} {'peak':>10} {'over':>7} {'seconds':>7}")
    for path in sorted(options.suite.glob("*.csv")) if options.suite else []:
        report(path.name, minimalloc(path), options.seconds)
    for tensors in options.sizes:
        for seed in range(options.seeds):
            report(f"training graph #{seed}", training_graph(seed, tensors), 1.0)


if __name__ == "__main__":
    main()
