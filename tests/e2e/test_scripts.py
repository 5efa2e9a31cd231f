"""Training scripts as people write them: deployed as they are, or after the lines that the message names."""

from __future__ import annotations

import re
import shutil
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
SCRIPTS = Path(__file__).parent / "scripts"
# name: what comes after the file's name; what the tool says first, with a remedy; its notes then
AS_WRITTEN: dict[str, tuple[str, str, list[str]]] = {
    "cifar": ("", "makes its model in the function main(), which is not run", ["cifar.py:127 is not run"]),
    "flat": (
        "",
        "",
        [
            *(f"flat.py:{n} is not run" for n in (22, 38, 39)),
            "loss: 'criterion'",
            "data: 'loader'",
            "not clipped as in flat.py's own training: for that, write clip_grad_norm",
        ],
    ),
    "gpt": (
        "",
        "",
        ["optimizer: configure_optimizers of GPT", "loss: training_step of GPT", "output: the input itself"],
    ),
    "factory": ("", "use --model factory.py:build_model", []),
    "gru": ("", "makes its model in the function fit(), which is not run", ["gru.py:63 is not run"]),
}


def deploy(file: Path, attribute: str = "", *more: str) -> Any:
    options = ["--cores", "2", "--l1", "128k", "--steps", "3", "--out", str(file.parent / "out"), *more]
    return CliRunner().invoke(cli, ["--model", f"{file}{attribute}", *options])


def written(folder: Path, name: str, text: str) -> Path:
    (folder / f"{name}_.py").write_text(HEAD + text)
    return folder / f"{name}_.py"


