"""The forward pass alone: what PyTorch's eval mode computes, with the weights and the bits of the training project."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from torch import nn
from torch.utils import _pytree as pytree

from tests.e2e.simulators import needs
from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.check.verify import verify
from trainlib_deployer.cli.main import cli
from trainlib_deployer.errors import UsageError
from trainlib_deployer.folder import read_plan
from trainlib_deployer.run.record import read_record
from trainlib_deployer.run.session import Session

torch.set_num_threads(1)
ROOT = Path(__file__).resolve().parents[2]


class Block(nn.Module):
    """Statistics, dropout, a shortcut, odd extents."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 7, 3, padding=1), nn.BatchNorm2d(7)
        self.again = nn.Conv2d(7, 7, 3, padding=1, groups=7)
        self.drop, self.slope = nn.Dropout(0.4), nn.RReLU()
        self.head = nn.Linear(7 * 3 * 2, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.conv(x)))
        y = nn.functional.max_pool2d(self.slope(self.again(y)) + y, 3)
        return self.head(self.drop(y.flatten(1)))  # type: ignore[no-any-return]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(12, 3, 19, dropout=0.2, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(x).mean(1))  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(5, 11, num_layers=2, dropout=0.3, batch_first=True), nn.Linear(11, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.gru(x)[0][:, -1])  # type: ignore[no-any-return]


