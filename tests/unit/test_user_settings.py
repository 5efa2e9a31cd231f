"""What a user gives beside the model: optimizer, shapes, weights, samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from golden import reference
from golden.task import Task
from tests.unit.user_file import GOOD, HEAD, MODEL, mistake, same, user
from trainlib_deployer.errors import Unsupported
from trainlib_deployer.user.samples import classes_of


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


ENDS = {
    "OneCycleLR(optimizer, 0.1, total_steps=3)": ("ends after 3 updates, 4 are asked for", "at most 3, or "),
    "LambdaLR(optimizer, lambda e: [3, 2, 1][e])": ("fails after 3 updates: IndexError", "--steps"),
}


@pytest.mark.parametrize("made", ENDS)
def test_a_schedule_that_ends_before_the_last_update(tmp_path: Path, made: str) -> None:
    optimizer = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    text = f"{GOOD}{optimizer}scheduler = torch.optim.lr_scheduler.{made}\n"
    found = mistake(tmp_path, text, steps=4)
    assert found.message.startswith(f"the scheduler {ENDS[made][0]}") and ENDS[made][1] in found.remedy, found.render()
    assert len(user(tmp_path, text, steps=3).schedule.rates) == 3


def test_the_reference_asks_for_no_settings_after_the_last() -> None:
    model = torch.nn.Linear(3, 2)
    x, y = torch.randn(4, 3), torch.randn(4, 2)
    groups = [({"lr": 0.1}, [n for n, _ in model.named_parameters()])]
    task = Task(model, torch.nn.MSELoss(), [((x,), y)], "SGD", groups, accumulate=2, scheduler=ended)
    record = reference.run(task, 6, torch.float32)
    assert (5, "parameter", "weight") in record


def ended(optimizer: torch.optim.Optimizer) -> Any:
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda e: [3, 2, 1][e])


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


def test_padded_sequences(tmp_path: Path) -> None:
    """Made up anew, they would have padding inside: PyTorch's CTC has a gradient of its own for blanks there."""
    text = HEAD + (
        "model = nn.Linear(6, 9)\nexample_input = torch.randn(8, 3, 6)\n"
        "example_target = torch.tensor([[1, 1, 2, 8], [3, 0, 0, 0], [5, 5, 5, 5]])\n"
        "loss = lambda o, t: F.ctc_loss(o.log_softmax(2), t, [8, 8, 8], [4, 1, 4])\n"
    )
    first, *others = user(tmp_path, text, steps=4).samples
    assert all(torch.equal(target, first[1]) for _, target in others)
    assert not any(torch.equal(x, first[0][0]) for (x,), _ in others)


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
        (
            "[{'input_ids': torch.zeros(3, 5), 'labels': torch.zeros(3), 'mask': torch.zeros(3, 5)}]",
            ["must be a pair", 'data = [((b["input_ids"], b["mask"]), b["labels"]) for b in loader]'],
        ),
        ("[(1 / 0, 1) for _ in 'ab']", ["ZeroDivisionError"]),
    ],
)
def test_wrong_data(tmp_path: Path, data: str, phrases: list[str]) -> None:
    rendered = mistake(tmp_path, f"{GOOD}data = {data}\n").render()
    assert all(p in rendered for p in phrases), rendered


def test_another_batch_than_the_data_has(tmp_path: Path) -> None:
    text = f"{GOOD}data = [(torch.randn(3, 3, 6, 5), torch.tensor([1, 2, 3]))]\n"
    rendered = mistake(tmp_path, text, input_shape="5x3x6x5").render()
    assert "where --input 5x3x6x5 is" in rendered and "leave it away" in rendered


def test_dataset_that_raises(tmp_path: Path) -> None:
    text = GOOD + (
        "class Data(torch.utils.data.Dataset):\n"
        "    def __len__(self): return 9\n"
        "    def __getitem__(self, i): return self.files[i], 0\n"
        "data = Data()\n"
    )
    err = mistake(tmp_path, text)
    assert "data cannot be read" in err.message and err.source is not None and "self.files[i]" in err.source.text
