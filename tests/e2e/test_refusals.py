"""What cannot be deployed is refused: exit code 4, the user's words, their line, what to do instead."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from trainlib_deployer.capture.decompositions import DECOMPOSED
from trainlib_deployer.cli.main import cli

torch.set_num_threads(1)

NET = """\
import torch
from torch import nn
from torch.nn import functional as F


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6)
{init}

    def forward(self, x):
        h = self.fc(1 * x)
{forward}


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x)


def loss(y, target):
    return (y - target).pow(2).mean()


model = Outer()
example_input = torch.randn({shape})
example_target = torch.zeros(1)
"""


@dataclass(frozen=True)
class Case:
    """A forward whose line marked with # here is refused; `words` stand in the message, `layer` is the layer's path."""

    forward: str
    words: str
    init: str = "pass"
    shape: str = "3, 6"
    layer: str = "inner"
    remedy: str = ""


VALUES = "depends on the values in a tensor"
DECIDE = "torch.where"
IMAGE = "2, 2, 6, 6"
LARGE = "0.1 * h.repeat(6, 6) + torch.eye(36)"

CASES = {
    "if": Case("if h.sum() > 0:  # here\n    return h\nreturn -h", VALUES, layer="", remedy=DECIDE),
    "while": Case("while h.norm() > 1:  # here\n    h = h / 2\nreturn h", VALUES, layer="", remedy=DECIDE),
    "assert": Case("assert torch.isfinite(h).all()  # here\nreturn h", VALUES, layer="", remedy=DECIDE),
    "buffer that a step changes": Case(
        "self.n.add_(1)\nreturn h * self.n.item()  # here", VALUES, "self.register_buffer('n', torch.ones(()))"
    ),
    "constant that the input has gone into": Case(
        "t = torch.ones(3)\nt[1:][0] = h.detach()[0, 0]\nreturn h * t.sum().item()  # here", VALUES
    ),
    "item": Case("return h * h.max().item()  # here", VALUES, remedy="leave out .item()"),
    "item that decides": Case(
        "if h.max().item() > 0:  # here\n    h = -h\nreturn h", VALUES, layer="", remedy="use torch.where"
    ),
    "int": Case("return h[:, : int(h.sum())]  # here", VALUES, layer="", remedy=DECIDE),
    "pointer": Case(
        "n = int(self.n)  # here\nself.q[n : n + 3] = h.detach()\nself.n.copy_((self.n + 3) % 9)\nreturn h @ self.q.T",
        VALUES,
        "self.register_buffer('q', torch.ones(9, 6)); self.register_buffer('n', torch.tensor(0))",
        layer="",
        remedy="index by the tensor: x[at + torch.arange(3)]",
    ),
    "tolist": Case("return h * h.tolist()[0][0]  # here", VALUES, remedy=DECIDE),
    "arange": Case("n = int(x.abs().sum())  # here\nreturn h * torch.arange(n).sum()", VALUES, layer="", remedy=DECIDE),
    "boolean index": Case("return h[h > 0]  # here", "shape depends on the values", remedy="multiply by the mask"),
    "masked_select": Case(
        "return torch.masked_select(h, x > 0)  # here", "'masked_select'", remedy="multiply by the mask"
    ),
    "nonzero": Case("return h * torch.nonzero(x).sum()  # here", "'nonzero'", remedy="multiply by the mask"),
    "unique": Case("return h * torch.unique(x).sum()  # here", "'unique'", remedy="multiply by the mask"),
    "bincount": Case(
        "return h * torch.bincount(x.abs().long().flatten()).sum()  # here", "'bincount'", remedy="minlength"
    ),
    "histc": Case("return h * torch.histc(x).sum()  # here", "'histc'", remedy="bin edges"),
    "complex": Case(
        "return torch.complex(h, x).acos().abs()  # here",
        "'acos' of complex numbers",
        layer="",
        remedy="x.real and x.imag",
    ),
    "packed sequence": Case(
        "n = (x > 9).sum().reshape(1) + 3\n"
        "return self.l(nn.utils.rnn.pack_padded_sequence(h.unsqueeze(0), n, batch_first=True))[0][0]  # here",
        "packed sequence",
        "self.l = nn.GRU(6, 6, batch_first=True)",
        layer="",
        remedy="padded sequence",
    ),
    "sparse constant": Case(
        "return torch.sparse.mm(torch.eye(3).to_sparse(), h)  # here", "'to_sparse'", remedy="dense"
    ),
    "sparse": Case("s = x.to_sparse()  # here\nreturn torch.sparse.mm(s, h.t())", "'to_sparse'", remedy="dense"),
    "inverse": Case(f"return torch.linalg.inv({LARGE})  # here", "'linalg_inv'", shape="6, 6", remedy="up to 32 rows"),
    "eig": Case("return torch.linalg.eig(h @ h.mT)[0].real  # here", "need not be symmetric", layer="", remedy="eigh"),
    "eigvals": Case("return torch.linalg.eigvals(h @ h.mT).abs()  # here", "complex", layer="", remedy="eigh"),
    "svd": Case(
        f"return torch.linalg.svd({LARGE})[1]  # here", "'linalg_svd'", shape="6, 6", remedy="up to 16 rows or columns"
    ),
    "determinant": Case(
        f"return torch.linalg.det({LARGE})  # here", "'linalg_det'", shape="6, 6", remedy="up to 32 rows"
    ),
    "double": Case("return h.double().sin().float()  # here", "float64", remedy="stay in float32"),
    "bfloat16": Case("return h.bfloat16().float()  # here", "bfloat16", remedy="stay in float32"),
    "autocast taken back": Case(
        "with torch.autocast('cpu'):\n    with torch.autocast('cpu', enabled=False):  # here\n        return h * 2",
        "enabled=False",
        layer="",
        remedy="--keep fp32=LAYER",
    ),
    "poisson": Case("return h * torch.poisson(h.exp())  # here", "'poisson'", remedy="pass them in as another input"),
    "numpy": Case(
        "import numpy as np\nreturn h * torch.from_numpy(np.sin(h.detach().numpy()))  # here",
        "numpy",
        layer="",
        remedy="torch.sin for np.sin",
    ),
    "another parameter": Case(
        "self.fc.weight = nn.Parameter(self.fc.weight.clamp(-1, 1))  # here\nreturn h",
        "replaces the parameter 'inner.fc.weight'",
        layer="",
        remedy="change it in place",
    ),
    "means over all batches, twice": Case(
        "return self.n(self.n(h))  # here",
        "runs more than once in a step",
        "self.n = nn.BatchNorm1d(6, momentum=None)",
        layer="",
        remedy="momentum=0.1",
    ),
    "wide pooling": Case(
        "wide = h[:, :1].expand(3, 60001)\nreturn F.adaptive_avg_pool1d(wide[None], 50000)  # here",
        "adaptive pooling from 1x60001 to 1x50000 is too large",
        layer="",
        remedy="kernel_size=(1, 1)",
    ),
    "greatest divisor": Case("return h * torch.gcd((h > 0).int(), h.int())  # here", "'gcd'", remedy="register_buffer"),
    "largest integers in places": Case(
        "return h * h.int().scatter_reduce(0, (h > 0).long(), h.int(), 'amax')  # here",
        "'scatter_reduce'",
        remedy="convert them before",
    ),
    "bessel": Case(
        "return h * torch.special.bessel_j0(h.detach())  # here", "'special_bessel_j0'", remedy="register_buffer"
    ),
}