class Plain(nn.Module):
    """Nothing that a mode changes."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(13, 17), nn.Linear(17, 3)
        self.register_buffer("scale", torch.rand(13) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.body(x * self.scale)))  # type: ignore[no-any-return]


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "block": (Block, (3, 3, 11, 7), 5),
    "attention": (Attention, (2, 7, 12), 3),
    "recurrent": (Recurrent, (3, 9, 5), 3),
    "plain": (Plain, (5, 13), 3),
}


def made(name: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    build, shape, classes = NETWORKS[name]
    module = build()
    for m in module.modules():
        if isinstance(m, nn.BatchNorm2d):
            assert m.running_mean is not None and m.running_var is not None
            m.running_mean.normal_()
            m.running_var.uniform_(0.5, 2.0)
    return module, torch.randn(shape), torch.randint(classes, shape[:1])


def training(name: str, out: Path, eval_mode: bool = False) -> Deployment:
    module, x, y = made(name)
    return deploy(module.eval() if eval_mode else module, x, y, optimizer=momentum, steps=2, out=out)


def momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def in_eval_mode(name: str, state: Any, x: torch.Tensor) -> torch.Tensor:
    module = made(name)[0].eval()
    module.load_state_dict(state)
    with torch.no_grad():
        return module.double()(x.double())  # type: ignore[no-any-return]


def names(op: Any) -> list[str]:
    return [v.tensor for v in op.writes]


def made_host(folder: Path, *variables: str, record: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = ["make", "-s", "-C", str(folder), "host", *variables]
    told = {**os.environ, **({"TL_RECORD": str(record)} if record else {})}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=told)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.view(torch.int32), b.view(torch.int32))


@pytest.mark.parametrize("name", NETWORKS)
def test_eval_mode_with_the_weights_and_bits_of_training(name: str, tmp_path: Path) -> None:
    module, x, y = made(name)
    modes = [m.training for m in module.modules()]
    twin = deploy(module, x, inference=True, steps=3, out=tmp_path / "twin")
    assert [m.training for m in module.modules()] == modes
    twin.verify().raise_if_failed()
    trained = training(name, tmp_path / "training")
    levels = [sum(level.used for level in d.plan.levels.values()) for d in (twin, trained)]
    assert levels[0] < levels[1]
    assert {op.phase for op in twin.plan.program.ops} == {"forward"}
    assert not any(t.endswith("gates") for op in twin.plan.program.ops if op.kind.name == "gru_fw" for t in names(op))
    for seed in range(3):
        trained.step(torch.randn_like(x) + seed, y)
    trained.session.save(tmp_path / "state")
    twin.session.load(tmp_path / "state")
    expected = in_eval_mode(name, trained.state_dict(), x)
    found = twin.predict(x).double()
    assert float((found - expected).norm() / expected.norm()) < 2e-6
    frozen = training(name, tmp_path / "frozen", eval_mode=True)
    frozen.load_state_dict(trained.state_dict())
    assert same_bits(frozen.predict(x), twin.predict(x))


@pytest.mark.parametrize("name", ["mlp", "resnet8", "encoder", "gru"])
def test_examples_as_they_are(name: str, tmp_path: Path) -> None:
    given = ["--model", f"{ROOT}/examples/{name}.py", "--inference", "--batch", "1", "--steps", "2", "--l2", "2M"]
    done = CliRunner().invoke(cli, [*given, "--out", str(tmp_path / "p"), "--run", "host"])
    assert done.exit_code == 0 and "PASS on host: 2 of 2" in done.output, done.output


def test_a_plain_network_needs_no_eval_mode(tmp_path: Path) -> None:
    module, x, _ = made("plain")
    twin = deploy(module, x, inference=True, out=tmp_path / "twin")
    assert same_bits(training("plain", tmp_path / "training").predict(x), twin.predict(x))


def weights(*words: object) -> Result:
    return CliRunner().invoke(cli, ["weights", *map(str, words)])


def test_weights_go_in_as_a_file_or_a_state(tmp_path: Path) -> None:
    module, x, y = made("block")
    folder = deploy(module, x, inference=True, out=tmp_path / "twin", steps=2).folder
    trained = training("block", tmp_path / "training")
    trained.step(x, y)
    trained.session.save(tmp_path / "saved.state")
    torch.save(trained.state_dict(), tmp_path / "weights.pt")
    expected = in_eval_mode("block", trained.state_dict(), x)
    judged = made_host(folder, "TRACE=0")
    assert judged.returncode == 0 and "PASS: 2 of 2 tensors" in judged.stdout  # every build checks the outputs
    loaded = made_host(folder, "TRACE=0", f"LOAD={tmp_path / 'saved.state'}", "CORES=3", record=tmp_path / "record")
    assert loaded.returncode == 0 and loaded.stdout == "DONE\n", loaded.stdout + loaded.stderr
    recorded = read_record(tmp_path / "record", read_plan(folder)["trace"])[0, "output", "output"]
    assert np.allclose(recorded, expected, rtol=1e-5, atol=1e-6)
    back = weights(folder, tmp_path / "saved.state", "--out", tmp_path / "back.pt")
    assert back.output.endswith("11 tensors\n")
    state = torch.load(tmp_path / "back.pt")
    assert all(torch.equal(state[n], v) for n, v in trained.state_dict().items() if not n.endswith("tracked"))
    refused = weights(folder, tmp_path / "saved.state", "--optimizer", tmp_path / "optimizer.pt")
    assert refused.exit_code == 2 and "inference alone" in refused.output
    for file in ("weights.pt", "saved.state"):
        before = Session(folder).predict(x).double()
        done = weights(folder, "--in", tmp_path / file)
        assert done.exit_code == 0, done.output
        found = Session(folder).predict(x).double()
        assert float((found - expected).norm() / expected.norm()) < 2e-6
        assert file == "saved.state" or float((before - expected).norm() / expected.norm()) > 1e-3
        assert "PASS: 2 of 2" in made_host(folder).stdout


def test_another_network_is_refused(tmp_path: Path) -> None:
    module, x, _ = made("plain")
    twin = deploy(module, x, inference=True, out=tmp_path / "twin")
    other = training("recurrent", tmp_path / "other")
    other.session.save(tmp_path / "state")
    with pytest.raises(UsageError, match="another network"):
        twin.session.load(tmp_path / "state")
    twin.session.save(tmp_path / "forward")
    with pytest.raises(UsageError, match="another network"):  # it has no optimizer's state
        training("plain", tmp_path / "training").session.load(tmp_path / "forward")
    with pytest.raises(UsageError, match="inference alone"):
        twin.step(x, x)


def net_file(folder: Path) -> Path:
    """Without target, loss and optimizer; a batch of 32."""
    text = """
