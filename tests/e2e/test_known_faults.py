"""Faults that programs of this kind have had: each test here fails when its fault is planted."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

from golden import compare
from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.check.judge import judge
from trainlib_deployer.check.verify import verify
from trainlib_deployer.cli.main import cli
from trainlib_deployer.errors import ToolMissing, VerificationFailed
from trainlib_deployer.folder import read_plan
from trainlib_deployer.run.host import Host
from trainlib_deployer.run.qemu import Qemu
from trainlib_deployer.run.record import read_record

torch.set_num_threads(1)
STEPS = 2
CLOSE = 2e-5
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def random(*shape: int, seed: int = 7) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def labels(count: int, classes: int, seed: int = 8) -> torch.Tensor:
    return torch.randint(classes, (count,), generator=torch.Generator().manual_seed(seed))


def shaken(model: nn.Module) -> nn.Module:
    """Parameters far from the special values of initialisation (ones, zeros)."""
    g = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=g) * 0.4 + 0.1)
    return model


def deployed(model: nn.Module, x: torch.Tensor, y: torch.Tensor, loss: Loss, out: Path, **options: Any) -> Deployment:
    """The same example in every step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = [(x, y)] * STEPS
    options = {"cores": 8, "l1": "64k", "l2": "4M", **options}
    return deploy(model, x, y, loss=loss, optimizer=optimizer, data=data, out=out, steps=STEPS, **options)


def trained(
    model: nn.Module, x: torch.Tensor, y: torch.Tensor, loss: Loss, out: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """First-step tensors of the C program and of plain float64 autograd, which shares no code with our own checks."""
    reference = copy.deepcopy(model).double()
    result = deployed(model, x, y, loss, out).verify(cores=3)
    result.raise_if_failed()
    output = reference(x.double())
    value = loss(output, y.double() if y.is_floating_point() else y)
    value.backward()
    exact = {"output/output": output, "loss/loss": value}
    exact |= {f"gradient/{n}": p.grad for n, p in reference.named_parameters()}
    exact |= {f"parameter/{n}": p - 0.05 * p.grad for n, p in reference.named_parameters() if p.grad is not None}
    computed = {f"{kind}/{name}": v for (step, kind, name), v in result.computed.items() if step == 0}
    return computed, {k: v.detach().numpy() for k, v in exact.items()}


def assert_same(computed: dict[str, Any], exact: dict[str, Any]) -> None:
    assert exact
    for name, expected in exact.items():
        error = np.linalg.norm(computed[name] - expected) / max(np.linalg.norm(expected), 1e-12)
        assert error < CLOSE, f"{name}: relative error {error:.3g}"


def check(model: nn.Module, x: torch.Tensor, y: torch.Tensor, out: Path, loss: Loss | None = None) -> None:
    loss = loss or (nn.MSELoss() if y.is_floating_point() else nn.CrossEntropyLoss())
    assert_same(*trained(shaken(model), x, y, loss, out))


@pytest.mark.parametrize(("ci", "co"), [(5, 7), (17, 2)])
def test_pointwise_input_gradient_with_unequal_channels(ci: int, co: int, tmp_path: Path) -> None:
    """Fault: the input gradient of a 1x1 convolution takes the number of output channels for that of input channels."""
    model = nn.Sequential(nn.Conv2d(2, ci, 3), nn.Conv2d(ci, co, 1))
    check(model, random(2, 2, 6, 5), random(2, co, 4, 3, seed=2), tmp_path / "p")


def odd_network() -> nn.Module:
    """No extent divides by a block of a kernel or by the number of cores."""
    return nn.Sequential(
        nn.Conv2d(3, 7, (3, 2), stride=(2, 1)),
        nn.BatchNorm2d(7),
        nn.Conv2d(7, 7, 3, padding=1, groups=7),
        nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(7, 11, 1),
        nn.AvgPool2d(2, ceil_mode=True),
        nn.Flatten(),
        nn.Linear(33, 5),
    )


def test_nothing_is_written_out_of_bounds_when_sizes_do_not_divide(tmp_path: Path) -> None:
    """Fault: the last core or the last tile writes a full block where only a part of it is left."""
    model, x = shaken(odd_network()), random(3, 3, 7, 12)
    project = deployed(model, x, labels(3, 5), nn.CrossEntropyLoss(), tmp_path / "p").folder
    records = []
    for sanitize, team in (("address,undefined", 7), ("", 1)):
        record = tmp_path / f"record{team}.bin"
        Host(sanitize).run(project, STEPS, team, record)
        records.append(record.read_bytes())
    assert records[0]
    assert records[0] == records[1]


def test_bias_counts_once(tmp_path: Path) -> None:
    """Fault: the bias is dropped, added once for each block of a long sum, or its gradient misses the update."""
    layers = [nn.Conv2d(70, 130, 3), nn.Conv2d(130, 130, 2, groups=130), nn.Conv2d(130, 35, 1)]
    model = shaken(nn.Sequential(*layers, nn.Flatten(), nn.Linear(140, 5)))
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.mul_(10 if name.endswith("bias") else 0.2)
    computed, exact = trained(model, random(1, 70, 5, 5), random(1, 5, seed=2), nn.MSELoss(), tmp_path / "p")
    assert_same(computed, exact)
    assert sum(name.endswith("bias") for name in exact) == 8


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_stride_and_padding_in_gradients(groups: int, tmp_path: Path) -> None:
    """Fault: gradients are those of a convolution with stride 1 and no padding."""
    model = nn.Sequential(
        nn.Conv2d(2, 4, 1),
        nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=groups),
        nn.Conv2d(8, 4, (3, 2), stride=(1, 3), padding=(2, 0), groups=groups),
        nn.Conv2d(4, 4, (2, 3), stride=(3, 2), padding=(1, 2), dilation=(2, 1), groups=groups),
    )
    x = random(2, 2, 13, 17)
    check(model, x, torch.zeros_like(model(x)), tmp_path / "p")