def refused(text: str, folder: Path) -> Result:
    """The refusal of a net.py: nothing is written, nothing is raised but an exit."""
    folder.mkdir(exist_ok=True)
    (folder / "net.py").write_text(text)
    result = CliRunner().invoke(cli, ["--model", str(folder / "net.py"), "--l1", "1M", "--out", str(folder / "out")])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 4, result.output
    assert not (folder / "out").exists()
    assert "Traceback" not in result.output
    return result


def line_of(text: str, mark: str) -> int:
    return next(i for i, line in enumerate(text.splitlines(), 1) if mark in line)


@pytest.mark.parametrize("name", CASES)
def test_unsupported_is_refused_with_its_line_and_a_remedy(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    text = NET.format(
        init=textwrap.indent(case.init, " " * 8), forward=textwrap.indent(case.forward, " " * 8), shape=case.shape
    )
    message = refused(text, tmp_path).stderr
    what, at, remedy = message[message.index("error: ") :].split("\n", 2)
    assert case.words in what
    number = line_of(text, "# here")
    assert at == f"  at {tmp_path / 'net.py'}:{number}:  {text.splitlines()[number - 1].strip()}"
    assert f"in layer '{case.layer}'" in what or not case.layer
    assert case.remedy in remedy
    assert remedy.strip()


SEQUENTIAL = """\
import torch
from torch import nn

model = nn.Sequential(
    nn.Conv2d(2, 3, 3),
    nn.ReLU(),
    nn.CrossMapLRN2d(2),  # here
    nn.Flatten(),
)
loss = lambda y, target: y.pow(2).mean()
example_input = torch.randn(2, 2, 6, 7)
example_target = torch.zeros(1)
"""


def test_layer_of_a_sequential_is_shown_where_it_is_made(tmp_path: Path) -> None:
    message = refused(SEQUENTIAL, tmp_path).stderr
    assert "'resize_as' in layer '2'" in message
    assert f"net.py:{line_of(SEQUENTIAL, '# here')}:  nn.CrossMapLRN2d(2)," in message


def test_one_of_several_layers_of_a_class_is_shown_where_it_is_made(tmp_path: Path) -> None:
    first, second = "nn.CrossMapLRN2d(2, 0.1)", "nn.CrossMapLRN2d(3)"
    text = SEQUENTIAL.replace("nn.CrossMapLRN2d(2)", f"{first},\n    {second}")
    message = refused(text, tmp_path).stderr
    assert "'resize_as' in layer '2'" in message
    assert f"net.py:{line_of(text, '# here') - 1}:  {first}," in message


def test_loss_is_refused(tmp_path: Path) -> None:
    text = """\
import torch
from torch import nn
model = nn.Linear(6, 6)
def loss(y, target):
    return torch.sparse.sum(y.to_sparse()) - target.sum()  # here
example_input, example_target = torch.randn(5, 6), torch.randn(5, 6)
"""
    message = refused(text, tmp_path).stderr
    assert "'to_sparse' in layer 'loss'" in message
    assert f"net.py:{line_of(text, '# here')}:" in message
    assert "keep the tensor dense" in message


@pytest.mark.parametrize("name", ["Adafactor", "LBFGS", "Muon", "SparseAdam"])
def test_optimizer_is_refused(name: str, tmp_path: Path) -> None:
    text = f"""\
import torch
from torch import nn
model = nn.Linear(6, 5, bias=False)
example_input, example_target = torch.randn(3, 6), torch.tensor([0, 2, 4])
optimizer = torch.optim.{name}(list(model.parameters()))  # here
"""
    message = refused(text, tmp_path).stderr
    assert f"the optimizer {name}" in message
    assert "SGD" in message.partition("use ")[2]
    assert f"net.py:{line_of(text, '# here')}:" in message


STATEFUL = {
    "counter": ("self.n = getattr(self, 'n', 0) + 1", "self.n"),
    "python's random": ("import random", "random.random()"),
}


@pytest.mark.parametrize("name", STATEFUL)
def test_hidden_state_is_refused(name: str, tmp_path: Path) -> None:
    before, factor = STATEFUL[name]
    text = NET.format(init=" " * 8 + "pass", forward=f"        {before}\n        return h * {factor}", shape="3, 6")
    message = refused(text, tmp_path).stderr
    assert "randomness or hidden state in forward" in message
    assert ("changes 'inner.n'" in message) == (name == "counter")
    assert "register_buffer" in message


def test_a_mistake_of_ours_is_not_called_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DECOMPOSED, torch.ops.aten.lgamma.default, lambda x: x.abs() + 0.1)
    text = NET.format(init="        pass", forward="        return torch.lgamma(h.abs() + 1)", shape="3, 6")
    message = refused(text, tmp_path).stderr
    assert "loss 'loss'" in message and "in step 1, and PyTorch gives the same each time" in message
    assert "hidden state" not in message and "not in your file" in message


