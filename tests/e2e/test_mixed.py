"""Mixed precision: agrees with PyTorch that rounds at the same places, in the same bits everywhere; mistakes show."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from golden import compare
from tests.e2e.conftest import deploy_example
from tests.mixed_examples import blunt
from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.check.judge import judge
from trainlib_deployer.check.verify import verify
from trainlib_deployer.folder import read_plan
from trainlib_deployer.formats import DType
from trainlib_deployer.run.host import Host
from trainlib_deployer.run.record import read_record
from trainlib_deployer.run.witness import witnesses

STEPS = 2
Key = tuple[int, str, str]


class Mixed(nn.Module):
    """Odd shapes, convolutions of several kinds, norms, attention, a sum, and pools, which no half reaches."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 7, 3, padding=1, bias=False), nn.BatchNorm2d(7), nn.GELU())
        self.wide = nn.Conv2d(7, 7, 3, padding=1, groups=7)
        self.point = nn.Conv2d(7, 7, 1)
        self.pool = nn.MaxPool2d(2)
        self.norm = nn.LayerNorm(7)
        self.attention = nn.MultiheadAttention(7, 1, batch_first=True)
        self.head = nn.Linear(7, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        x = self.pool(x + nn.functional.silu(self.point(self.wide(x))))
        x = self.norm(x.flatten(2).transpose(1, 2))
        y: torch.Tensor = self.head((x + self.attention(x, x, x)[0]).mean(1))
        return y


def deployed(folder: Path, l1: str, keep: str | None = None) -> Deployment:
    torch.manual_seed(5)
    net = Mixed()
    data = [(torch.randn(3, 3, 13, 11), torch.randint(5, (3,))) for _ in range(STEPS)]
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.002)
    options: dict[str, Any] = {"cores": 8, "l1": l1, "l2": "400k", "steps": STEPS, "out": folder}
    return deploy(net, *data[0], optimizer=optimizer, data=data, dtype="mixed", keep=keep, **options)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    return deployed(tmp_path_factory.mktemp("mixed") / "net", "16k")


def results(folder: Path, cores: int, poison: bool = False) -> dict[Key, Any]:
    path = folder / "record.bin"
    Host(poison=poison).run(folder, STEPS, cores, path)
    return read_record(path, read_plan(folder)["trace"])


def bits(record: dict[Key, Any]) -> dict[Key, bytes]:
    return {key: value.tobytes() for key, value in record.items()}


def test_agrees_with_pytorch_and_the_same_bits_everywhere(project: Deployment, tmp_path: Path) -> None:
    plan = read_plan(project.folder)
    assert plan["dtype"] == "mixed" and sum(t["dtype"] == "F16" for t in plan["tensors"].values()) > 20
    project.verify().raise_if_failed()
    one = bits(results(project.folder, 1))
    assert len(one) > 60
    assert bits(results(project.folder, 3, poison=True)) == one
    large = deployed(tmp_path / "large", "4M")
    assert bits(results(large.folder, 8)) == one


def test_the_project_agrees_by_its_own_check(project: Deployment) -> None:
    """Without PyTorch; tensors of a few numbers that hang on rounding are not looked at."""
    command = ["make", "-s", "-C", project.folder, "host"]
    said = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    found = re.search(r"PASS: (\d+) of \1 tensors", said)
    assert found and int(found[1]) > 100, said


def test_a_deep_network_agrees_by_its_own_check(tmp_path: Path) -> None:
    """Fault: three runs of PyTorch took one branch each time, and the program the other."""
    made = deploy_example("resnet8", tmp_path / "net", steps=2, l1="64k", l2="64M", dtype="mixed")
    said = subprocess.run(["make", "-s", "-C", made.folder, "host"], check=False, capture_output=True, text=True).stdout
    assert re.search(r"PASS: (\d+) of \1 tensors", said), said


def test_layers_that_stay_float(tmp_path: Path) -> None:
    kept = deployed(tmp_path / "net", "1M", keep="fp32=attention,head")
    plan = read_plan(kept.folder)
    found = {t["dtype"] for t in plan["tensors"].values() if (t["layer"] or "").startswith(("attention", "head"))}
    assert found == {"F32"} and "F16" in {t["dtype"] for t in plan["tensors"].values()}
    kept.verify().raise_if_failed()
    verify(kept.folder).raise_if_failed()  # with the model that the project has


def test_every_planted_mistake_is_caught(project: Deployment) -> None:
    """On the record of a run: each gradient a twentieth larger, each parameter a ten-thousandth; one at a time."""
    computed = results(project.folder, 3)
    assert project.task is not None
    judged = judge(project.task, computed, STEPS, read_plan(project.folder)["trace"])
    assert judged.verdict.passed
    for kind, factor in (("gradient", 1.05), ("parameter", 1.0001)):
        for name in sorted({k[2] for k in computed if k[1] == kind}):
            wrong = {k: v * factor if k[1:] == (kind, name) else v for k, v in computed.items()}
            verdict = compare.compare(wrong, judged.exact, judged.singles, {}, least=judged.least)
            assert not verdict.passed, f"{kind} of {name} scaled by {factor}: not caught"


