"""What tiling costs and brings: bytes moved against the least possible, and instructions against the untiled step.

    python -m benchmarks.bench_tiles [NAME ...]

Instructions are those of the slowest core between barriers, on the emulated cluster, for one training step.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from trainlib_deployer.folder import read_plan
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.options import Options
from trainlib_deployer.pipeline import deploy_user_model
from trainlib_deployer.run.qemu import Qemu
from trainlib_deployer.user.load_model import load

EXAMPLES = ("mlp", "autoencoder", "resnet8", "dscnn", "mobilenet_v1", "trainlib_default")
ROOT = Path(__file__).resolve().parents[1]


def measured(name: str, folder: Path, l1: str) -> tuple[dict[str, Any], int]:
    """The plan, and instructions a step."""
    target = resolve("pulp-open", None, l1, "4M")
    deploy_user_model(load(str(ROOT / "examples" / f"{name}.py"), steps=1), Options(target, folder, steps=1))
    counts = Qemu().run(folder, 1, None, folder / "record.bin").counts
    return read_plan(folder), int(str(counts.get("critical", 0)))


def main() -> None:
    print("| network | bytes moved | lower bound | ratio | hidden | instructions | untiled | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for name in sys.argv[1:] or EXAMPLES:
        with tempfile.TemporaryDirectory() as scratch:
            _, whole = measured(name, Path(scratch, "whole"), "64M")
            plan, tiled = measured(name, Path(scratch, "tiled"), "64k")
        t = plan["traffic"]
        least = max(t["lower_bound"], 1)
        print(
            f"| {name} | {t['bytes']:,} | {t['lower_bound']:,} | {t['bytes'] / least:.2f} | {t['hidden_estimate']:.0%} "
            f"| {tiled:,} | {whole:,} | {tiled / max(whole, 1):.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
