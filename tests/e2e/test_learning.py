"""Learning from files of examples: as PyTorch does it, interrupted, on other machines."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

from golden.examples import HEADER, Examples, Layout
from golden.fit import Fitted, How, fit
from golden.load import load_task
from tests.e2e.simulators import needs
from trainlib_deployer.cli.main import cli
from trainlib_deployer.state.dumps import read_dump
from trainlib_deployer.state.trained import Known, module_state

torch.set_num_threads(1)
NET = """\
import torch
from torch import nn
from torch.utils.data import TensorDataset

torch.manual_seed(2)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(7, 13, bias=False), nn.BatchNorm1d(13), nn.ReLU(), nn.Dropout(0.2))
        self.head = nn.Linear(13, 3)

    def forward(self, x):
        return self.head(self.body(x))


model = Net()
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
x = torch.randn(80, 7)
y = (x @ torch.randn(7, 3) + 0.5 * torch.randn(80, 3)).argmax(1)
data = TensorDataset(x[:53], y[:53])
held_out = TensorDataset(x[53:], y[53:])
example_input, example_target = x[:5], y[:5]
"""
METRICS = """

def near(output, target):
    return (output - 0.5 * target).abs().clamp(max=1).mean()


metrics = {
    "near": near,
    "share near": lambda output, target: ((output - 0.5 * target).abs() < 0.2).float().mean(),
    "first": lambda output, target: output[0, 0],
}
"""
ROOM = "as CORES: the plan has room for 1 to 8 of them; deploy with --cores for another number"
LINE = re.compile(r"epoch (\d+): loss ([\d.]+), held out ([\d.]+), accuracy ([\d.]+)")


def run(*words: object) -> None:
    done = CliRunner().invoke(cli, list(map(str, words)))
    assert done.exit_code == 0, done.output


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("learning")
    (place / "net.py").write_text(NET)
    run("data", place / "net.py", "--out", place / "train.bin")
    run("data", f"{place / 'net.py'}:held_out", "--out", place / "test.bin")
    run(*deployment(place), "--evaluate", "--batch", 3, "--out", place / "p")
    return place / "p"


def deployment(place: Path) -> tuple[object, ...]:
    return "--model", place / "net.py", "--cores", 8, "--l1", "64k", "--steps", 1, "--accumulate", 2


def make(project: Path, machine: str, *variables: str) -> str:
    command = ["make", "-s", "-C", str(project), machine, "DATA=../train.bin", *variables]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False).stdout


def reference(project: Path, how: How) -> Fitted:
    task = load_task(project / "model")
    files = (project.parent / name for name in ("train.bin", "test.bin"))
    train, test = (Examples.read(f, task.layout) for f in files)
    return fit(task, train, test, how, torch.float64)


@pytest.mark.parametrize("variables", ["EPOCHS=4 SEED=3", "EPOCHS=30 PATIENCE=2", "EPOCHS=3 STEPS=13 SHUFFLE=0"])
def test_as_pytorch_does_it(variables: str, project: Path) -> None:
    """Odd batches, two to an update, three examples left over; evaluated in batches of three, as after model.eval()."""
    given = {k: int(v) for k, v in (word.split("=") for word in variables.split())}
    how = How(
        given["EPOCHS"], given.get("STEPS", 0), given.get("SEED", 0), given.get("PATIENCE", 0), "SHUFFLE" in given
    )
    wanted = reference(project, how)
    said = make(project, "host", "HELD_OUT=../test.bin", "SAVE=../learned", "BEST=../best", *variables.split())
    found = [tuple(map(float, line)) for line in LINE.findall(said)]
    assert len(found) == len(wanted.epochs) == len(said.splitlines()) > 1, said
    assert "PATIENCE" not in given or len(found) < 20, "it ends early"
    for line, e in zip(found, wanted.epochs, strict=True):
        assert e.held_out is not None
        assert line == pytest.approx((e.number, e.loss, e.held_out, e.metrics["accuracy"]), abs=2e-5)
    lowest = max(e.number for e in wanted.epochs if e.best)
    assert lowest == min(wanted.epochs, key=lambda e: e.held_out or 0).number
    ended, best = ((project.parent / name).read_bytes() for name in ("learned", "best"))
    assert (best == ended) == (lowest == len(wanted.epochs))
    known = Known(project)
    learned = module_state(known, read_dump(known.layout, project.parent / "learned"))
    for name, value in wanted.state.items():
        close = torch.allclose(learned[name].double(), value.double(), rtol=1e-4, atol=1e-5)
        assert close or name.endswith("num_batches_tracked"), name


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ("DATA=d PATIENCE=2", "PATIENCE needs HELD_OUT=file"),
        ("DATA=d BEST=b", "BEST needs HELD_OUT=file"),
        ("DATA= HELD_OUT=h EPOCHS=2", "HELD_OUT EPOCHS needs DATA=file"),
        ("DATA=d EPOCHS=-1", "EPOCHS=-1 is no natural number"),
        ("DATA=d EPOCHS=abc", "EPOCHS=abc is no natural number"),
        ("DATA=d STEPS=1.5", "STEPS=1.5 is no natural number"),
        ("DATA=d HELD_OUT=h PATIENCE=", "PATIENCE= is no natural number"),
        ("DATA=d SEED=0x1", "SEED=0x1 is no natural number"),
        *((f"CORES={n}", f"{n} {ROOM}") for n in ("99", "9", "0", "two")),
    ],
)
def test_variables_that_make_no_sense(variables: str, words: str, project: Path) -> None:
    command = ["make", "-s", "-C", str(project), "host", *variables.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and done.stdout == "", done.stdout
    [line] = done.stderr.splitlines()
    assert line.endswith(f"*** {words}.  Stop."), line


def test_patience_without_an_evaluation(project: Path) -> None:
    """Fault: epochs counted against it that nothing was evaluated after."""
    task = load_task(project / "model")
    train = Examples.read(project.parent / "train.bin", task.layout)
    assert len(fit(task, train, None, How(epochs=3, patience=1)).epochs) == 3


def test_interrupted_and_elsewhere(project: Path) -> None:
    """In the middle of an epoch, in memory full of NaNs, on the emulated cluster: the same bits."""
    make(project, "host", "EPOCHS=2", "SAVE=../whole")
    make(project, "host", "EPOCHS=2", "STEPS=7", "SAVE=../part", "CORES=3")
    make(project, "host", "EPOCHS=2", "LOAD=../part", "SAVE=../rest")
    whole = (project.parent / "whole").read_bytes()
    assert (project.parent / "part").read_bytes() != whole == (project.parent / "rest").read_bytes()
    make(project, "host", "EPOCHS=2", "POISON=1", "SAVE=../poisoned")
    assert (project.parent / "poisoned").read_bytes() == whole
    needs("qemu")
    here = make(project, "host", "HELD_OUT=../test.bin", "STEPS=6", "SAVE=../here")
    there = make(project, "qemu", "HELD_OUT=../test.bin", "STEPS=6", "SAVE=../there")
    assert there.startswith(here) and here.startswith("epoch 1: loss ")
    assert (project.parent / "here").read_bytes() == (project.parent / "there").read_bytes()


def test_only_what_evaluates_so_takes_held_out_examples(project: Path) -> None:
    """Fault: losses with dropout and a sample's own statistics were told as those of the examples."""
    place = project.parent
    run(*deployment(place), "--out", place / "as_it_trains")
    command = ["make", "-s", "-C", str(place / "as_it_trains"), "host", "DATA=../train.bin", "HELD_OUT=../test.bin"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and done.stdout == "", done.stdout
    assert done.stderr.splitlines()[-1].endswith("not what model.eval() gives: deploy with --evaluate.  Stop.")


def test_evaluated_as_in_eval_mode(project: Path) -> None:
    """Statistics frozen, no dropout, one example at a time, so that none is left over."""
    place = project.parent
    make(project, "host", "EPOCHS=3", "SAVE=../three")
    run("weights", project, place / "three", "--out", place / "three.pt")
    run("--model", place / "net.py", "--inference", "--batch", 1, "--cores", 8, "--l1", "64k", "--out", place / "run")
    run("weights", place / "run", "--in", place / "three.pt")
    names: dict[str, Any] = {}
    exec(NET, names)
    model = names["model"].eval()
    model.load_state_dict(torch.load(place / "three.pt"))
    x, y = names["held_out"].tensors
    wanted = float((model(x).argmax(1) == y).float().mean())
    assert make(place / "run", "host", "DATA=../test.bin") == f"accuracy {wanted:.5f} of 27 examples\n"
    model_and_batch = ("--model", place / "net.py", "--inference", "--evaluate", "--batch", 9)
    run(*model_and_batch, "--cores", 8, "--l1", "64k", "--out", place / "told")
    make(place / "told", "host", "LOAD=../three")
    told = make(place / "told", "host", "DATA=../test.bin", "LOAD=../three")
    loss = float(nn.functional.cross_entropy(model(x), y))
    assert told == f"loss {loss:.5f}, accuracy {wanted:.5f} of 27 examples\n"


def test_what_is_no_data_for_this_network(project: Path) -> None:
    place = project.parent
    layout = Layout.of(torch.zeros(5, 7), torch.zeros(5, dtype=torch.int64))
    whole = (place / "train.bin").read_bytes()
    label = bytearray(whole[HEADER.size :])
    label[28:32] = np.int32(3).tobytes()
    images = {
        "learning: a label is no class": layout.header(53, crc32(label)) + label,
        "../wrong: damaged": whole[:-1],
        "../wrong: written for inputs and targets of other shapes or types": whole[:8]
        + Layout.of(torch.zeros(5, 7), torch.zeros(5)).header(53, crc32(whole[HEADER.size :]))[8:]
        + whole[HEADER.size :],
        "../wrong: no examples are there": b"x" * 60,
        "../wrong: fewer examples than a step takes": layout.header(4, crc32(label[:128])) + label[:128],
    }
    for words, image in images.items():
        (place / "wrong").write_bytes(image)
        assert make(project, "host", "DATA=../wrong") == f"FAULT: {words}\n"
    absent = "FAULT: ../absent: there is no such file, seen from the project's folder\n"
    assert make(project, "host", "DATA=../absent") == absent


def test_a_schedule_of_rates_and_momenta(project: Path, tmp_path: Path) -> None:
    """It covers as many updates as it was deployed for; more are refused before the first of them."""
    net = NET.replace("Adam(model.parameters(), lr=0.05)", "SGD(model.parameters(), lr=0.1, momentum=0.9)")
    net += "scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.5, total_steps=30)\n"
    (tmp_path / "net.py").write_text(net)
    for name in ("train.bin", "test.bin"):
        (tmp_path / name).write_bytes((project.parent / name).read_bytes())
    words = ("--cores", 8, "--l1", "64k", "--steps", 2, "--updates", 11, "--evaluate", "--out", tmp_path / "p")
    run("--model", tmp_path / "net.py", *words)
    wanted = reference(tmp_path / "p", How(1)).epochs[0]
    fault = make(tmp_path / "p", "host", "HELD_OUT=../test.bin", "EPOCHS=2")
    said = make(tmp_path / "p", "host", "HELD_OUT=../test.bin", "EPOCHS=2", "STEPS=11", "SAVE=../learned")
    assert (tmp_path / "learned").exists()
    line, _ = said.splitlines()
    loss = float(LINE.findall(line)[0][1])
    assert loss == pytest.approx(wanted.loss, abs=2e-5)
    words = "the schedule of learning rates ends before the training: deploy with --updates N for all of it"
    assert fault == f"FAULT: learning: {words}\n"


def test_metrics_of_ones_own(project: Path, tmp_path: Path) -> None:
    """Any function of output and target; of an output that is shown itself, and a window on it."""
    net = NET.replace("nn.Linear(13, 3)", "nn.Linear(13, 1)").replace("nn.CrossEntropyLoss()", "nn.HuberLoss()")
    net = net.replace("data = Tensor", "y = x[:, :1].sin()\ndata = Tensor") + METRICS
    (tmp_path / "net.py").write_text(net)
    for name in ("", ":held_out"):
        run("data", f"{tmp_path / 'net.py'}{name}", "--out", tmp_path / f"{'test' if name else 'train'}.bin")
    words = ("--cores", 8, "--l1", "64k", "--steps", 1, "--evaluate", "--out", tmp_path / "p")
    run("--model", tmp_path / "net.py", *words)
    run("verify", tmp_path / "p")
    wanted = reference(tmp_path / "p", How(2)).epochs
    said = make(tmp_path / "p", "host", "HELD_OUT=../test.bin", "EPOCHS=2").splitlines()
    for line, e in zip(said, wanted, strict=True):
        assert list(e.metrics) == ["near", "share near", "first"]
        found = [float(line.split(f", {name} ")[1].split(",")[0]) for name in e.metrics]
        assert found == pytest.approx(list(e.metrics.values()), abs=2e-5), line


@pytest.mark.parametrize(
    ("metric", "code", "words"),
    [
        ("output.argmax(1) == target", 2, "the metric 'odd' returns 5 bool, not a scalar tensor"),
        ("output.mean().item()", 2, "not a scalar tensor"),
        ("output[target == 0].std()", 4, 'net.py:26:  metrics = {"odd": lambda output, target'),
        ("output.nothing()", 2, "the metric 'odd' fails on example_target"),
    ],
)
def test_metrics_that_are_refused(metric: str, code: int, words: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET + f'metrics = {{"odd": lambda output, target: {metric}}}\n')
    done = CliRunner().invoke(cli, ["--model", str(tmp_path / "net.py"), "--out", str(tmp_path / "p")])
    assert done.exit_code == code and words in done.output, done.output
    assert not (tmp_path / "p").exists()
