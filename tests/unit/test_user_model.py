"""What a user's file may say and leave out, and the answer to every mistake in it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.unit.user_file import EXAMPLE, GOOD, HEAD, MODEL, mistake, same, user, write
from trainlib_deployer.errors import UsageError
from trainlib_deployer.user.load_model import load


def test_defaults_are_said_aloud(tmp_path: Path) -> None:
    got = user(tmp_path, GOOD)
    assert (got.name, got.attribute, got.source) == ("net", "model", tmp_path / "net.py")
    assert isinstance(got.loss, nn.CrossEntropyLoss)
    assert (got.optimizer.kind, got.optimizer.groups[0].hyper["lr"]) == ("SGD", 0.01)
    assert "lr" in got.optimizer.groups[0].hyper and "params" not in got.optimizer.groups[0].hyper
    assert got.optimizer.groups[0].names == tuple(n for n, _ in got.module.named_parameters())
    assert len(got.notes) == 2 and "CrossEntropyLoss" in got.notes[0] and "SGD with lr 0.01" in got.notes[1]


def test_float_target_gets_mse(tmp_path: Path) -> None:
    got = user(tmp_path, HEAD + MODEL + EXAMPLE + "example_target = torch.randn(3, 7)\n")
    assert isinstance(got.loss, nn.MSELoss)


@pytest.mark.parametrize(
    ("maker", "name", "expected"),
    [
        ("model = Net\n", "", "net"),
        ("def model():\n    return Net(7)\n", "", "net"),
        ("model = lambda: Net()\n", "", "net"),
        ("", ":Net", "Net"),
        ("def small():\n    return Net()\n", ":small", "small"),
        ("model = 3\nother = Net()\n", ":other", "other"),
    ],
)
def test_module_class_or_function(tmp_path: Path, maker: str, name: str, expected: str) -> None:
    got = user(tmp_path, HEAD + maker + EXAMPLE, name)
    assert got.name == expected
    assert type(got.module).__name__ == "Net"


def test_same_numbers_every_time(tmp_path: Path) -> None:
    text = HEAD + "import random, numpy\n" + MODEL + EXAMPLE
    text += (
        "example_input = example_input * random.random() * numpy.random.rand()\nexample_input = example_input.float()\n"
    )
    first = user(tmp_path, text)
    torch.rand(5)
    assert same(first, user(tmp_path, text))


def test_state_is_as_the_file_left_it(tmp_path: Path) -> None:
    extra = "model.conv.weight.grad = torch.ones_like(model.conv.weight)\nmodel.norm.eval()\n"
    got = user(tmp_path, HEAD + MODEL + extra + EXAMPLE)
    norm, conv = got.module.norm, got.module.conv
    assert isinstance(norm, nn.BatchNorm2d) and isinstance(conv, nn.Conv2d)
    assert not norm.training and got.module.training and conv.training
    assert conv.weight.grad is not None and torch.equal(conv.weight.grad, torch.ones_like(conv.weight))
    got = user(tmp_path, GOOD)
    norm = got.module.norm
    assert isinstance(norm, nn.BatchNorm2d) and norm.running_mean is not None
    assert norm.running_mean.eq(0).all() and norm.num_batches_tracked == 0


def test_stdout_of_the_file_goes_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        GOOD.replace("        return self.fc", "        print('in forward')\n        return self.fc")
        + "print('in file')\n"
    )
    user(tmp_path, text)
    out, err = capsys.readouterr()
    assert out == "" and "in file" in err and "in forward" in err


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    write(tmp_path, "SIZE = 7\n", "parts.py")
    path = list(sys.path)
    user(tmp_path, "from parts import SIZE\n" + GOOD)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.py", "parts.py"]
    assert sys.path == path


def test_helpers_beside_the_file_are_the_right_ones(tmp_path: Path) -> None:
    for folder, classes in (("a", 7), ("b", 9)):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder, f"SIZE = {classes}\n", "parts.py")
        text = "from parts import SIZE\n" + GOOD.replace("Net()", "Net(SIZE)")
        fc = user(tmp_path / folder, text).module.fc
        assert isinstance(fc, nn.Linear) and fc.out_features == classes


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    for classes in (7, 8):
        fc = user(tmp_path, GOOD.replace("Net()", f"Net({classes})")).module.fc
        assert isinstance(fc, nn.Linear) and fc.out_features == classes


def test_file_named_like_a_library(tmp_path: Path) -> None:
    assert load(write(tmp_path, GOOD, "numpy.py")).name == "numpy"
    assert sys.modules["numpy"].__name__ == "numpy" and hasattr(sys.modules["numpy"], "ndarray")


@pytest.mark.parametrize(("name", "expected"), [("my-net v2.py", "my_net_v2"), ("3d.py", "net_3d"), ("a:b.py", "a_b")])
def test_odd_file_names(tmp_path: Path, name: str, expected: str) -> None:
    assert load(write(tmp_path, GOOD, name)).name == expected


def test_lazy_modules_and_shared_parameters(tmp_path: Path) -> None:
    text = HEAD + (
        "last = [nn.Linear(4, 4), nn.Linear(4, 4)]\n"
        "model = nn.Sequential(nn.Flatten(), nn.LazyLinear(4), nn.LazyBatchNorm1d(), *last)\n"
        "model[4].weight = model[3].weight\n"
    )
    got = user(tmp_path, text + EXAMPLE + "example_target = torch.tensor([0, 3, 2])\n")
    assert "4.weight" not in got.optimizer.groups[0].names
    norm = got.module.get_submodule("2")
    assert isinstance(norm, nn.BatchNorm1d) and norm.training and norm.num_batches_tracked == 0


# ---- file and name


@pytest.mark.parametrize(
    ("spec", "phrase"),
    [
        ("none.py", "there is no file"),
        ("nett.py", "did you mean"),
        ("none.py:Net", "there is no file"),
        ("", "is a directory"),
        ("net.py:", "not a Python name"),
        ("net.py:a-b", "not a Python name"),
        ("net.py:Nett", "use --model net.py:Net"),
        ("net.py:missing", "has no 'missing'"),
        ("net.py:example_input", "is a Tensor, not an nn.Module"),
        ("net.py:F", "is a module, not an nn.Module"),
    ],
)
def test_wrong_spec(tmp_path: Path, spec: str, phrase: str) -> None:
    write(tmp_path, GOOD)
    with pytest.raises(UsageError) as err:
        load(f"{tmp_path}/{spec}")
    assert phrase in err.value.render()


def test_empty_spec() -> None:
    with pytest.raises(UsageError, match="there is no file"):
        load("")


@pytest.mark.parametrize(
    ("text", "line", "phrases"),
    [
        ("import torch\nx = 1 / 0\n", 2, ["cannot be imported", "ZeroDivisionError", "x = 1 / 0"]),
        (
            "import torch\ndef f():\n    raise ValueError('odd')\nf()\n",
            3,
            ["ValueError: odd", "raise ValueError('odd')"],
        ),
        ("import nothing_of_the_kind\n", 1, ["ModuleNotFoundError", "nothing_of_the_kind"]),
        ("import torch\nmodel = torch.nn.Linear(3, 'a')\n", 2, ["torch.nn.Linear(3, 'a')"]),
        ("import sys\nsys.exit(3)\n", 2, ["SystemExit: 3"]),
        ("x = 1\ndef f(:\n", 2, ["SyntaxError", "def f(:"]),
        ("if True:\nx = 1\n", 2, ["IndentationError"]),
    ],
)
def test_file_that_fails(tmp_path: Path, text: str, line: int, phrases: list[str]) -> None:
    err = mistake(tmp_path, text)
    assert err.source is not None and err.source.line == line and err.source.file.endswith("net.py")
    assert all(p in err.render() for p in phrases), err.render()


@pytest.mark.parametrize(
    "content", [b"\x00\x01\x02", b"\xff\xfe\x80 x", "x = 'ü'".encode("latin-1"), b"PK\x03\x04\x80\x81"]
)
def test_not_python(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "net.py").write_bytes(content)
    with pytest.raises(UsageError, match="not a Python file"):
        load(str(tmp_path / "net.py"))


def test_keyboard_interrupt_passes(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        user(tmp_path, "raise KeyboardInterrupt\n")


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("x = 3\ndef f(): pass\n", ["has no 'model' and no nn.Module", "x, f"]),
        ("", ["it defines nothing"]),
        (HEAD + EXAMPLE, ["has no 'model'", "Net", "use --model net.py:Net"]),
        (HEAD + "class B(Net): pass\n" + EXAMPLE, ["Net, B", "use --model net.py:"]),
        (HEAD + "net = Net()\n" + EXAMPLE, ["net"]),
        (HEAD + "model = {}\n" + EXAMPLE, ["'model' in net.py is a dict"]),
        (HEAD + "model = None\n" + EXAMPLE, ["is None"]),
        (HEAD + "def model(): return 3\n" + EXAMPLE, ["model() in net.py returns an int"]),
        (HEAD + "def model(): return Net\n" + EXAMPLE, ["returns a type"]),
        (
            HEAD + "def model(width, depth=1): return Net()\n" + EXAMPLE,
            ["needs arguments: width", "model = model(...)"],
        ),
        (
            HEAD + "class model(Net):\n    def __init__(self): oops\n" + EXAMPLE,
            ["NameError", "def __init__(self): oops"],
        ),
    ],
)
def test_no_model(tmp_path: Path, text: str, phrases: list[str]) -> None:
    rendered = mistake(tmp_path, text).render()
    assert all(p in rendered for p in phrases), rendered


# ---- the example, the loss, the parameters


@pytest.mark.parametrize(
    ("extra", "phrases"),
    [
        ("example_input = None", ["has no 'example_input'", "--input 1x3x32x32"]),
        ("example_target = None", ["no 'example_target' and no 'data'"]),
        ("example_input = example_input.double()", ["example_input is float64", ".float()"]),
        ("example_input = example_input.half()", ["example_input is float16"]),
        ("example_input = example_input.numpy()", ["ndarray", "from_numpy"]),
        ("example_input = (3, None)", ["the int 3, not a tensor"]),
        ("example_input = (example_input, [3j])", ["the complex 3j, not a tensor"]),
        ("example_input = ()", ["holds no tensor"]),
        ("example_input = torch.tensor(3.0)", ["example_input is a scalar"]),
        ("example_input = torch.randn(0, 3, 6, 5)", ["example_input is empty", "0x3x6x5"]),
        ("example_input[0, 0, 0, 0] = float('nan')", ["example_input has values that are NaN"]),
        (
            "example_input = torch.randn(3, 4, 6, 5)",
            ["model fails on example_input", "return self.fc", "3x4x6x5 float32"],
        ),
        ("example_input = (example_input, example_input)", ["model fails on example_input", "TypeError"]),
        (
            "model.forward = lambda x, by: model.fc(x * by)\nexample_input = {'by': torch.ones(1), 'x': example_input}",
            ["a dict is one argument", 'example_input = (batch["x"], batch["by"])'],
        ),
        (
            "model.forward = lambda **batch: batch['x']\nexample_input = {'x': example_input}",
            ["a dict is one argument", "forward(self, batch) takes it"],
        ),
        ("example_target = torch.tensor([0, 7, 2])", ["class index 7", "7 classes, 0 to 6"]),
        ("example_target = torch.tensor([0, -1, 2])", ["class index -1"]),
        ("example_target = torch.tensor([0, 1])", ["loss fails on example_target", "3x7 float32", "target 2 int64"]),
        ("example_target = torch.randn(3, 6); loss = nn.CrossEntropyLoss()", ["loss fails on example_target", "3x6"]),
        ("example_target = torch.randn(3).double()", ["example_target is float64"]),
        ("example_target = torch.randn(3, 1)", ["loss broadcasts on example_target", "3x1 float32"]),
        ("example_target = torch.randn(3, 5)", ["loss fails on example_target"]),
        ("example_target = 3", ["example_target holds the int 3"]),
        ("loss = nn.MSELoss", ["'loss' is the class MSELoss", "loss = MSELoss()"]),
        ("loss = 'mse'", ["'loss' is of type str"]),
        ("loss = lambda o, t: F.cross_entropy(o, t, reduction='none')", ["loss is not a scalar", "3 float32"]),
        ("loss = lambda o, t: F.cross_entropy(o, t).item()", ["loss returns the float"]),
        ("loss = lambda o, t: None", ["loss returns None"]),
        ("loss = lambda o, t: F.cross_entropy(o, t).double()", ["loss is float64"]),
        ("loss = lambda o, t: o.sum() / 0", ["loss is", "inf"]),
        ("loss = lambda o: o.sum()", ["loss fails on example_target", "TypeError"]),
        ("loss = lambda o, t: o.argmax(1).float().mean()", ["does not depend on any trainable parameter"]),
        ("loss = lambda o, t: o.detach().sum()", ["does not depend on any trainable parameter"]),
        ("loss = lambda o, t: (o * 0).sqrt().sum()", ["gradient of parameter", "NaN or infinite"]),
        (
            "model = nn.EmbeddingBag(9, 7, sparse=True)\nexample_input = torch.randint(9, (3, 5))",
            ["gradient of parameter 'weight' is sparse", "without sparse=True"],
        ),
        ("def loss(o, t):\n    return o.sum() + oops\n", ["NameError", "return o.sum() + oops"]),
        ("model.fc.weight.data[1, 2] = float('nan')", ["parameter 'fc.weight' has 1 of 35 values"]),
        ("model.fc.bias.data[:] = float('inf')", ["parameter 'fc.bias' has 7 of 7 values"]),
        ("model.requires_grad_(False)", ["all 6 parameters of the model are frozen"]),
        ("model.double()", ["parameter 'conv.weight' is float64", "model.float()"]),
        ("model.fc.half()", ["parameter 'fc.weight' is float16", "--dtype fp16"]),
        ("model.norm.running_mean = model.norm.running_mean.double()", ["buffer 'norm.running_mean' is float64"]),
        ("model.fc.to('meta')", ["device 'meta'"]),
        ("model = nn.ReLU()", ["ReLU has no parameters"]),
    ],
)
def test_mistakes(tmp_path: Path, extra: str, phrases: list[str]) -> None:
    rendered = mistake(tmp_path, GOOD + extra + "\n").render()
    assert all(p in rendered for p in phrases), rendered


def test_forward_shows_the_users_line(tmp_path: Path) -> None:
    err = mistake(tmp_path, GOOD.replace("self.norm(self.conv(x))", "self.norm(self.conv(x[:, :2]))"))
    assert err.source is not None and err.source.line == 13 and "x[:, :2]" in err.source.text
    assert "RuntimeError" in err.message


def test_a_saved_tensor_that_changes_names_the_line_that_needs_it(tmp_path: Path) -> None:
    calls = "y = torch.sigmoid(self.conv(x))  # saved\n        y += 1\n        return self.fc(y.mean((2, 3)))"
    text = GOOD.replace("return self.fc(self.norm(self.conv(x)).mean((2, 3)))", calls)
    err = mistake(tmp_path, text)
    assert "changed in place" in err.message
    assert err.source is not None
    assert err.source.text.endswith("# saved")
    assert "x = x + 1" in err.remedy


def test_forward_without_a_tensor(tmp_path: Path) -> None:
    text = GOOD.replace("return self.fc", "self.fc")
    assert "forward returns None" in mistake(tmp_path, text).render()


def test_batch_norm_of_one_sample(tmp_path: Path) -> None:
    text = HEAD + "model = nn.Sequential(nn.Flatten(), nn.Linear(90, 4), nn.BatchNorm1d(4))\n" + EXAMPLE
    rendered = mistake(
        tmp_path, text + "example_input = example_input[:1]\nexample_target = torch.tensor([2])\n"
    ).render()
    assert "more than 1 value per channel" in rendered


def test_a_forward_that_differentiates(tmp_path: Path) -> None:
    """Fault: it was also run where nothing is differentiated, and ended in a traceback."""
    text = (
        HEAD
        + """
class Net(nn.Sequential):
    def forward(self, x):
        h = super().forward(x)
        return h + torch.autograd.grad(h.tanh().sum(), h, create_graph=True)[0]

model = Net(nn.Flatten(), nn.Linear(90, 7))
"""
    )
    assert not user(tmp_path, text + EXAMPLE).differs_in_eval


def test_nothing_is_warned_of_that_is_not_the_users(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    often = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        user(tmp_path, GOOD)
    finally:
        torch.set_warn_always(often)
    assert [str(w.message) for w in recwarn] == []
