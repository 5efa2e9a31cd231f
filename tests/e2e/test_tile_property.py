"""Operations and sizes of L1 drawn at random: an operation in tiles gives the bits of the whole one."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.tile_cases import Comparison, built, drawn, kernel_objects, program_of

SEEDS = range(1, 7)
LAYERS = 12
CASES = 2000


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return kernel_objects(tmp_path_factory.mktemp("kernels"))


def compared(seed: int, folder: Path, kernels: list[Path]) -> int:
    """The number of tilings of one random network's operations that gave the bits of the whole operation."""
    program, loss = program_of(seed, LAYERS)
    rng = random.Random(seed)
    comparison = Comparison(program, seed, [c for op in program.ops for c in drawn(program, op, rng)])
    executable = built(comparison, folder, kernels)
    after = folder / "after.bin"
    run = subprocess.run([executable, folder / "before.bin", after], capture_output=True, text=True, check=False)
    verdicts = dict(reversed(line.split()) for line in run.stdout.splitlines() if line[-1:].isdigit())
    bad = [f"{what}: {comparison.cases[int(i)]}" for i, what in verdicts.items() if what != "same"]
    assert not bad, f"seed {seed}, {len(bad)} of {len(verdicts)} cases:\n" + "\n".join(bad[:20])
    last = run.stderr.splitlines()[-1:]
    assert run.returncode == 0, f"seed {seed}: exit code {run.returncode}, {last}: {run.stdout[-200:]}"
    assert len(verdicts) == len(comparison.cases)
    at = comparison.at.offsets[program.loss]
    found = float(np.frombuffer(after.read_bytes(), np.float32, 1, at)[0])
    assert found == pytest.approx(loss, rel=1e-3, abs=1e-4), "what is compared is not the training step"
    return len(verdicts)


def test_any_operation_in_tiles_gives_the_bits_of_the_whole(kernels: list[Path], tmp_path: Path) -> None:
    total = 0
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        total += compared(seed, folder, kernels)
    assert total >= CASES
