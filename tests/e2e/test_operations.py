"""Every common operation, deployed and run: outputs, gradients and new parameters against PyTorch, bit for bit the
same for any number of cores."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

from tests.e2e import random_cases, spectral_cases
from tests.e2e.operation_cases import CASES, Case, by_group
from tests.suites.subjects import weighted
from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.folder import read_plan
from trainlib_deployer.program.expr import C_FORM
from trainlib_deployer.run.record import read_record

assert random_cases and spectral_cases, "they add to the table"
torch.set_num_threads(1)
A_PROJECT = 36  # cases that share one project


class Branch(nn.Module):
    """One case on tensors of its own."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.function = case.function
        self.order = [f"p{i}" for i in range(len(case.leaves))]
        for name, leaf in zip(self.order, case.leaves, strict=True):
            setattr(self, name, leaf.clone() if isinstance(leaf, nn.Buffer) else nn.Parameter(leaf.clone()))
            if isinstance(leaf, nn.Buffer):
                delattr(self, name)
                self.register_buffer(name, leaf.clone())

    def forward(self) -> Any:
        return self.function(*(getattr(self, n) for n in self.order))


class Branches(nn.Module):
    """Independent cases side by side; the input only scales one more output."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self.branches = nn.ModuleDict({c.name: Branch(c) for c in cases})
        self.scale = nn.Parameter(torch.tensor([0.5, -1.5, 2.0]))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        found = {"input": x * self.scale}
        for name, branch in self.branches.items():
            for i, value in enumerate(pytree.tree_leaves(branch())):
                found[f"{name}.{i}"] = value
        return found


def deployed(cases: Sequence[Case], folder: Path, steps: int = 2) -> Deployment:
    model = Branches(cases)
    with torch.random.fork_rng():
        size = sum(v.numel() for v in model(torch.ones(3)).values())
    g = torch.Generator().manual_seed(5)
    data = [((torch.randn(3, generator=g),), torch.rand(size, generator=g) + 0.5) for _ in range(steps)]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    return deploy(
        model,
        data[0][0],
        data[0][1],
        loss=weighted,
        optimizer=optimizer,
        data=data,
        out=folder,
        steps=steps,
        cores=8,
        l1="128M",
    )


def bits(project: Deployment, cores: int, steps: int = 2) -> dict[Any, bytes]:
    """What a team of this size records. Only main.c and net.c know the size: other objects are taken as they are."""
    record = project.folder / "build" / "record-again.bin"
    kept = [
        f"-obuild/host/{p}.o" for p in ("loops", "data", "weights", *(f"kernels/{k.stem}" for k in kernels(project)))
    ]
    settings = [f"CORES={cores}", "TRACE=1", f"STEPS={steps}"]
    subprocess.run(["make", "-s", "-C", str(project.folder), "build/host/train", *kept, *settings], check=True)
    program = project.folder / "build" / "host" / "train"
    subprocess.run([str(program)], env={**os.environ, "TL_RECORD": str(record)}, check=True, capture_output=True)
    trace = read_plan(project.folder)["trace"]
    return {key: values.tobytes() for key, values in read_record(record, trace).items()}


def kernels(project: Deployment) -> list[Path]:
    return sorted((project.folder / "kernels").glob("*.c"))


def test_the_table_is_long() -> None:
    assert len(CASES) >= 250


@pytest.mark.parametrize(("name", "cases"), by_group(A_PROJECT), ids=lambda v: v if isinstance(v, str) else "")
def test_operations_train_like_pytorch(name: str, cases: Sequence[Case], tmp_path: Path) -> None:
    project = deployed(cases, tmp_path / name)
    result = project.verify(cores=8)
    wrong = [(t.kind, t.name, t.rel_l2) for t in result.verdict.tensors if not t.passed]
    assert result.passed, wrong or result.verdict.missing
    trained = {t.name for t in result.verdict.tensors if t.kind == "gradient"}
    assert len(trained) > len(cases) / 2
    first = {k: v.tobytes() for k, v in result.computed.items()}
    for cores in (1, 3):
        found = bits(project, cores)
        assert [k for k in first if found[k] != first[k]] == [], f"{cores} cores give other bits"


def test_a_wrong_formula_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(C_FORM, "gauss_cdf", "tl_gauss_cdff({0}) * 1.00001f")
    cases = [c for c in CASES if c.name in ("GELU", "SiLU", "matmul")]
    verdict = deployed(cases, tmp_path / "wrong").verify().verdict
    failed = {(t.kind, t.name) for t in verdict.tensors if not t.passed}
    assert ("output", "GELU.0") in failed and ("gradient", "branches.GELU.p0") in failed
    assert not failed & {("output", "SiLU.0"), ("output", "matmul.0"), ("gradient", "branches.SiLU.p0")}
