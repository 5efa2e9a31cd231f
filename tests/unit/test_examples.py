"""Files of examples and the order in which they are learned from: in C and in Python."""

from __future__ import annotations

import ctypes
import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from golden.examples import Examples, Layout, NoExamples
from golden.fit import How, fit
from golden.shuffle import ROUNDS, shuffled
from golden.snapshot import Snapshot
from golden.task import Task
from tests.fuzz import damaged_examples
from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.cli.main import cli
from trainlib_deployer.errors import UsageError
from trainlib_deployer.user.trial import Trial

ROOT = Path(__file__).resolve().parents[2]
NET = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
loss = nn.CrossEntropyLoss()
x, y = torch.randn(13, 6), torch.randint(3, (13,))
example_input, example_target = x[:4], y[:4]
data = TensorDataset(x, y)
loader = DataLoader(data, batch_size=5)
pairs = [(x[i].numpy(), int(y[i])) for i in range(13)]
wrong = [(x[0], 1)] * 7 + [(x[0], 3)]
double = [(x[0].double(), 1)] * 7
wide = [(torch.randn(7), 1)] * 7
few = [(x[0], 1)] * 3
"""


def written(folder: Path, name: str, net: str = NET) -> tuple[int, str]:
    (folder / "net.py").write_text(net)
    done = CliRunner().invoke(cli, ["data", f"{folder / 'net.py'}{name}", "--out", str(folder / "out.bin")])
    return done.exit_code, done.output


@pytest.mark.parametrize("name", ["", ":loader", ":pairs"])
def test_every_example_once(name: str, tmp_path: Path) -> None:
    """Whatever the batch, also those at the end that make no whole one."""
    code, output = written(tmp_path, name)
    assert code == 0 and "13 examples, 396 bytes" in output and "; an example: input 6, target int32\n" in output, (
        output
    )
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    exec(NET, names)
    like = ((names["example_input"],), names["example_target"])
    read = Examples.read(tmp_path / "out.bin", Layout.of(*like))
    (x,), y = read.sample(like, [12, 0, 7, 7])
    assert torch.equal(x, names["x"][[12, 0, 7, 7]]) and torch.equal(y, names["y"][[12, 0, 7, 7]])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (":wrong", "class index 3 in sample 7 of data is out of range"),
        (
            ":double",
            "sample 0 of data does not fit: it has 1x6 float64, 1 int64 where a step takes 4x6 float32, 4 int64",
        ),
        (":wide", "it has 1x7 float32"),
        (":few", "data has 3 examples; a step takes 4"),
        (":absent", "net.py has no 'absent'"),
    ],
)
def test_what_is_refused_leaves_no_file(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "out.bin").write_bytes(b"TLDS as before")
    code, output = written(tmp_path, name)
    assert code == 2 and words in output, output
    assert (tmp_path / "out.bin").read_bytes() == b"TLDS as before"
    assert {p.name for p in tmp_path.iterdir()} == {"net.py", "out.bin"}


def test_a_source_is_not_written_over(tmp_path: Path) -> None:
    """Nor anything else that is no file of examples; one of these is."""
    source = tmp_path / "net.py"
    source.write_text(NET)
    done = CliRunner().invoke(cli, ["data", str(source), "--out", str(source)])
    assert done.exit_code == 2 and f"{source} exists and is no file of examples" in done.output, done.output
    assert source.read_text() == NET
    for _ in range(2):
        code, output = written(tmp_path, "")
        assert code == 0, output


def test_a_sample_that_does_not_come_apart(tmp_path: Path) -> None:
    """Time comes first, the target is a row: an example is what a step takes."""
    net = NET.partition("x, y =")[0].replace(
        "nn.Linear(6, 5)", "nn.Linear(6, 5), nn.Flatten(0), nn.Unflatten(0, (1, 35))"
    )
    net = net.replace("nn.Linear(5, 3)", "nn.Linear(35, 3)")
    net += "data = [(torch.randn(7, 6), torch.tensor([i % 3])) for i in range(5)]\nexample_input = data[0][0]\n"
    code, output = written(tmp_path, "", net)
    assert code == 0 and "5 examples" in output, output
    like = (torch.zeros(7, 6),), torch.zeros(1, dtype=torch.int64)
    read = Examples.read(tmp_path / "out.bin", Layout.of(*like))
    assert read.sample(like, [4])[1].tolist() == [1]
    with pytest.raises(NoExamples, match="other shapes or types"):
        Examples.read(tmp_path / "out.bin", Layout.of((torch.zeros(7, 6),), torch.zeros(1)))


TIME_FIRST = """\
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent, self.drop, self.head = nn.LSTM(1, 5), nn.Dropout(), nn.Linear(5, 1)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.head(self.drop(self.recurrent(x)[0]))