@pytest.mark.parametrize("name", AS_WRITTEN)
def test_as_people_write_them(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deployed and verified as they are, or after what the message says; without the training in them."""
    monkeypatch.chdir(tmp_path)
    file = Path(shutil.copy(SCRIPTS / f"{name}.py", tmp_path))
    attribute, refusal, notes = AS_WRITTEN[name]
    if refusal:
        done = deploy(file)
        assert done.exit_code == 2 and refusal in done.output, done.output
        lines = re.findall(r"^    (.*)$", done.output, re.MULTILINE)
        file.write_text(file.read_text() + "\n".join(lines))
        attribute = "".join(re.findall(rf"--model {name}.py(:\w+)", done.output))
    done = deploy(file, attribute, "--run", "host")
    assert done.exit_code == 0 and "PASS on host" in done.output, done.output
    assert all(n in done.output for n in notes), done.output
    assert not list(tmp_path.glob("*.pt")) and not (tmp_path / "checkpoints").exists()


def test_a_dictionary_of_one(tmp_path: Path) -> None:
    text = "class Net(nn.Linear):\n    def forward(self, x):\n        return {'y': super().forward(x)}\n"
    done = deploy(written(tmp_path, "one", text + "model = Net(3, 2)\n"), "", "--input", "4x3")
    assert done.exit_code == 0 and "loss: nn.MSELoss(), as one_.py names none" in done.output, done.output


def test_options_of_the_tool_are_none_of_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose parse_args() stands at its top."""
    monkeypatch.chdir(tmp_path)
    done = deploy(written(tmp_path, "argparse", ARGPARSE))
    notes = ["argparse_.py:57 is not run", "loss: 'criterion'", "data: 'train_loader'"]
    assert done.exit_code == 0 and all(n in done.output for n in notes), done.output
    assert not (tmp_path / "trained").exists()


def test_the_network_is_suggested_not_its_part(tmp_path: Path) -> None:
    text = (
        ARGPARSE.replace("model = Net(cfg).to(device)", "")
        .partition("criterion")[0]
        .replace("(self, cfg)", "(self, cfg=cfg)")
    )
    done = deploy(written(tmp_path, "parts", text))
    assert done.exit_code == 2 and "use --model parts_.py:Net" in done.output, done.output


ALONE = """\
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.state, self.tag = nn.Embedding(11, 5), nn.GRU(5, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x):
        every, last = self.state(self.words(x))
        return self.tag(every), last

model = Tagger()
"""


def test_only_a_model_and_the_shape_of_its_input(tmp_path: Path) -> None:
    done = deploy(written(tmp_path, "alone", ALONE), "", "--input", "2x7", "--run", "host")
    assert done.exit_code == 0 and "PASS on host" in done.output, done.output
    assert "random indices below 11" in done.output and "nn.MSELoss() + nn.MSELoss()" in done.output


CALLED = """\
import argparse

def main(args):
    width = 2 * args.width
    model = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 2))
    optim = torch.optim.Adam(model.parameters(), lr=args.lr)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.1)
    main(parser.parse_args())
"""


def test_what_a_function_is_called_with(tmp_path: Path) -> None:
    text = CALLED.replace("main(parser.parse_args())", "args = parser.parse_args()\n    main(args)")
    file = written(tmp_path, "called", text)
    lines = re.findall(r"^    (.*)$", deploy(file).output, re.MULTILINE)
    assert [line.split()[0] for line in lines] == [
        "parser",
        "parser.add_argument('--width',",
        "parser.add_argument('--lr',",
        "args",
        "width",
        "model",
        "optimizer",
    ]
    file.write_text(file.read_text() + "\n".join(lines))
    assert deploy(file, "", "--input", "4x3").exit_code == 0


@pytest.mark.parametrize("line", ["parser.parse_args()", "sys.argv[1]"])
def test_arguments_that_are_required(line: str, tmp_path: Path) -> None:
    parser = "import argparse, sys\nparser = argparse.ArgumentParser()\nparser.add_argument('where')\n"
    text = f"{parser}args = {line}\nmodel = nn.Linear(3, 2)\n"
    done = deploy(written(tmp_path, "asks", text), "", "--input", "4x3")
    assert done.exit_code == 2 and "it asks for arguments of its own" in done.output, done.output
    assert 'sys.argv += ["--name", "value"]' in done.output
    text = text.replace("args =", "sys.argv += ['here']\nargs =")
    assert deploy(written(tmp_path, "asks", text), "", "--input", "4x3").exit_code == 0


REFUSED = {
    "torch.jit.script(nn.Linear(3, 4))": "torch.jit.script or torch.jit.trace was called with",
    "nn.Sequential(nn.Linear(3, 4), torch.jit.trace(nn.Linear(4, 2), torch.randn(1, 4)))": "the part '1' of the model",
    "nn.Sequential(nn.DataParallel(nn.Linear(3, 4)))": "use what is in its .module",
    "torch.export.export(nn.Linear(3, 4), (torch.randn(1, 3),))": "give its module: model.module()",
    "torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(3, 4)))": "quantized",
    "nn.Linear(3, 4, device='meta')": "model.to_empty(device='cpu')",
}


@pytest.mark.parametrize("made", REFUSED)
def test_what_is_no_module_any_more(tmp_path: Path, made: str) -> None:
    done = deploy(written(tmp_path, "odd", f"model = {made}\n"), "", "--input", "2x3")
    assert done.exit_code in (2, 4) and REFUSED[made] in done.output, done.output


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
    "a trainer": ("t = L.Trainer(3)\nm = 1\nt.fit(m)\nprint(t.metrics)\nT.Trainer().fit(m)\ns.fit(m)\n", [1, 3, 4, 5]),
    "saving": ("torch.save(m, f)\nif a:\n    b = 1\n    m.save(f)\ndef s():\n    torch.save(m, f)\nd = s()\n", [1, 4]),
    "definitions": ("for i in r:\n    z = l.backward()\ndef f():\n    return z\nclass C:\n    a = f\n", [1]),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out(name: str) -> None:
    text, lines = LEFT_OUT[name]
    code, found = compiled(textwrap.dedent(text), "x.py")
    assert found == lines and code is not None
