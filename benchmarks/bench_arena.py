"""Peak, bound and seconds of the memory planner: MiniMalloc instances and random training graphs.

python -m benchmarks.bench_arena. Part of bench_memory too.
"""

from __future__ import annotations

import csv
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from trainlib_deployer.arena.arena import Interval, Problem, place
from trainlib_deployer.check.placement import check_placement

SUITE = Path(__file__).parent / "minimalloc"
PATIENCE = 30.0  # seconds for one instance
GRAPHS = {500: 0.1, 2000: 0.5, 6000: 2.0}  # tensors: seconds
SEEDS = 5


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


def measured(name: str, problem: Problem, patience: float) -> tuple[str, str]:
    """A line of the table, and what is wrong. Within its capacity, or if it has none, proved to be the least."""
    start = time.perf_counter()
    found = place(problem, patience)
    took = time.perf_counter() - start
    wrong = check_placement(problem, found)
    if not wrong and not (found.peak <= problem.capacity if problem.capacity else found.proved):
        wrong = ["does not fit" if problem.capacity else "not proved to be the least"]
    if not wrong and took > patience:
        wrong = [f"took {took:.2f} s of {patience} s"]
    numbers = f"{len(problem.intervals):,} | {found.lower_bound:,} | {found.peak:,} | {problem.capacity or ''}"
    line = f"| {name} | {numbers} | {took:.2f} s | {found.method} |"
    return line, f"{name}: {wrong[0]}" if wrong else ""


def instances() -> Iterator[tuple[str, Problem, float]]:
    for path in sorted(SUITE.glob("*.csv")):
        yield f"MiniMalloc {path.name[0]}", minimalloc(path), PATIENCE
    for tensors, seconds in GRAPHS.items():
        for seed in range(SEEDS):
            yield f"random training graph {seed}", training_graph(seed, tensors), seconds


def table() -> tuple[list[str], list[str]]:
    """The lines, and the failures."""
    found = [measured(*instance) for instance in instances()]
    head = ["| problem | buffers | lower bound | peak | capacity | took | method |", "|" + "---|" * 7]
    return [*head, *(line for line, _ in found)], [wrong for _, wrong in found if wrong]


def main() -> int:
    lines, failures = table()
    print("\n".join([*lines, *(f"FAIL {f}" for f in failures)]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
