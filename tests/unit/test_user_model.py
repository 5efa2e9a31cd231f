"""What a user's file may say and leave out, and the answer to every mistake in it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from trainlib_deployer.errors import DeployError, Unsupported, UsageError
from trainlib_deployer.user.load_model import load
from trainlib_deployer.user.model import UserModel
from trainlib_deployer.user.samples import classes_of

HEAD = """\
import torch
from torch import nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self, classes=7):
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3)
        self.norm = nn.BatchNorm2d(5)
        self.fc = nn.Linear(5, classes)

    def forward(self, x):
        return self.fc(self.norm(self.conv(x)).mean((2, 3)))

"""
MODEL = "model = Net()\n"
EXAMPLE = "example_input = torch.randn(3, 3, 6, 5)\nexample_target = torch.tensor([0, 6, 2])\n"
GOOD = HEAD + MODEL + EXAMPLE


def write(tmp_path: Path, text: str, name: str = "net.py") -> str:
    (tmp_path / name).write_text(text)
    return str(tmp_path / name)


def user(tmp_path: Path, text: str, name: str = "", **options: Any) -> UserModel:
    return load(write(tmp_path, text) + name, **options)


def mistake(tmp_path: Path, text: str, name: str = "", **options: Any) -> DeployError:
    with pytest.raises(UsageError) as err:
        user(tmp_path, text, name, **options)
    return err.value


def same(a: UserModel, b: UserModel) -> bool:
    pairs = zip(a.samples, b.samples, strict=True)
    weights = zip(a.module.parameters(), b.module.parameters(), strict=True)
    return all(torch.equal(p, q) for p, q in weights) and all(
        torch.equal(x[0][0], y[0][0]) and torch.equal(x[1], y[1]) for x, y in pairs
    )


# ---- what works


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
        ("example_input = (example_input, 3)", ["the int 3, not a tensor"]),
        ("example_input = ()", ["holds no tensor"]),
        ("example_input = torch.tensor(3.0)", ["example_input is a scalar"]),
        ("example_input = torch.randn(0, 3, 6, 5)", ["example_input is empty", "0x3x6x5"]),
        ("example_input[0, 0, 0, 0] = float('nan')", ["example_input has values that are NaN"]),
        (
            "example_input = torch.randn(3, 4, 6, 5)",
            ["model fails on example_input", "return self.fc", "3x4x6x5 float32"],
        ),
        ("example_input = (example_input, example_input)", ["model fails on example_input", "TypeError"]),
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
        ("def loss(o, t):\n    return o.sum() + oops\n", ["NameError", "return o.sum() + oops"]),
        ("model.fc.weight.data[1, 2] = float('nan')", ["parameter 'fc.weight' has 1 of 35 values"]),
        ("model.fc.bias.data[:] = float('inf')", ["parameter 'fc.bias' has 7 of 7 values"]),
        ("model.requires_grad_(False)", ["all 6 parameters of the model are frozen"]),
        ("model.double()", ["parameter 'conv.weight' is float64", "model.float()"]),
        ("model.fc.half()", ["parameter 'fc.weight' is float16"]),
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


# ---- the optimizer


@pytest.mark.parametrize(
    "optimizer",
    [
        "torch.optim.Adam(model.parameters(), lr=0.002, weight_decay=0.1)",
        "lambda parameters: torch.optim.Adam(parameters, lr=0.002, weight_decay=0.1)",
        "__import__('functools').partial(torch.optim.Adam, lr=torch.tensor(0.002), weight_decay=0.1)",
    ],
)
def test_optimizer_instance_or_function(tmp_path: Path, optimizer: str) -> None:
    got = user(tmp_path, f"{GOOD}optimizer = {optimizer}\n").optimizer
    assert got.kind == "Adam" and len(got.groups) == 1
    assert got.groups[0].hyper["lr"] == pytest.approx(0.002) and got.groups[0].hyper["betas"] == (0.9, 0.999)


def test_groups_keep_their_order_and_settings(tmp_path: Path) -> None:
    text = GOOD + (
        "model.conv.requires_grad_(False)\n"
        "optimizer = torch.optim.SGD([{'params': model.fc.parameters(), 'lr': 0.5},"
        " {'params': [model.conv.weight, model.norm.bias]}], lr=0.25, momentum=0.75)\n"
    )
    groups = user(tmp_path, text).optimizer.groups
    assert [g.names for g in groups] == [("fc.weight", "fc.bias"), ("conv.weight", "norm.bias")]
    assert [(g.hyper["lr"], g.hyper["momentum"]) for g in groups] == [(0.5, 0.75), (0.25, 0.75)]


@pytest.mark.parametrize(
    ("optimizer", "name", "phrases"),
    [
        ("torch.optim.SGD(Net().parameters(), lr=0.1)", "", ["6 parameters that are not the model's", "5x3x3x3"]),
        ("torch.optim.SGD(model.parameters(), lr=0.1)", ":Net", ["not the model's", "make it a function"]),
        ("0.1", "", ["'optimizer' is a float"]),
        ("lambda p: 3", "", ["'optimizer' returns an int"]),
        ("lambda: 3", "", ["optimizer(parameters) fails", "TypeError: <lambda>() takes 0"]),
        ("lambda p: torch.optim.SGD(p, lr=-1)", "", ["Invalid learning rate", "lr=-1"]),
        (
            "torch.optim.SGD([model.conv.weight.requires_grad_(False)], lr=0.1)",
            "",
            ["every parameter of the optimizer is frozen"],
        ),
    ],
)
def test_optimizer_mistakes(tmp_path: Path, optimizer: str, name: str, phrases: list[str]) -> None:
    rendered = mistake(tmp_path, f"{GOOD}optimizer = {optimizer}\n", name).render()
    assert all(p in rendered for p in phrases), rendered


def test_own_optimizer_class(tmp_path: Path) -> None:
    text = GOOD + "class Mine(torch.optim.SGD): pass\noptimizer = lambda p: Mine(p, lr=0.1)\n"
    spec = user(tmp_path, text).optimizer
    assert spec.kind == "Mine" and spec.own is not None and spec.own.__name__ == "Mine"


SCHEDULES = {
    "ReduceLROnPlateau(optimizer, 'max')": "something else than the loss",
    "OneCycleLR(optimizer, 0.1, total_steps=9, base_momentum=[0.8, 0.7])": "different momenta",
    "LambdaLR(optimizer, [lambda e: e, lambda e: 1])": "ratio of the groups",
}


@pytest.mark.parametrize("made", SCHEDULES)
def test_schedulers_that_are_unsupported(tmp_path: Path, made: str) -> None:
    groups = "[{'params': [first]}, {'params': rest}]"
    made_over = f"first, *rest = model.parameters()\noptimizer = torch.optim.SGD({groups}, lr=0.1)\n"
    with pytest.raises(Unsupported, match=SCHEDULES[made]):
        user(tmp_path, GOOD + made_over + f"scheduler = torch.optim.lr_scheduler.{made}\n")


# ---- --input and --weights


def test_input_shape_instead_of_an_example(tmp_path: Path) -> None:
    text = HEAD + MODEL + "example_target = torch.tensor([0, 1])\n"
    got = user(tmp_path, text, input_shape="2x3x5x4")
    assert got.inputs[0].shape == (2, 3, 5, 4) and got.inputs[0].std() > 0.5


@pytest.mark.parametrize("batch", [1, 2, 3, 5])
def test_input_shape_may_change_the_batch(tmp_path: Path, batch: int) -> None:
    got = user(tmp_path, GOOD, input_shape=f"{batch}x3x6x5")
    plain = user(tmp_path, GOOD)
    assert got.inputs[0].shape[0] == got.target.shape[0] == batch
    assert torch.equal(got.inputs[0][:3], plain.inputs[0][:batch])
    assert torch.equal(got.target[:3], plain.target[:batch])


@pytest.mark.parametrize(
    ("shape", "phrase"),
    [
        ("1x3xx5", "not a shape"),
        ("0x3x6x5", "not a shape"),
        ("", "not a shape"),
        ("-1x3", "not a shape"),
        ("3x3x6x6", "only the batch"),
    ],
)
def test_wrong_input_shape(tmp_path: Path, shape: str, phrase: str) -> None:
    assert phrase in mistake(tmp_path, GOOD, input_shape=shape).render()


def test_weights(tmp_path: Path) -> None:
    model = user(tmp_path, GOOD).module
    with torch.no_grad():
        for p in model.parameters():
            p.add_(1)
    for content in (model.state_dict(), {"state_dict": model.state_dict(), "epoch": 3}):
        torch.save(content, tmp_path / "w.pt")
        got = user(
            tmp_path, GOOD + "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n", weights=tmp_path / "w.pt"
        )
        assert all(torch.equal(p, q) for p, q in zip(model.parameters(), got.module.parameters(), strict=True))


def test_wrong_weights(tmp_path: Path) -> None:
    model = user(tmp_path, GOOD).module
    path = tmp_path / "w.pt"

    def answer() -> str:
        return mistake(tmp_path, GOOD, weights=path).render()

    assert "there is no file" in answer()
    for content in (b"", b"no weights", b"PK\x03\x04"):
        path.write_bytes(content)
        assert "not a file of weights" in answer()
    torch.save(model, path)
    assert "not a file of weights" in answer()
    torch.save([1, 2], path)
    assert "no state_dict" in answer()
    state = model.state_dict()
    torch.save({**state, "fc.weight": torch.zeros(6, 5)}, path)
    assert "'fc.weight' is 6x5 there and 7x5 in the model" in answer()
    torch.save({("fcc.bias" if n == "fc.bias" else n): v for n, v in state.items()}, path)
    assert "it lacks 'fc.bias'; the model lacks 'fcc.bias'" in answer()
    torch.save({**state, "fc.bias": torch.full((7,), torch.nan)}, path)
    assert "parameter 'fc.bias' has 7 of 7" in answer()


# ---- samples


def test_made_up_samples_differ_and_fit(tmp_path: Path) -> None:
    got = user(tmp_path, GOOD + "example_input = example_input * 3 + 50\n", steps=4)
    assert torch.equal(got.samples[0][0][0], got.inputs[0]) and torch.equal(got.samples[0][1], got.target)
    assert len({s[0][0].sum().item() for s in got.samples}) == len(got.samples) == 4
    for (x,), y in got.samples:
        assert x.shape == (3, 3, 6, 5) and x.dtype == torch.float32 and abs(x.mean() - 50) < 2 and 2 < x.std() < 4
        assert y.shape == (3,) and y.dtype == torch.int64 and y.min() >= 0 and y.max() <= 6
    assert len({tuple(s[1].tolist()) for s in got.samples}) > 1


def test_accumulation_needs_more_samples(tmp_path: Path) -> None:
    assert len(user(tmp_path, GOOD, steps=2, accumulate=3).samples) == 6


def test_made_up_indices_fit_tables_of_several_sizes(tmp_path: Path) -> None:
    text = """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(4, 3), nn.Embedding(90, 3)
    def forward(self, pairs):
        return (self.users(pairs[:, 0]) * self.items(pairs[:, 1])).sum(1)
