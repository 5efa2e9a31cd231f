"""bfloat16 in the place of halves: agrees with PyTorch that rounds so, in the same bits everywhere, where a machine's
record says that it has it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from golden import compare
from tests.e2e.conftest import deploy_example
from tests.e2e.simulators import needs
from tests.e2e.test_mixed import STEPS, Mixed, bits, results
from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.check.judge import judge
from trainlib_deployer.errors import UsageError
from trainlib_deployer.folder import read_plan
from trainlib_deployer.machine.machine import Machine
from trainlib_deployer.machine.targets import TARGETS, resolve

CHIP = "robin"


@pytest.fixture(scope="module", autouse=True)
def robin() -> Iterator[Machine]:
    """A cluster whose record says that it has it; so do its instructions of halves, which are not used."""
    chip = replace(resolve(cores=8, l1="16k", l2="400k"), name=CHIP, bf16=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TARGETS, CHIP, chip)
        yield chip


def deployed(folder: Path, l1: str | None = None) -> Deployment:
    torch.manual_seed(5)
    net = Mixed()
    data = [(torch.randn(3, 3, 13, 11), torch.randint(5, (3,))) for _ in range(STEPS)]
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.002)
    options: dict[str, Any] = {"target": CHIP, "l1": l1, "steps": STEPS, "out": folder}
    return deploy(net, *data[0], optimizer=optimizer, data=data, dtype="bf16", **options)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, robin: Machine) -> Deployment:
    return deployed(tmp_path_factory.mktemp("bf16") / "net")


def test_agrees_with_pytorch_and_the_same_bits_everywhere(project: Deployment, tmp_path: Path) -> None:
    plan = read_plan(project.folder)
    types = [t["dtype"] for t in plan["tensors"].values()]
    assert plan["dtype"] == "bf16" and types.count("BF16") > 20 and "F16" not in types
    kernels = {name for op in plan["ops"] for name in op["kernels"]}
    assert any(name.endswith("_bf16") for name in kernels) and not any(name.endswith("_f16") for name in kernels)
    assert not any("winograd" in name for name in kernels)
    project.verify().raise_if_failed()
    one = bits(results(project.folder, 1))
    assert len(one) > 60
    assert bits(results(project.folder, 3)) == one
    assert bits(results(project.folder, 5, poison=True)) == one
    large = deployed(tmp_path / "large", "4M")
    assert bits(results(large.folder, 8)) == one


def test_the_same_on_the_emulated_cluster(project: Deployment) -> None:
    needs("qemu")
    project.verify(on="qemu").raise_if_failed()


@pytest.mark.parametrize("name", ["resnet8", "dscnn", "gru", "vit"])
def test_examples_agree_with_pytorch(name: str, tmp_path: Path) -> None:
    made = deploy_example(name, tmp_path / name, steps=1, target=CHIP, l1="64k", l2="8M", dtype="bf16")
    made.verify().raise_if_failed()


def test_a_project_reads_its_own_gradients_as_bfloats(tmp_path: Path) -> None:
    """Fault: the check of a project took all halves for IEEE ones, of which gradients at batch 1 may be some."""
    folder = deploy_example("mlp", tmp_path / "mlp", steps=2, target=CHIP, l1="64k", l2="8M", dtype="bf16").folder
    own = subprocess.run(["make", "-s", "-C", folder, "host"], check=False, capture_output=True, text=True).stdout
    assert "PASS: 28 of 28 tensors agree with PyTorch" in own


def test_planted_mistakes_are_caught(project: Deployment) -> None:
    """Eight bits grant eight times what eleven do: a gradient that is a third larger is told, and a parameter that is a
    ten-thousandth larger, as ever."""
    computed = results(project.folder, 3)
    assert project.task is not None
    judged = judge(project.task, computed, STEPS, read_plan(project.folder)["trace"])
    assert judged.verdict.passed
    for kind, factor in (("gradient", 1.33), ("parameter", 1.0001)):
        for name in sorted({k[2] for k in computed if k[1] == kind}):
            wrong = {k: v * factor if k[1:] == (kind, name) else v for k, v in computed.items()}
            verdict = compare.compare(wrong, judged.exact, judged.singles, {}, least=judged.least)
            assert not verdict.passed, f"{kind} of {name} scaled by {factor}: not caught"


@pytest.mark.parametrize("target", ["pulp-open", None])
def test_a_machine_that_is_not_known_to_have_it_refuses(target: str | None, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not say that it adds up products of bf16") as refused:
        deploy(nn.Linear(3, 2), torch.randn(2, 3), torch.randn(2, 2), dtype="bf16", target=target, out=tmp_path / "n")
    assert "--target generic" in refused.value.remedy


class Asking(nn.Module):
    """A region and conversions."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(13, 9), nn.Linear(9, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = torch.relu(self.a(x.bfloat16()))
        y: torch.Tensor = self.b(h.to(torch.bfloat16)).float()
        return y


def test_what_the_users_code_asks_for_is_honoured(tmp_path: Path) -> None:
    torch.manual_seed(3)
    data = [(torch.randn(5, 13), torch.randint(4, (5,))) for _ in range(2)]
    made = deploy(Asking(), *data[0], data=data, steps=2, out=tmp_path / "net", dtype="bf16", target="generic")
    assert "BF16" in {t["dtype"] for t in read_plan(made.folder)["tensors"].values()}
    made.verify().raise_if_failed()
