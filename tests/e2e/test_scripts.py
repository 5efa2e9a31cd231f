"""Training scripts as people write them: deployed as they are, or after the lines that the message names."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from golden.script import compiled
from trainlib_deployer.cli.main import cli

torch.set_num_threads(1)
HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
"""
ARGPARSE = """\
import argparse
from dataclasses import dataclass
from torch.utils.data import DataLoader, TensorDataset

@dataclass
class Config:
    width: int = 6
    lr: float = 0.05

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--width", type=int, default=Config.width)
args = parser.parse_args()
cfg = Config(args.width)
device = "cuda" if torch.cuda.is_available() else "cpu"

class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv = nn.Conv2d(c, c, 3, padding=1)
        self.bn = nn.BatchNorm2d(c)

    def forward(self, x):
        return F.relu(x + self.bn(self.conv(x)))

class Net(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.stem = nn.Conv2d(3, cfg.width, 3)
        self.block = Block(cfg.width)
        self.fc = nn.Linear(cfg.width, 5)

    def forward(self, x):
        return self.fc(self.block(self.stem(x)).mean((2, 3)))

model = Net(cfg).to(device)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
optimizer = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.9)
train_loader = DataLoader(TensorDataset(torch.randn(24, 3, 9, 9), torch.randint(5, (24,))), batch_size=4)

def evaluate():
    with torch.no_grad():
        return sum(criterion(model(x), y).item() for x, y in train_loader)

def train(epochs):
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
    open("trained", "w").write("once more")

train(args.steps)
print("after", evaluate())
"""
FLAT = """\
torch.manual_seed(3)
x, y = torch.randn(40, 7), torch.randint(3, (40,))
weight = torch.bincount(y, minlength=3).float()
weight = weight.sum() / weight
net = model = nn.Sequential(nn.Linear(7, 9), nn.GELU(), nn.Linear(9, 3))
loss_fn = nn.CrossEntropyLoss(weight=weight)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=50, cycle_momentum=False)
data = [(x[i : i + 8], y[i : i + 8]) for i in range(0, 40, 8)]
losses = []
for epoch in range(10):
    open("trained", "w").write("once more")
    for bx, by in data:
        optimizer.zero_grad()
        loss = loss_fn(model(bx), by)
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
final = sum(losses[-5:]) / 5
print(f"final {final:.3f}, last {loss.item():.3f}")
if final < 3:
    torch.save(model.state_dict(), "trained")
"""
FACTORY = """\
class Heads(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.body = nn.Linear(6, width)
        self.label, self.value = nn.Linear(width, classes), nn.Linear(width, 1)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        return {"label": self.label(h), "value": self.value(h)}

def build(width=8, classes=4):
    return Heads(width, classes)

def total(out, target):
    return F.cross_entropy(out["label"], target[0]) + 0.3 * F.mse_loss(out["value"], target[1])

loss = total
data = [(torch.randn(5, 6), (torch.randint(4, (5,)), torch.randn(5, 1))) for _ in range(5)]
"""
GUARDED = """\
class Net(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.a, self.b = nn.Linear(6, hidden), nn.Linear(hidden, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))

def main():
    net = Net(hidden=11)
    criterion = nn.CrossEntropyLoss()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for _ in range(100):
        opt.zero_grad()
        loss = criterion(net(torch.randn(3, 6)), torch.randint(2, (3,)))
        loss.backward()
        opt.step()

if __name__ == "__main__":
    main()
"""
SCRIPTS = {
    "argparse": (ARGPARSE, "", ["argparse_.py:57 is not run", "loss: 'criterion'", "data: 'train_loader'"]),
    "flat": (
        FLAT,
        "",
        [*(f"flat_.py:{n} is not run" for n in (14, 23, 24, 25)), "loss: 'loss_fn'"],
    ),
    "factory": (FACTORY, ":build", []),
}