model = Net()
example_input = torch.stack([torch.arange(7) % 4, torch.arange(7) * 12], 1)
example_target = torch.randn(7)
"""
    samples = user(tmp_path, text).samples
    assert all(int(x[0][:, 0].max()) < 4 for x, _ in samples)
    assert len({tuple(x[0].flatten().tolist()) for x, _ in samples}) == len(samples)


def test_data_that_the_model_does_not_take(tmp_path: Path) -> None:
    extra = "data = [(torch.tensor([[i * 7]]), torch.tensor([1])) for i in range(5)]\n"
    text = "import torch\nfrom torch import nn\nmodel = nn.Sequential(nn.Embedding(20, 3), nn.Flatten())\n"
    assert "fails on sample 3 of data: IndexError" in mistake(tmp_path, text + extra).message


def test_an_image_stays_nonnegative_and_a_constant_does_not_stay(tmp_path: Path) -> None:
    got = user(tmp_path, GOOD + "example_input = torch.rand(3, 3, 6, 5)\n")
    assert all(s[0][0].min() >= 0 for s in got.samples)
    got = user(tmp_path, GOOD + "example_input = torch.zeros(3, 3, 6, 5)\n")
    assert all(s[0][0].std() > 0.5 for s in got.samples[1:])


TOKENS = HEAD + (
    "model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9))\n"
    "example_input = torch.tensor([[2, 5, 3, 4], [5, 5, 2, 3]])\n"
    "example_target = torch.tensor([[0, 1, 2, 3], [0, 0, 0, 0]])\n"
)


def test_token_models(tmp_path: Path) -> None:
    text = TOKENS + "loss = lambda o, t: F.cross_entropy(o.reshape(-1, 9), t.reshape(-1))\n"
    samples = user(tmp_path, text, steps=20).samples
    inputs, targets = torch.stack([s[0][0] for s in samples]), torch.stack([s[1] for s in samples])
    assert inputs.dtype == torch.int64 and set(inputs.unique().tolist()) == {2, 3, 4, 5}
    assert set(targets.unique().tolist()) == set(range(9))


@pytest.mark.parametrize(
    ("output", "target", "classes"),
    [((3, 7), (3,), 7), ((2, 5, 4, 6), (2, 4, 6), 5), ((2, 4, 9), (2, 4), 9), ((7,), (), 7), ((3, 7), (4,), None)],
)
def test_number_of_classes(output: tuple[int, ...], target: tuple[int, ...], classes: int | None) -> None:
    assert classes_of(torch.zeros(output), torch.zeros(target, dtype=torch.int64)) == classes


def test_integer_targets_that_are_not_classes(tmp_path: Path) -> None:
    text = GOOD + "loss = lambda o, t: F.cross_entropy(o[:, :3], t)\nexample_target = torch.tensor([0, 2, 1])\n"
    targets = torch.stack([s[1] for s in user(tmp_path, text, steps=12).samples])
    assert targets.max() == 2, "the loss refuses classes above 2"


def test_float_targets(tmp_path: Path) -> None:
    text = HEAD + "model = nn.Sequential(nn.Conv2d(3, 3, 1), nn.Sigmoid())\nexample_input = torch.rand(2, 3, 4, 5)\n"
    auto = user(tmp_path, text + "example_target = example_input\n")
    assert all(torch.equal(s[0][0], s[1]) for s in auto.samples)
    bce = "loss = nn.BCELoss()\nexample_target = (torch.rand(2, 3, 4, 5) > 0.7).float()\n"
    masks = user(tmp_path, text + bce).samples
    assert all(set(s[1].unique().tolist()) == {0.0, 1.0} for s in masks)
    assert not torch.equal(masks[0][1], masks[1][1])


def test_several_inputs_and_outputs(tmp_path: Path) -> None:
    text = HEAD + (
        "class Two(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.a = nn.Linear(4, 3)\n"
        "    def forward(self, x, y):\n"
        "        return {'sum': self.a(x) + y, 'difference': self.a(x) - y}\n"
        "model = Two()\n"
        "example_input = (torch.randn(2, 4), torch.randn(2, 3))\n"
        "example_target = {'sum': torch.randn(2, 3), 'difference': torch.randn(2, 3)}\n"
        "loss = lambda o, t: sum(F.mse_loss(o[k], t[k]) for k in o)\n"
    )
    got = user(tmp_path, text)
    assert len(got.inputs) == 2 and len(got.samples) == 5
    assert all(x.shape == (2, 4) and y.shape == (2, 3) and set(t) == {"sum", "difference"} for (x, y), t in got.samples)


# ---- data

ITEMS = "items = [(torch.full((3, 6, 5), float(i)), i % 7) for i in range(11)]\n"


@pytest.mark.parametrize(
    "data",
    [
        "items",
        "torch.utils.data.DataLoader(items, batch_size=3)",
        "torch.utils.data.TensorDataset(torch.stack([x for x, _ in items]), torch.tensor([y for _, y in items]))",
        "[(torch.stack([x for x, _ in b]), torch.tensor([y for _, y in b])) for b in zip(*[iter(items)] * 3)]",
        "((x.numpy(), y) for x, y in items)",
    ],
)
def test_data(tmp_path: Path, data: str) -> None:
    got = user(tmp_path, f"{GOOD}{ITEMS}data = {data}\n", steps=5)
    assert len(got.samples) == 3, "eleven items make three whole batches"
    for i, ((x,), y) in enumerate(got.samples):
        assert x.shape == (3, 3, 6, 5) and x.dtype == torch.float32
        assert x[:, 0, 0, 0].tolist() == [3 * i, 3 * i + 1, 3 * i + 2]
        assert y.tolist() == [(3 * i + k) % 7 for k in range(3)]
    assert torch.equal(got.inputs[0], got.samples[0][0][0])
    assert len(user(tmp_path, f"{GOOD}{ITEMS}data = {data}\n", steps=2).samples) == 2


def test_data_without_an_example(tmp_path: Path) -> None:
    text = HEAD + MODEL + ITEMS
    got = user(tmp_path, text + "data = items\n")
    assert (
        got.inputs[0].shape == (1, 3, 6, 5) and len(got.samples) == 5 and any("batch size: 1" in n for n in got.notes)
    )
    assert user(tmp_path, text + "data = items\n", input_shape="4x3x6x5").inputs[0].shape == (4, 3, 6, 5)
    loader = "data = torch.utils.data.DataLoader(items, batch_size=2, shuffle=True)\n"
    assert user(tmp_path, text + loader).inputs[0].shape == (2, 3, 6, 5)
    assert same(user(tmp_path, text + loader), user(tmp_path, text + loader))


@pytest.mark.parametrize(
    ("data", "phrases"),
    [
        ("[]", ["'data' is empty"]),
        ("3", ["'data' is of type int"]),
        ("(torch.randn(9, 3, 6, 5), torch.zeros(9).long())", ["one pair of tensors", "TensorDataset"]),
        ("[(torch.randn(3, 3, 6, 5), 1, 2)]", ["sample 0 of data is 3 values"]),
        ("[('a', 1)]", ["sample 0 of data holds the str 'a'"]),
        ("[(torch.randn(3, 3, 6, 4), torch.tensor([1, 2, 3]))]", ["sample 0", "3x3x6x4", "example_input is (3x3x6x5"]),
        ("[(torch.randn(3, 3, 6, 5), torch.tensor([1., 2., 3.]))]", ["3 float32", "example_target is 3 int64"]),
        ("[(torch.randn(3, 3, 6, 5).double(), torch.tensor([1, 2, 3]))]", ["input of sample 0 of data is float64"]),
        (
            "[(torch.randn(3, 3, 6, 5), torch.tensor([1, 2, 3])), (torch.randn(3, 3, 6, 7), torch.tensor([1, 2, 3]))]",
            ["sample 1 of data does not fit", "3x3x6x7", "the first input"],
        ),
        (
            "[(torch.randn(3, 3, 6, 5), torch.tensor([1, 2, 3])), (torch.randn(3, 3, 6, 5), torch.tensor([1, 2, 8]))]",
            ["class index 8 in sample 1 of data"],
        ),
        (
            "[(torch.randn(3, 6, 5), 1), (torch.randn(3, 6, 7), 2), (torch.randn(3, 6, 5), 2)]",
            ["differ in shape within a batch"],
        ),
        ("[(1 / 0, 1) for _ in 'ab']", ["ZeroDivisionError"]),
    ],
)
def test_wrong_data(tmp_path: Path, data: str, phrases: list[str]) -> None:
    rendered = mistake(tmp_path, f"{GOOD}data = {data}\n").render()
    assert all(p in rendered for p in phrases), rendered


def test_dataset_that_raises(tmp_path: Path) -> None:
    text = GOOD + (
        "class Data(torch.utils.data.Dataset):\n"
        "    def __len__(self): return 9\n"
        "    def __getitem__(self, i): return self.files[i], 0\n"
        "data = Data()\n"
    )
    err = mistake(tmp_path, text)
    assert "data cannot be read" in err.message and err.source is not None and "self.files[i]" in err.source.text
