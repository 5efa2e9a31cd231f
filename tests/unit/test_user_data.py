"""What a script calls its data and its metrics."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.unit.user_file import GOOD, HEAD, MODEL, mistake, user


def test_a_loader_that_is_a_list(tmp_path: Path) -> None:
    """Of pairs; what else is called so is nothing."""
    pairs = "train_loader = [(torch.randn(2, 3, 6, 5), torch.tensor([k, 3])) for k in range(4)]\n"
    got = user(tmp_path, f"{HEAD}{MODEL}loader = ['a', 'b']\n{pairs}", steps=3)
    assert [s[1].tolist() for s in got.samples] == [[0, 3], [1, 3], [2, 3]]
    assert "data: 'train_loader' of net.py" in got.notes


def test_a_dataset_that_is_called_so(tmp_path: Path) -> None:
    """And a loader rather than a dataset; tensors of such a name are no data."""
    made = "torch.utils.data.TensorDataset(torch.randn(8, 3, 6, 5), torch.arange(8) % 4)\n"
    text = f"{HEAD}{MODEL}dataset = 'cifar'\ntrain_data = torch.ones(3)\ntrain_dataset = {made}"
    text += "example_input = torch.randn(2, 3, 6, 5)\n"
    got = user(tmp_path, text, steps=2)
    assert [s[1].tolist() for s in got.samples] == [[0, 1], [2, 3]] and "data: 'train_dataset' of net.py" in got.notes
    text += "train_loader = torch.utils.data.DataLoader(train_dataset, batch_size=2, sampler=range(7, 0, -1))\n"
    got = user(tmp_path, text, steps=2)
    assert [s[1].tolist() for s in got.samples] == [[3, 2], [1, 0]] and "data: 'train_loader' of net.py" in got.notes


@pytest.mark.parametrize("name", ["a\nb", "\t", ""])
def test_a_metric_whose_name_no_line_can_show(tmp_path: Path, name: str) -> None:
    assert (
        "has a name that no line can show"
        in mistake(tmp_path, f"{GOOD}metrics = {{{name!r}: lambda o, t: o.mean()}}\n").message
    )


def test_targets_that_are_numbers_of_python(tmp_path: Path) -> None:
    """Single items with a float each become a batch of ours, which PyTorch's collation would make float64."""
    text = (
        f"{HEAD}{MODEL}data = [(torch.randn(3, 6, 5), 0.25 * k) for k in range(4)]\nexample_input = data[0][0][None]\n"
    )
    text += "loss = lambda output, target: (output.mean(1) - target).square().mean()\n"
    got = user(tmp_path, text, steps=2)
    assert [(s[1].dtype, s[1].tolist()) for s in got.samples] == [(torch.float32, [0.0]), (torch.float32, [0.25])]


PAIRED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, x):
        near, far = x.unbind(0)
        return (self.layer(near) * self.layer(far)).sum(1)


model = Net()
"""


@pytest.mark.parametrize("target", ["torch.zeros(4)", "torch.zeros(1)"])
def test_batches_whose_tensors_differ_in_their_first_extent(tmp_path: Path, target: str) -> None:
    """Pairs side by side, a target that nobody needs: as single examples they do not run."""
    text = f"{HEAD}{PAIRED}data = [(torch.randn(2, 4, 5), {target}) for k in range(3)]\n"
    text += "loss = lambda output, target: (output - target).square().mean()\n"
    got = user(tmp_path, text, steps=3)
    assert len(got.samples) == 3 and got.inputs[0].shape == (2, 4, 5)
    assert "data: its items are batches, for as single examples they do not run" in got.notes


def test_single_examples_that_would_run_as_batches_are_single(tmp_path: Path) -> None:
    """And those that run as neither fail as what they were taken for."""
    text = f"{HEAD}model = nn.Linear(5, 3)\ndata = [(torch.randn(4, 5), torch.randn(3)) for k in range(3)]\n"
    text += "loss = lambda output, target: (output - target.unsqueeze(1)).square().mean()\n"
    assert user(tmp_path, text, steps=3).inputs[0].shape == (1, 4, 5)
    assert "1x4x5" in str(mistake(tmp_path, text.replace("Linear(5", "Linear(6")))


@pytest.mark.parametrize("loader", [False, True])
def test_targets_of_two_parts(tmp_path: Path, loader: bool) -> None:
    """As they are given, tuples; a loader of PyTorch's makes lists of them, where the example may be a tuple."""
    text = """
class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 3), nn.Linear(6, 1)
    def forward(self, x):
        return self.a(x), self.b(x)
model = Two()
def loss(o, t):
    return nn.functional.cross_entropy(o[0], t[0]) + nn.functional.mse_loss(o[1], t[1])
data = [(torch.randn(4, 6), (torch.tensor([0, 2, 1, 1]), torch.randn(4, 1))) for _ in range(3)]
example_input, example_target = data[0]
"""
    if loader:
        text += "data = torch.utils.data.DataLoader([(x[0], (a[0], b[0])) for x, (a, b) in data * 4], batch_size=4)\n"
    got = user(tmp_path, HEAD + text, steps=2)
    assert isinstance(got.samples[1][1], list if loader else tuple) and len(got.samples) == 2