def test_all_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    lines = ("a = torch.special.bessel_j0(h.detach())  # here", "b = torch.special.bessel_j1(h.detach())  # also")
    forward = "".join(f"        {line}\n" for line in lines)
    text = NET.format(init="        pass", forward=forward + "        return a * b * h", shape="3, 6")
    message = refused(text, tmp_path).stderr
    assert f"net.py:{line_of(text, '# here')}:" in message
    assert "  also: 'special_bessel_j1' in layer 'inner' cannot be deployed" in message
    assert f"net.py:{line_of(text, '# also')}" in message


WORKS = {
    "own autograd function": """\
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0]


net = nn.Sequential(nn.Linear(6, 5), nn.Tanh())
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net

    def forward(self, x):
        return Square.apply(self.net(x))
""",
    "a branch on a shape": """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(6, 5)

    def forward(self, x):
        y = self.net(x)
        return y.relu() if y.shape[0] == 3 else -y
""",
    "indices that nobody uses": """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(6, 6)

    def forward(self, x):
        y, _ = nn.functional.max_pool2d(self.net(x)[None], 2, return_indices=True)
        return y
""",
}


@pytest.mark.parametrize("name", WORKS)
def test_what_works_is_not_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        f"import torch\nfrom torch import nn\n{WORKS[name]}\nmodel = Net()\nloss = lambda y, t: y.pow(2).mean()\n"
        "example_input, example_target = torch.randn(3, 6), torch.zeros(1)\n"
    )
    arguments = ["--model", str(tmp_path / "net.py"), "--l1", "1M", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "net.c").is_file()
