"""Plan against linker: every example, under PULP-SDK (its configs/*.sh sourced).

    python -m benchmarks.bench_linker [EXAMPLE ...]

Each is deployed with as much L2 as it likes, for the bytes are the question; the build is the verification run's. What
the plan says of L1 and L2 stands beside where the linker ends them; a row below the linker, or 3 % above it, fails.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.objects import Elf

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
L1, L2 = 0x1000_0000, 0x1C00_0000
MOST = 1.03


def linked(program: Path) -> tuple[int, int]:
    at = {s.name: s.value for s in Elf.of(program).symbols}
    return at["__l1_end"] - L1, at["_l1_preload_start_inL2"] + at["_l1_preload_size"] - L2


def deploy(example: Path, target: str, folder: Path) -> None:
    options = ["--model", str(example), "--target", target, "--l2", "16M", "--out", str(folder)]
    subprocess.run([sys.executable, "-m", "trainlib_deployer", *options], check=True, capture_output=True)


def row(example: Path, folder: Path) -> tuple[int, ...]:
    """Planned and linked bytes of L1, then of L2."""
    deploy(example, "pulp-open", folder)
    build = ["make", "-s", "-C", str(folder), "all", "L2_THERE=16777216", "SIZES=any"]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    plan = json.loads((folder / "plan.json").read_text())
    inner = next(iter(plan["levels"].values()))
    l1, l2 = linked(next(folder.glob("BUILD/**/train/train")))
    return inner["used"] + inner["reserved"], l1, plan["image"]["run"], l2


def main(names: list[str]) -> int:
    examples = [p for p in sorted(EXAMPLES.glob("*.py")) if not names or p.stem in names]
    wrong = 0
    print("| example | L1 planned | linked | | L2 planned | linked | |\n|---|---|---|---|---|---|---|", flush=True)
    for example in examples:
        with tempfile.TemporaryDirectory() as work:
            found = row(example, Path(work) / example.stem)
        ratios = (found[0] / found[1], found[2] / found[3])
        wrong += any(not 1 <= r <= MOST for r in ratios)
        words = [
            f"{p:,} | {n:,} | {100 * (r - 1):+.2f} %" for p, n, r in zip(found[::2], found[1::2], ratios, strict=True)
        ]
        print(f"| {example.stem} | {' | '.join(words)} |", flush=True)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
