"""What the tensors of a plan take at their fullest moment against what PyTorch must store for the same step.

    python -m benchmarks.bench_least [--seeds 0:500] [EXAMPLE ...]

Without seeds every example, with them random networks of the fuzzer. Rows of more than MOST are printed with the
tensors that are there at the peak; of random networks these alone. The last lines count them by their largest reason.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import torch

from benchmarks.deployments import all_examples, example
from tests.fuzz.modules import Recipe, source
from trainlib_deployer import passes
from trainlib_deployer.advice.beyond import MOST, Reason, reasons
from trainlib_deployer.capture.agreement import captured_and_checked
from trainlib_deployer.capture.stored import Stored, stored
from trainlib_deployer.errors import DeployError
from trainlib_deployer.machine.machine import GROUND
from trainlib_deployer.machine.sizes import aligned
from trainlib_deployer.machine.targets import DEFAULT, TARGETS
from trainlib_deployer.ops.lower import lower
from trainlib_deployer.pipeline import at_start
from trainlib_deployer.plan.layout import persistent_items, tensor_items
from trainlib_deployer.program.ir import Program
from trainlib_deployer.user import load_model

SHOWN = 8


def programs(paths: list[Path]) -> Iterator[tuple[str, Program, Stored]]:
    for path in paths:
        try:
            user = load_model.load(str(path))
            with at_start(user):
                captured, _ = captured_and_checked(user)
                program = passes.run(lower(user, captured, 1))
                if user.trains:
                    yield path.stem, program, stored(user, 1)
        except (DeployError, RuntimeError) as err:
            print(f"{path.stem}: {type(err).__name__}: {str(err).splitlines()[0]}", file=sys.stderr, flush=True)


def live(program: Program, unit: int) -> list[int]:
    """Bytes of tensors at each operation, each rounded to units."""
    change = [sum(aligned(i.size, unit) for i in persistent_items(program)), *(0 for _ in program.ops), 0]
    for i in tensor_items(program):
        change[i.life.birth] += aligned(i.size, unit)
        change[i.life.death] -= aligned(i.size, unit)
    return list(accumulate(change))


def lines(program: Program, why: list[Reason]) -> Iterator[str]:
    """Why, as `explain` says it; the fullest operation, and the largest of what is alive there."""
    yield from (f"  {r.bytes:,} bytes: {r.words}" for r in why)
    found = live(program, GROUND)
    at = found.index(max(found))
    op = program.ops[at]
    yield f"  operation {at} of {len(program.ops)}: {op.name} ({op.phase}, {op.kind.name})"
    here = [i for i in tensor_items(program) if i.life.birth <= at < i.life.death]
    for i in sorted(here, key=lambda i: -i.size)[:SHOWN]:
        names = " = ".join(t.name for t in i.tensors)
        yield f"    {i.size:>9,}  {i.life.birth} to {i.life.death - 1}  {names}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="")
    parser.add_argument("examples", nargs="*", type=example)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found, largest = [], Counter[str]()
    with tempfile.TemporaryDirectory() as work:
        paths = given.examples or all_examples()
        if given.seeds:
            first, end = map(int, given.seeds.split(":"))
            paths = [Path(work) / f"{seed}.py" for seed in range(first, end)]
            for path in paths:
                path.write_text(source(Recipe(int(path.stem))))
        for name, program, least in programs(paths):
            taken, exact = (max(live(program, unit)) for unit in (GROUND, 1))
            found.append((taken / least.total, exact / least.total))
            why = reasons(program, TARGETS[DEFAULT], least) if found[-1][1] > MOST else []
            largest[max(why, key=lambda r: r.bytes).words.partition(":")[0] if why else ""] += 1
            if not given.seeds or found[-1][1] > MOST:
                print(
                    f"{name}: {taken:,} for {least.total:,}, {found[-1][0]:.3f}; unrounded {found[-1][1]:.3f}",
                    *(lines(program, why) if why else ()),
                    sep="\n",
                    flush=True,
                )
    counts = [sum(ratio[i] > MOST for ratio in found) for i in (0, 1)]
    print(f"{counts[0]} of {len(found)} above {MOST}, {counts[1]} of them before sizes are rounded to {GROUND} bytes")
    for words, count in largest.most_common():
        print(f"{count:>4} {words or 'none is needed'}")
    return min(counts[1], 1)


if __name__ == "__main__":
    sys.exit(main())