import torch
from torch import nn
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(13, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Dropout(), nn.Linear(7, 3))
example_input = torch.randn(32, 13)
"""
    path = folder / "net.py"
    path.write_text(text)
    return path


def test_from_the_command_line_with_a_batch_of_its_own(tmp_path: Path) -> None:
    path, out = net_file(tmp_path), tmp_path / "twin"
    given = ["--model", str(path), "--inference", "--batch", "1", "--out", str(out), "--json", str(tmp_path / "v.json")]
    done = CliRunner().invoke(cli, [*given, "--run", "host"])
    assert done.exit_code == 0, done.output
    assert "forward alone" in done.output
    verdict = json.loads((tmp_path / "v.json").read_text())
    assert verdict["passed"] and verdict["losses"] == [] and {t["kind"] for t in verdict["tensors"]} == {"output"}
    assert read_plan(out)["interface"]["arguments"][0]["shape"] == [1, 13]
    assert "multiply-adds a forward pass" in CliRunner().invoke(cli, ["explain", str(out)]).output
    assert "One forward pass takes" in (out / "report.html").read_text()
    header = (out / "net.h").read_text()
    assert "net_forward" in header and "net_train_step" not in header and "LEARNING_RATE" not in header


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--batch", "1"], "goes with inference"),
        (["--inference", "--accumulate", "2"], "accumulates no gradients"),
        (["--inference", "--saved", "fp16"], "keeps nothing"),
    ],
)
def test_what_does_not_go_together(options: list[str], words: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["--model", str(net_file(tmp_path)), *options])
    assert done.exit_code == 2 and words in done.stderr


def test_a_wrong_output_is_found(tmp_path: Path) -> None:
    module, x, _ = made("plain")
    twin = deploy(module, x, inference=True, out=tmp_path / "twin")
    net = twin.folder / "loops.c"
    text = net.read_text()
    assert text.count("tl_tanhf(") == 1
    net.write_text(text.replace("tl_tanhf(", "1.01f * tl_tanhf("))
    assert not twin.verify().passed
    run = made_host(twin.folder)
    assert run.returncode and "output output differs from PyTorch" in run.stdout


def test_the_same_bits_on_the_emulated_cluster(tmp_path: Path) -> None:
    needs("qemu")
    module, x, _ = made("recurrent")
    twin = deploy(module, x, inference=True, steps=2, out=tmp_path / "twin")
    host, cluster = (verify(twin.folder, on=on, task=twin.task) for on in ("host", "qemu"))
    cluster.raise_if_failed()
    assert all(np.array_equal(host.computed[k].view(np.int32), v.view(np.int32)) for k, v in cluster.computed.items())
    assert pytree.tree_leaves(host.losses) == []


class Streaming(nn.Module):
    """A state that eval mode goes on with, and numbers drawn in eval mode, too."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(7, 5)
        self.register_buffer("mean", torch.zeros(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.dropout(self.fc(x), 0.3, training=True)
        with torch.no_grad():
            self.mean.mul_(0.9).add_(0.1 * y.mean(0))
        return y - self.mean


def test_states_and_random_numbers_of_eval_mode(tmp_path: Path) -> None:
    torch.manual_seed(2)
    twin = deploy(Streaming(), torch.randn(3, 7), inference=True, steps=4, out=tmp_path / "twin")
    result = twin.verify()
    result.raise_if_failed()
    assert {t.kind for t in result.verdict.tensors} == {"output", "state"}
    first = twin.predict(torch.ones(3, 7))
    assert not torch.equal(first, twin.predict(torch.ones(3, 7)))
    twin.reset()
    assert same_bits(first, twin.predict(torch.ones(3, 7)))
