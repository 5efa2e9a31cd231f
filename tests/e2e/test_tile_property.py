"""Operations and sizes of L1 drawn at random: an operation in tiles gives the bits of the whole one."""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.tile_cases import Case, Comparison, built, drawn, every_chain, kernel_objects, program_of
from tests.e2e.tile_layers import FAMILIES, SELECTIONS, Families
from trainlib_deployer.program.chain import Chain

SEEDS = (4, 6, 7, 9, 10, 11)
CHAINED = 9  # from this seed on, loops follow the tiles of other operations
LAYERS = 12
CASES = 2000
KINDS = ("conv2d_fw", "conv2d_bw_x", "conv2d_bw_w", "matmul", "map", "reduce", "chain")
SELECTING = ("maxpool2d", "avgpool2d", "adaptive_maxpool2d", "adaptive_avgpool2d")
SELECTING = (*(f"{k}_{d}" for k in SELECTING for d in ("fw", "bw")), "take", "put", "scan", "extreme", "order")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return kernel_objects(tmp_path_factory.mktemp("kernels"))


def compared(seed: int, folder: Path, kernels: list[Path], families: Families = FAMILIES) -> list[Case]:
    """The tilings of one random network's operations, which gave the bits of the whole operations."""
    program, loss = program_of(seed, LAYERS, families)
    if seed >= CHAINED:
        program = every_chain(program)
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
    return comparison.cases


def updates_in_place(case: Case) -> bool:
    """A tile comes, one is worked on, one leaves."""
    return any(s.shares is not None and s.buffers == 3 for s in case.tiling.streams)


def test_any_operation_in_tiles_gives_the_bits_of_the_whole(kernels: list[Path], tmp_path: Path) -> None:
    cases: list[Case] = []
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        cases += compared(seed, folder, kernels)
    assert len(cases) >= CASES
    families = Counter(case.op.kind.name for case in cases)
    assert all(families[name] >= 20 for name in KINDS), families
    assert sum(getattr(case.op.kind, "recorded", 0) for case in cases) >= 20, "updates that make their own gradient"
    assert sum(updates_in_place(case) for case in cases) >= 50, "updates in place"
    sums = Counter(case.op.kind.name for case in cases if case.sums)
    assert all(sums[name] >= 20 for name in ("matmul", "conv2d_bw_w")), sums
    assert sums["chain"] >= 10, sums
    chains = Counter(f.anchor >= 0 for case in cases if isinstance(case.op.kind, Chain) for f in case.op.kind.followers)
    assert chains[False] >= 100 and chains[True] >= 20, chains


def test_tiles_of_what_selects(kernels: list[Path], tmp_path: Path) -> None:
    """Pooling, indices, running sums, extremes and order."""
    cases: list[Case] = []
    for seed in (1, 3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        cases += compared(seed, folder, kernels, SELECTIONS)
    found = Counter(case.op.kind.name for case in cases)
    assert all(found[name] >= 8 for name in SELECTING), found