model = Net()
loss = nn.MSELoss()
xs = [torch.randn(7, 3, 1) for _ in range(11)]
data = [(x, x.cumsum(0)) for x in xs]
"""


def test_time_comes_first_in_the_target_too(tmp_path: Path) -> None:
    """Fault: sequences were cut along time, as their first extents are equal, and their rows shuffled."""
    code, output = written(tmp_path, "", TIME_FIRST)
    assert code == 0 and "11 examples" in output, output
    assert "; an example: input 7x3x1, target 7x3x1\n" in output
    rows = TIME_FIRST.replace("nn.LSTM(1, 5)", "nn.LSTM(1, 5, batch_first=True)")
    code, output = written(tmp_path, "", rows)
    assert code == 0 and "77 examples" in output and "; an example: input 3x1, target 3x1\n" in output, output


@pytest.mark.slow
def test_asking_what_an_example_is_leaves_no_trace(tmp_path: Path) -> None:
    """And the project goes by the same answer."""
    names: dict[str, Any] = {}
    exec(TIME_FIRST, names)
    model, (x, y) = names["model"], names["data"][0]
    made = deploy(model, x, y, cores=1, l1="64k", steps=1, out=tmp_path / "p")
    assert made.task is not None and not made.task.by_row and made.task.layout.batch == 1
    assert model.calls == 0 and model.training and model.drop.training
    assert "#define NET_EXAMPLES 1\n" in (tmp_path / "p" / "net.h").read_text()
    assert not json.loads((tmp_path / "p" / "model" / "spec.json").read_text())["by_row"]


class Noise(torch.nn.Module):
    """That no mode turns off."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x)


@pytest.mark.parametrize(
    ("module", "wanted"),
    [
        (torch.nn.BatchNorm1d(5, track_running_stats=False), True),
        (Noise(), True),
        (torch.nn.GRU(5, 4), False),
        (torch.nn.GRU(5, 4, bidirectional=True), False),
        (torch.nn.Conv1d(7, 7, 1), False),
        (torch.nn.Flatten(0), True),
    ],
)
def test_rows_that_are_examples(module: torch.nn.Module, wanted: bool) -> None:
    trial = Trial(module, None, Snapshot(module))
    assert trial.takes_rows((torch.randn(7, 5),)) == wanted


@pytest.mark.compiler
def test_damaged_files(tmp_path: Path) -> None:
    found = damaged_examples.campaign(300, 2, tmp_path)
    assert found[""] == 1 and found.total() == 301 and len(found) == 5, found


# ---- order


class Shuffle(ctypes.Structure):
    """tl_shuffle."""

    _fields_ = (
        ("count", ctypes.c_uint32),
        ("mask", ctypes.c_uint32),
        ("shift", ctypes.c_int),
        ("keys", ctypes.c_uint32 * (2 * ROUNDS)),
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    out = tmp_path_factory.mktemp("shuffle") / "shuffle.so"
    source = str(ROOT / "c_lib" / "kernels" / "shuffle.c")
    include = f"-I{ROOT / 'c_lib' / 'include'}"
    subprocess.run(["gcc", "-std=gnu99", "-O1", "-shared", "-fPIC", include, source, "-o", str(out)], check=True)
    return ctypes.CDLL(str(out))


@pytest.mark.compiler
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 31, 32, 33, 1437])
def test_the_order_in_c_is_that_of_python(count: int, library: ctypes.CDLL) -> None:
    for seed, epoch in ((0, 0), (0, 1), (7, 0), (2**32 - 1, 12345)):
        shuffle = Shuffle()
        library.tl_shuffle_begin(ctypes.byref(shuffle), *map(ctypes.c_uint32, (count, seed, epoch)))
        order = [library.tl_shuffle_at(ctypes.byref(shuffle), ctypes.c_uint32(i)) for i in range(count)]
        assert order == shuffled(count, seed, epoch)
        assert sorted(order) == list(range(count))