def critical_path(folder: Path, cores: int) -> int:
    """Instructions of the slowest core between barriers, on the emulated cluster."""
    counts = Qemu().run(folder, 1, cores, folder / "record.bin").counts
    assert "critical" in counts, "the emulator counted nothing"
    return int(str(counts["critical"]))


SHARED = {
    "depthwise": lambda: (
        nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 16, 3, 2, 1, groups=16)),
        random(1, 16, 20, 20),
    ),
    "linear at batch 1": lambda: (nn.Sequential(nn.Linear(256, 192), nn.Linear(192, 160)), random(1, 256)),
}


@pytest.mark.parametrize("kind", SHARED)
def test_cores_share_the_work(kind: str, tmp_path: Path) -> None:
    """Fault: every core computes depthwise gradients in full; one core alone does a linear layer at batch 1."""
    try:
        Qemu().check_tools()
    except ToolMissing as missing:
        pytest.skip(f"not installed: {missing}")
    model, x = SHARED[kind]()
    y = torch.zeros_like(model(x))
    folder = deployed(shaken(model), x, y, nn.MSELoss(), tmp_path / "p", l1="8M").folder
    alone, together = critical_path(folder, 1), critical_path(folder, 8)
    assert alone > 100_000, "too little work to judge"
    assert alone >= 4 * together, f"{alone:,} instructions on one core, {together:,} on eight"


def test_layer_norm_gradient_has_its_scale_inside_the_sums(tmp_path: Path) -> None:
    """Fault: dL/dx sums the output's gradient and multiplies by the scale afterwards; right only for equal scales."""
    model = nn.Sequential(nn.Linear(9, 11), nn.LayerNorm(11), nn.Linear(11, 4))
    check(model, random(5, 9), labels(5, 4), tmp_path / "p")