def test_rounding_towards_zero_is_caught(tmp_path: Path) -> None:
    """Of eight layers, where what each loses adds up to 2 to 2.7 times what may pass. In two or three it stays within
    that, or a little above, by chance."""
    torch.manual_seed(5)
    layers = [layer for _ in range(7) for layer in (nn.LazyLinear(29), nn.GELU())]
    net = nn.Sequential(*layers, nn.LazyLinear(5))
    x, labels = torch.randn(7, 23), torch.randint(5, (7,))
    net(x)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.002)
    made = deploy(net, x, labels, optimizer=optimizer, dtype="mixed", l1="16k", steps=STEPS, out=tmp_path / "net")
    made.verify().raise_if_failed()
    header = made.folder / "kernels" / "tl_half.h"
    text = header.read_text()
    assert " + 0xfffu + (size >> 13 & 1u)" in text
    header.write_text(text.replace(" + 0xfffu + (size >> 13 & 1u)", ""))
    assert not verify(made.folder, task=made.task).passed


def test_a_factor_within_the_step_is_caught(project: Deployment, tmp_path: Path) -> None:
    """Of what passes between two layers, where a reference that goes on with it might go along with the mistake."""
    folder = tmp_path / "net"
    shutil.copytree(project.folder, folder, ignore=shutil.ignore_patterns("build"))
    plan = read_plan(folder)
    halves = [w for w in witnesses(plan) if w.dtype is DType.F16 and plan["ops"][w.after]["phase"] == "backward"]
    assert len(halves) > 5
    planted = halves[len(halves) // 2]
    source = (folder / "net.c").read_text()
    behind = "void next(int position)\n{\n    tl_barrier();\n"
    assert source.count(behind) == 1
    element = f"((uint16_t *)({planted.place}))[i]"
    lines = (
        f"    if (tl_core_id() == 0 && position == {planted.after})",
        f"        for (int i = 0; i < {planted.nbytes // 2}; i++)",
        f"            {element} = tl_to_half(1.05f * tl_from_half({element}));",
        "    tl_barrier();",
        "",
    )
    text = '#include "tl_half.h"\n' + source.replace(behind, behind + "\n".join(lines))
    (folder / "net.c").write_text(text)
    found = verify(folder, steps=1, task=project.task).verdict
    wrong = {t.name for t in found.tensors if t.kind == "gradient" and not t.passed}
    assert 0 < len(wrong) < len({t.name for t in found.tensors if t.kind == "gradient"})
    assert all(t.passed for t in found.tensors if t.kind in ("loss", "output"))


class Cast(nn.Module):
    """A decorator, and a region for a device that is not here."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(13, 9), nn.Linear(9, 4)

    @torch.autocast("cpu", dtype=torch.bfloat16)
    def inner(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.a(x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.inner(x)
        with torch.autocast("cuda", dtype=torch.float16):
            y: torch.Tensor = self.b(h)
        return y


def test_autocast_in_the_users_code_is_mixed_precision(tmp_path: Path) -> None:
    torch.manual_seed(3)
    data = [(torch.randn(5, 13), torch.randint(4, (5,))) for _ in range(2)]
    said: list[str] = []
    asked: dict[str, Any] = {"keep": "fp32=b", "loss_scale": 64}
    made = deploy(Cast(), *data[0], data=data, steps=2, out=tmp_path / "net", say=said.append, **asked)
    plan = read_plan(made.folder)
    assert plan["dtype"] == "mixed" and "F16" in {t["dtype"] for t in plan["tensors"].values()}
    assert any("torch.autocast" in line and "--dtype mixed" in line for line in said)
    verify(made.folder).raise_if_failed()
    assert not torch.is_autocast_enabled("cpu")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("name", ["trainlib_default", "tcn", "dscnn"])
def test_mistakes_of_a_twentieth_show_in_every_gradient_of_an_example(name: str, tmp_path: Path) -> None:
    """All of them: make mixed-examples."""
    run = deploy_example(name, tmp_path / name, steps=2, l1="64k", l2="64M", dtype="mixed").verify()
    run.raise_if_failed()
    assert not blunt(run)


def test_long_sums_go_on_from_tile_to_tile(tmp_path: Path) -> None:
    """Whole ones would not lie in L1, and their product would read its operands where they are."""
    module = nn.Sequential(nn.Linear(3, 4099), nn.ReLU(), nn.Linear(4099, 9), nn.ReLU(), nn.Linear(9, 5))
    x, y = torch.randn(3, 3), torch.randn(3, 5)
    deploy(module, x, y, loss=nn.MSELoss(), l2="8M", dtype="mixed", out=tmp_path / "net")
    found = read_plan(tmp_path / "net")
    products = [op for op in found["ops"] if op["macs"]]  # some with the loop that rounds what they make
    assert len(products) == 8
    assert not any(op["direct"] for op in products if not op["name"].startswith("4."))  # whose sums are short
