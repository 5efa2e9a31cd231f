"""python -m tests.fuzz.wolf --seeds 0:2000: does the verdict cry wolf, and what mistakes does it not see?

Networks of tests.fuzz.zeros. Computed by PyTorch with its sums in other orders (tests.fuzz.stand_in), or, with
--program, by the program on the host. Every run must pass. Then each gradient is zeroed, negated and scaled by 1.01,
and held against the widest tolerance that any program may be granted: it must fail, or be named as not to be seen.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from golden import compare, reference
from tests.fuzz.stand_in import Reordered
from tests.fuzz.trial import BAD, Setting, attempt
from tests.fuzz.zeros import STEPS, source
from trainlib_deployer.check.judge import FIRST_ORDER_RUNS, FLOAT32_RUNS, judge, within_rounding
from trainlib_deployer.check.verify import task_of
from trainlib_deployer.user import load_model as user_model

FACTORS = (1.01, 0.0, -1.0)
PATIENCE = 3600  # seconds a program, on a machine that is busy otherwise
ABOVE = 100.0  # a gradient whose hundredth is larger than this many times the error made in it stands above rounding
SEEN, NAMED, KINK, SILENT = "seen", "named", "kink", "silent"
Record = dict[tuple[int, str, str], np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Found:
    """What one network shows."""

    passed: bool
    runs: int
    words: str = ""
    planted: int = 0
    named: int = 0  # planted mistakes that pass, and are named
    kink: tuple[str, ...] = ()  # that pass because one of the float32 runs met another branch
    silent: tuple[str, ...] = ()  # that pass without being named
    blurred: int = 0  # factors of 1.01 that pass though they stand far above the errors made


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.wolf", description=__doc__)
    parser.add_argument("--seeds", default="0:20", help="FIRST:END")
    parser.add_argument("--plant", type=int, default=4, help="plant mistakes in every so many-th network; 0: in none")
    parser.add_argument("--program", action="store_true", help="deploy and run the program on the host")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    first, _, end = given.seeds.partition(":")
    results: dict[int, Found] = {}
    with tempfile.TemporaryDirectory(prefix="wolf-") as scratch:
        for seed in range(int(first), int(end or int(first) + 1)):
            net = Path(scratch) / "net.py"
            net.write_text(source(seed))
            if given.program:
                done = attempt(net, Setting(), Path(scratch) / "project", Path(scratch) / "objects", PATIENCE)
                found = Found(done.kind not in (*BAD, "rounding"), 0, f"{done.kind} {done.detail}")
            else:
                found = stood_in(net, seed, bool(given.plant) and seed % given.plant == 0)
            results[seed] = found
            print(f"{seed:5d} {'passed' if found.passed else 'FAILED'} {found}", flush=True)
    return summary(results)


def summary(results: dict[int, Found]) -> int:
    failed = [s for s, f in results.items() if not f.passed]
    silent = [s for s, f in results.items() if f.silent]
    print(f"\n{len(results)} networks; runs needed: {dict(sorted(Counter(f.runs for f in results.values()).items()))}")
    print(f"false alarms: {failed}; mistakes neither seen nor named: {silent}")
    print(
        f"mistakes planted: {sum(f.planted for f in results.values())}, named: {sum(f.named for f in results.values())}"
    )
    print(f"hidden by a branch that flips: {sum(len(f.kink) for f in results.values())}")
    print(f"a factor of 1.01 that passes far above the errors made: {sum(f.blurred for f in results.values())}")
    return int(bool(failed or silent))


def stood_in(net: Path, seed: int, plant: bool) -> Found:
    user = user_model.load(str(net), steps=STEPS)
    task = task_of(user, 1)
    with Reordered(seed):
        computed = reference.run(task, STEPS, torch.float32)
    judged = judge(task, computed, STEPS, [])
    runs, passed = len(judged.singles) - 1, judged.verdict.passed
    wrong = [t for t in judged.verdict.tensors if not t.passed]
    words = "; ".join(f"{t.step} {t.kind} {t.name} {t.rel_l2:.2e} > {t.tolerance:.2e}" for t in wrong[:3])
    if not plant:
        return Found(passed, runs, words)
    exact, singles = within_rounding(task, computed, STEPS)
    smooth = list(singles)
    while len(singles) <= FIRST_ORDER_RUNS + FLOAT32_RUNS:
        singles.append(reference.run(task, STEPS, torch.float32, noise=len(singles), resume=computed))
    named = {(t.step, t.name): t.hides >= 1 for t in judged.verdict.tensors if t.kind == "gradient" and t.vague}
    marks = [m for step in range(STEPS) for m in planted(step, computed, exact, (smooth, singles), named)]
    of = {what: tuple(name for name, found, _ in marks if found == what) for what in (SEEN, NAMED, KINK, SILENT)}
    blurred = sum(far for _, found, far in marks if found != SEEN)
    return Found(passed, runs, words, len(marks), len(of[NAMED]), of[KINK], of[SILENT], blurred)


def planted(
    step: int,
    computed: Record,
    exact: Record,
    singles: tuple[list[Record], list[Record]],
    named: dict[tuple[int, str], bool],
) -> Iterator[tuple[str, str, bool]]:
    """Each mistake in a step; whether it is seen, named or neither; whether it stands far above the errors made."""
    part = {k: v for k, v in exact.items() if k[:2] == (step, "gradient")}
    for key, right in part.items():
        size = float(np.linalg.norm(compare.flat(right)))
        if size == 0.0:
            continue
        far = ABOVE * max(compare.distance(computed[key], right, size), compare.FLOOR) < FACTORS[0] - 1
        for factor in FACTORS:
            wrong = {**computed, key: computed[key] * factor}
            first, widest = (not compare.compare(wrong, part, s, {}).passed for s in singles)
            entirely = named.get((step, key[2]))
            told = entirely is not None and (factor == FACTORS[0] or entirely)
            found = SEEN if widest else NAMED if told else KINK if first else SILENT
            yield f"{step} {key[2]} {factor}", found, far and factor == FACTORS[0]


if __name__ == "__main__":
    sys.exit(main())