@pytest.mark.parametrize(("reduction", "shape"), [("mean", (6,)), ("sum", (6,)), ("mean", (2, 3, 4))])
def test_cross_entropy_is_divided_by_the_batch_once(reduction: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    """Fault: the loss divides by the batch, and its gradient or the update divides again."""
    classes = 7
    layer: nn.Module = nn.Linear(5, classes)
    x, y = random(shape[0], 5), labels(shape[0], classes)
    if len(shape) > 1:
        layer = nn.Conv2d(5, classes, 1)
        x, y = random(shape[0], 5, *shape[1:]), labels(int(np.prod(shape)), classes).reshape(shape)
    check(nn.Sequential(layer), x, y, tmp_path / "p", nn.CrossEntropyLoss(reduction=reduction))


CURVES = (
    nn.Tanh(),
    nn.Sigmoid(),
    nn.GELU(),
    nn.GELU(approximate="tanh"),
    nn.SiLU(),
    nn.Softplus(),
    nn.ELU(),
    nn.Mish(),
    nn.Softmax(-1),
    nn.LogSoftmax(-1),
)


class EveryCurve(nn.Module):
    """The curves side by side, each behind a layer of its own, so that a fault in one shows in its gradient alone."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs = nn.ModuleList(nn.Linear(6, 13) for _ in CURVES)
        self.curves = nn.ModuleList(CURVES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([c(layer(x)) for layer, c in zip(self.inputs, self.curves, strict=True)], 1)


def test_forward_and_backward_belong_to_the_same_function(tmp_path: Path) -> None:
    """Fault: the forward is a fast approximation, the backward the derivative of the exact function, or the reverse."""
    model = shaken(EveryCurve())
    with torch.no_grad():
        for layer in model.inputs:
            layer.weight.mul_(3)  # arguments from -10 to 10
    y = random(8, 13 * len(CURVES), seed=2)
    computed, exact = trained(model, random(8, 6), y, nn.MSELoss(), tmp_path / "p")
    assert_same(computed, exact)


class ChangesItsInput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = x.square()
        x[:, 1] = 0.25
        x.mul_(0.5).add_(self.fc.bias.detach()[0])
        return self.fc(x) + self.fc(before)  # type: ignore[no-any-return]


def test_a_sample_comes_back_as_it_was(tmp_path: Path) -> None:
    """Fault: what the forward writes into its input stays there for the next step, here or in the reference."""
    given = random(4, 5)
    model = shaken(ChangesItsInput())
    assert_same(*trained(model, given, labels(4, 3), nn.CrossEntropyLoss(), tmp_path / "p"))
    assert torch.equal(given, random(4, 5))


# ---- checks that pass what they should not


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = shaken(nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3)))
    return deployed(
        model, random(4, 5), labels(4, 3), nn.CrossEntropyLoss(), tmp_path_factory.mktemp("net") / "p"
    ).folder


def spoiled(project: Path, change: Callable[[dict[Any, Any]], dict[Any, Any]]) -> compare.Verdict:
    """The verdict on a record after a change to it; without the change it passes."""
    from golden import load

    plan = read_plan(project)
    record = project / "record.bin"
    Host().run(project, STEPS, 3, record)
    computed = read_record(record, plan["trace"])
    task = load.load_task(project / "model")
    assert judge(task, computed, STEPS, plan["trace"]).verdict.passed
    return judge(task, change(computed), STEPS, plan["trace"]).verdict


@pytest.mark.parametrize("kind", ["loss", "output", "gradient", "parameter"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_not_a_number_fails(value: float, kind: str, project: Path) -> None:
    """Fault: a comparison with NaN is false, so 'error > tolerance' lets it pass."""

    def change(computed: dict[Any, Any]) -> dict[Any, Any]:
        return {k: with_first(v, value) if k[:2] == (1, kind) else v for k, v in computed.items()}

    assert not spoiled(project, change).passed


def with_first(values: Any, value: float) -> Any:
    values = np.array(values)
    values.reshape(-1)[0] = value
    return values


@pytest.mark.parametrize("name", ["0.weight", "0.bias", "2.weight", "2.bias"])
def test_zero_gradient_fails(name: str, project: Path) -> None:
    """Fault: an absolute tolerance passes gradients that are zero, because gradients are small."""
    verdict = spoiled(project, lambda c: {k: v * 0 if k[1:] == ("gradient", name) else v for k, v in c.items()})
    assert [t.name for t in verdict.tensors if not t.passed] == [name] * STEPS


def test_nothing_compared_fails(project: Path) -> None:
    """Fault: '0 of 0 tensors differ' passes."""
    assert not spoiled(project, lambda c: {}).passed
    assert not compare.compare({}, {}, [{}], {}).passed


@pytest.mark.parametrize("lost", [(0, "loss", "loss"), (1, "gradient", "2.bias"), (1, "parameter", "0.weight")])
def test_missing_tensor_fails(lost: Any, project: Path) -> None:
    """Fault: only what both sides have is compared."""
    verdict = spoiled(project, lambda c: {k: v for k, v in c.items() if k != lost})
    assert not verdict.passed
    assert lost in verdict.missing


IDLE = """\
#include "net.h"
#include <stdio.h>
void net_trace(int tensor, const void *data, size_t bytes)
{
    (void)tensor, (void)data, (void)bytes;
}
int main(void)
{
    puts("%s");
    return 0;
}
"""


@pytest.mark.parametrize("words", ["", "PASS"])
def test_program_that_only_returns_zero_fails(words: str, tmp_path: Path) -> None:
    """Fault: the check is the program's own exit code, or a word in its output."""
    model = shaken(nn.Sequential(nn.Linear(5, 3)))
    folder = deployed(model, random(4, 5), labels(4, 3), nn.CrossEntropyLoss(), tmp_path / "p").folder
    (folder / "main.c").write_text(IDLE % words)
    result = verify(folder)
    assert not result.passed
    with pytest.raises(VerificationFailed, match="nothing to compare"):
        result.raise_if_failed()
    run = CliRunner().invoke(cli, ["verify", str(folder)])
    assert run.exit_code == 5
    assert "PASS" not in run.stdout


NAMES = "lr step stacks pipe input target loss output scratch arena_l2 net_l2 main x F32 L1 TILE PLAN_CORES".split()


class Namesakes(nn.Module):
    """Parameters and buffers that are called as the generated project calls things of its own."""

    def __init__(self) -> None:
        super().__init__()
        for i, name in enumerate(NAMES):
            setattr(self, name, nn.Parameter(random(5, seed=i)))
        self.register_buffer("step_number", random(5, seed=50))
        self.dropout = nn.Dropout(0.2)
        self.dropout.key = nn.Parameter(random(5, seed=51))
        self.init = nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        for p in self.parameters(recurse=False):
            x = x * (1 + 0.1 * p)
        y = self.init(self.dropout(x) + self.dropout.key + self.step_number)
        return {"init": y, "profile": y.abs()}


def test_names_that_the_project_uses_itself(tmp_path: Path) -> None:
    def loss(output: Any, target: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(output["init"], target)

    found = deployed(Namesakes(), random(4, 5), labels(4, 3), loss, tmp_path / "out").verify()
    found.raise_if_failed()
    assert {t.name for t in found.verdict.tensors if t.kind == "gradient"} >= {*NAMES, "dropout.key", "init.weight"}