@pytest.mark.slow
def test_every_order_comes_up() -> None:
    """As often as the others: within five deviations."""
    for count, orders in ((3, 6), (4, 24), (5, 120)):
        seen = Counter(tuple(shuffled(count, 1, epoch)) for epoch in range(30 * orders))
        assert len(seen) == orders
        assert max(abs(n - 30) for n in seen.values()) < 5 * np.sqrt(30), seen


@pytest.mark.slow
def test_every_example_is_everywhere() -> None:
    """Neighbours in one epoch are no neighbours in the next, the first comes last as often as any other."""
    count, epochs = 37, 1000
    orders = np.array([shuffled(count, 5, epoch) for epoch in range(epochs)])
    places = np.stack([np.bincount(orders[:, i], minlength=count) for i in range(count)])
    expected = epochs / count
    assert ((places - expected) ** 2 / expected).sum() < count**2 + 5 * np.sqrt(2 * count**2)
    steps = np.bincount((np.diff(orders, axis=1) % count).ravel(), minlength=count)[1:]
    assert abs(steps / epochs - 1).max() < 0.2


def test_from_python(tmp_path: Path) -> None:
    """Of a model that came from no file; whatever it is trained with meanwhile."""
    model, loss = torch.nn.Linear(6, 3), torch.nn.CrossEntropyLoss()
    x, y = torch.randn(13, 6), torch.randint(3, (13,))
    task = Task(model, loss, [((x[:4],), y[:4])], "SGD", [])
    before = {n: v.clone() for n, v in model.state_dict().items()}
    made = Deployment(None, tmp_path, task)  # type: ignore[arg-type]
    assert made.write_examples(list(zip(x, y, strict=True)), tmp_path / "out.bin") == 13
    read = Examples.read(tmp_path / "out.bin", Layout.of((x[:4],), y[:4]))
    assert torch.equal(read.sample(((x[:4],), y[:4]), [3, 12, 0, 1])[0][0], x[[3, 12, 0, 1]])
    assert all(torch.equal(v, before[n]) for n, v in model.state_dict().items())
    with pytest.raises(UsageError, match="class index 7 in sample 0"):
        made.write_examples([(x[0], 7)] * 9, tmp_path / "other.bin")
    with pytest.raises(UsageError, match="cannot write"):
        made.write_examples([(x[0], 1)] * 9, tmp_path / "absent" / "out.bin")
    assert {p.name for p in tmp_path.iterdir()} == {"out.bin"}


def test_odd_values_and_files_of_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Faults: NaN went into a file without a word, and whatever bore the file's name was written over."""
    x, y = torch.randn(13, 6), torch.randint(3, (13,))
    task = Task(torch.nn.Linear(6, 3), torch.nn.CrossEntropyLoss(), [((x[:4],), y[:4])], "SGD", [])
    made = Deployment(None, tmp_path, task)  # type: ignore[arg-type]
    x[5, 1], x[7, 0] = float("nan"), float("inf")
    made.write_examples(list(zip(x, y, strict=True)), tmp_path / "out.bin")
    assert capsys.readouterr().err == "note: 2 samples of data have values that are NaN or infinite\n"
    (tmp_path / "net.py").write_text("model = 1\n")
    with pytest.raises(UsageError, match=r"net\.py exists and is no file of examples: it stays as it is"):
        made.write_examples(list(zip(x, y, strict=True)), tmp_path / "net.py")
    assert (tmp_path / "net.py").read_text() == "model = 1\n"
    with pytest.raises(UsageError, match=r"float64, .*; convert it: \.to\(torch\.float32\)"):
        made.write_examples(list(zip(x.double(), y, strict=True)), tmp_path / "out.bin")