def deploy(folder: Path, name: str, text: str, attribute: str = "", *more: str) -> Any:
    (folder / f"{name}_.py").write_text(HEAD + text)
    options = ["--cores", "2", "--steps", "3", "--out", str(folder / "out"), "--run", "host", *more]
    return CliRunner().invoke(cli, ["--model", f"{folder / name}_.py{attribute}", *options])


@pytest.mark.parametrize("name", SCRIPTS)
def test_as_it_is(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deployed and verified; its training was run neither then nor by a later verification."""
    monkeypatch.chdir(tmp_path)
    text, attribute, notes = SCRIPTS[name]
    done = deploy(tmp_path, name, text, attribute)
    assert done.exit_code == 0 and "PASS on host" in done.output, done.output
    assert all(n in done.output for n in notes), done.output
    assert CliRunner().invoke(cli, ["verify", "out"]).exit_code == 0
    assert not (tmp_path / "trained").exists()


def test_after_the_lines_that_the_message_names(tmp_path: Path) -> None:
    done = deploy(tmp_path, "guarded", GUARDED, "", "--input", "3x6")
    assert done.exit_code == 2 and "guarded_.py makes its model in the function main(), which is not run" in done.output
    assert "at guarded_.py:13:  net = Net(hidden=11)" in done.output
    lines = re.findall(r"^    (.*)$", done.output, re.MULTILINE)
    assert lines == [
        "model = Net(hidden=11)",
        "loss = nn.CrossEntropyLoss()",
        "optimizer = torch.optim.Adam(model.parameters(), lr=0.002)",
    ]
    done = deploy(tmp_path, "guarded", GUARDED + "\n".join(lines), "", "--input", "3x6")
    assert done.exit_code == 0 and "random labels of 2 classes" in done.output, done.output


def test_the_network_is_suggested_not_its_part(tmp_path: Path) -> None:
    text = (
        ARGPARSE.replace("model = Net(cfg).to(device)", "")
        .partition("criterion")[0]
        .replace("(self, cfg)", "(self, cfg=cfg)")
    )
    done = deploy(tmp_path, "parts", text)
    assert done.exit_code == 2 and "use --model parts_.py:Net" in done.output, done.output


def test_only_a_model_and_the_shape_of_its_input(tmp_path: Path) -> None:
    done = deploy(tmp_path, "alone", "model = nn.Sequential(nn.Conv1d(2, 3, 3), nn.Tanh())\n", "", "--input", "2x2x7")
    assert done.exit_code == 0 and "random numbers like the output" in done.output, done.output


LEFT_OUT = {
    "a loop": ("m = 1\nfor i in r:\n    l.backward()\n", [2]),
    "a call, and of a call": ("def t():\n    l.backward()\ndef u():\n    t()\nu()\nv = 3\n", [5]),
    "what needs it": (
        "for i in r:\n    z = l.backward()\nprint(z)\nw = z + 1\ns = [w for _ in r]\nz = 2\nq = z\n",
        [1, 3, 4, 5],
    ),
    "names bound before stay": ("z = 0\nfor i in r:\n    z += l.backward()\nprint(z)\n", [2]),
    "names of comprehensions": ("for x in r:\n    l.backward()\nd = [x for x in r]\n", [1]),
    "in a condition": ("if a:\n    for i in r:\n        l.backward()\n    m = 2\n", [2]),
    "a model that training makes": ("def t():\n    l.backward()\nmodel = t()\nh = t()\n", [4]),
    "an old model": ("def t():\n    l.backward()\nmodel = 1\nmodel = t()\n", [4]),
    "what it fills": ("n = []\nfor i in r:\n    n.append(l.backward())\nprint(n)\nm = len(r)\n", [2, 4]),
    "loops that do not train": ("for i in r:\n    d.append(i)\nwhile d:\n    d.pop()\n", []),
    "definitions": ("for i in r:\n    z = l.backward()\ndef f():\n    return z\nclass C:\n    a = f\n", [1]),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out(name: str) -> None:
    text, lines = LEFT_OUT[name]
    code, found = compiled(textwrap.dedent(text), "x.py")
    assert found == lines and code is not None