@pytest.mark.parametrize("kind", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool])
def test_integers_of_all_widths(kind: torch.dtype, tmp_path: Path) -> None:
    """As inputs and as targets, there and back."""
    x, y = (torch.randint(2 if kind is torch.bool else 100, s).to(kind) for s in ((13, 6), (13, 2)))
    task = Task(torch.nn.Identity(), lambda o, t: o.float().mean() - t.float().mean(), [((x[:4],), y[:4])], "SGD", [])
    made = Deployment(None, tmp_path, task)  # type: ignore[arg-type]
    assert made.write_examples(list(zip(x, y, strict=True)), tmp_path / "out.bin") == 13
    (given,), target = Examples.read(tmp_path / "out.bin", task.layout).sample(((x[:4],), y[:4]), [3, 12, 0, 1])
    assert given.dtype is target.dtype is kind
    assert torch.equal(given, x[[3, 12, 0, 1]]) and torch.equal(target, y[[3, 12, 0, 1]])


def test_a_scheduler_that_ends_before_the_training(tmp_path: Path) -> None:
    """Fault: PyTorch's own words in the middle of it, and one step too many behind the last update."""
    x, y = torch.randn(12, 6), torch.randint(3, (12,))
    model = torch.nn.Linear(6, 3)

    def scheduler(optimizer: torch.optim.Optimizer) -> Any:
        return torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=6, cycle_momentum=False)

    groups = [({"lr": 0.1}, ["weight", "bias"])]
    task = Task(model, torch.nn.CrossEntropyLoss(), [((x[:4],), y[:4])], "SGD", groups, scheduler=scheduler)
    made = Deployment(None, tmp_path, task)  # type: ignore[arg-type]
    made.write_examples(list(zip(x, y, strict=True)), tmp_path / "train.bin")
    train = Examples.read(tmp_path / "train.bin", task.layout)
    assert len(fit(task, train, None, How(epochs=2)).losses) == 6
    with pytest.raises(ValueError, match="the scheduler ends after 6 updates; this training makes 9"):
        fit(task, train, None, How(epochs=3))


# ---- epochs

EPOCHS = """\
#include "tl_fit.h"
static int now;
static float train(float rate, float momentum) { (void)rate, (void)momentum, now++; return 1.0f; }
static int steps(void) { return now; }
static void on_core(void (*fn)(void *), void *arg) { fn(arg); }
static int nothing(const tl_examples *from, uint32_t at, void *data, uint32_t bytes)
{
    (void)from, (void)at, (void)data, (void)bytes;
    return 0;
}
int learned(uint32_t epochs, uint32_t most, uint32_t patience, uint32_t updates, int *fault)
{
    static const float rates[9];
    const tl_sample sample = {.examples = 2};
    const tl_network net = {.sample = &sample, .train = train, .steps = steps, .on_core = on_core,
                            .accumulate = 3};
    const tl_examples data = {.read = nothing, .count = 11};
    const tl_fit how = {.train = &data, .epochs = epochs, .steps = most, .patience = patience,
                        .rates = updates ? rates : 0, .updates = updates};
    now = 0;
    *fault = tl_fit_network(&net, &how);
    return now;
}
"""


@pytest.mark.compiler
def test_how_long_it_learns(tmp_path: Path) -> None:
    """Five samples an epoch, three to an update: patience counts evaluations alone; a schedule lasts or is refused."""
    (tmp_path / "epochs.c").write_text(EPOCHS)
    sources = [tmp_path / "epochs.c", *(ROOT / "c_lib" / "kernels" / f"{n}.c" for n in ("fit", "shuffle", "examples"))]
    out, include = tmp_path / "epochs.so", f"-I{ROOT / 'c_lib' / 'include'}"
    flags = ["-std=gnu99", "-O1", "-shared", "-fPIC", include]
    subprocess.run(["gcc", *flags, *map(str, sources), "-o", str(out)], check=True)
    library, fault = ctypes.CDLL(str(out)), ctypes.c_int()

    def learned(*how: int) -> tuple[int, int]:
        return library.learned(*map(ctypes.c_uint32, how), ctypes.byref(fault)), fault.value

    schedule_is_short = 9  # TL_DATA_RATES
    assert learned(4, 0, 1, 0) == (20, 0)
    assert learned(3, 0, 0, 5) == (15, 0)
    assert learned(3, 0, 0, 4) == (0, schedule_is_short)
    assert learned(3, 12, 0, 4) == (12, 0)
    assert learned(3, 13, 0, 4) == (0, schedule_is_short)
    assert learned(2**32 - 1, 0, 0, 4) == (0, schedule_is_short)
    assert learned(0, 0, 0, 1) == (0, 0)
