"""The generated C stepped from Python: the bits of a verification, several programs at once, mistakes in one line."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from trainlib_deployer.api import Deployment, deploy
from trainlib_deployer.errors import UsageError
from trainlib_deployer.run import session as session_module
from trainlib_deployer.run.session import Session
from trainlib_deployer.state.replace import put_weights

torch.set_num_threads(1)
STEPS = 4


class Net(nn.Module):
    """Two inputs, two outputs, statistics, dropout, indices."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 6)
        self.body = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.3))
        self.head = nn.Linear(6, 3)
        self.register_buffer("mask", torch.ones(6, dtype=torch.bool))
        self.register_buffer("order", torch.arange(6))

    def forward(self, x: torch.Tensor, word: torch.Tensor) -> dict[str, torch.Tensor]:
        y = (self.body(x) + self.table(word))[:, self.order] * self.mask
        return {"class": self.head(y), "code": y}


def loss(out: dict[str, torch.Tensor], target: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(out["class"], target) + out["code"].square().mean()


def sample() -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
    return (torch.randn(7, 5), torch.randint(11, (7,))), torch.randint(3, (7,))


def deployed(out: Path, seed: int = 1, **options: Any) -> tuple[Deployment, Net, list[Any]]:
    torch.manual_seed(seed)
    net = Net()
    data = [sample() for _ in range(STEPS)]
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.03, total_steps=9)  # changes beta1, too
    options = {"cores": 4, "l1": "64k", "l2": "1M", "steps": STEPS, "scheduler": scheduler, **options}
    made = deploy(net, *data[0], loss=loss, optimizer=optimizer, data=data, out=out, **options)
    return made, net, data


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Deployment, Net, list[Any]]:
    return deployed(tmp_path_factory.mktemp("session") / "p")


def test_the_bits_of_a_verification(made: tuple[Deployment, Net, list[Any]], tmp_path: Path) -> None:
    """Losses, outputs, the state at the end; again after a reset; with another number of threads."""
    deployment, _, data = made
    result = deployment.verify()
    result.raise_if_failed()
    assert "steps on host agree with PyTorch" in (deployment.folder / "report.html").read_text()
    command = ["make", "-s", "-C", str(deployment.folder), "host", "TRACE=0", f"SAVE={tmp_path / 'host'}"]
    subprocess.run(command, check=True, capture_output=True)
    for session in (Session(deployment.folder), Session(deployment.folder, cores=3)):
        for _ in range(2):
            first = session.predict(data[0][0])
            assert first.keys() == {"class", "code"}
            for name, value in first.items():
                assert torch.equal(value, torch.tensor(result.computed[0, "output", name]))
            assert session.evaluate(*data[0]) == result.losses[0]
            assert [session.step(x, y) for x, y in data] == result.losses
            session.save(tmp_path / "here")
            size = (tmp_path / "here").stat().st_size
            assert (tmp_path / "here").read_bytes() == (tmp_path / "host").read_bytes()[:size]
            with pytest.raises(UsageError, match="covers 4 updates"):
                session.step(*data[0])
            session.reset()
    session.load(tmp_path / "host")
    assert session.steps == STEPS


def test_two_programs_at_once(made: tuple[Deployment, Net, list[Any]], tmp_path: Path) -> None:
    """Of two networks, and twice of one: none knows of the others."""
    deployment, _, data = made
    deployment.reset()
    other, _, others = deployed(tmp_path / "p", seed=2, l1="16k", cores=2)
    again = Session(deployment.folder)
    alone = [other.step(x, y) for x, y in others]
    other.reset()
    losses = [(deployment.step(x, y), other.step(*o), again.step(x, y)) for (x, y), o in zip(data, others, strict=True)]
    assert [b for _, b, _ in losses] == alone and all(a == c for a, _, c in losses)


def test_weights_both_ways(made: tuple[Deployment, Net, list[Any]]) -> None:
    """What a module holds goes in; what was learned comes out, and gives PyTorch the same outputs."""
    deployment, net, data = made
    session = Session(deployment.folder)
    for x, y in data[:2]:
        session.step(x, y)
    state = session.state_dict()
    assert state["body.1.num_batches_tracked"] == 2 and state.keys() == net.state_dict().keys()
    fresh = Net()
    fresh.load_state_dict(state)
    again = Session(deployment.folder)
    again.load_state_dict(fresh.state_dict())
    assert all(torch.equal(v, state[n]) for n, v in again.state_dict().items())
    assert session.optimizer_state_dict()["state"][0]["step"] == 2 and not again.optimizer_state_dict()["state"]
    fresh.body[3].p = 0.0
    before = again.predict(data[2][0])
    dropped = before["code"] - fresh.table(data[2][0][1])
    kept = dropped != 0
    wanted = fresh.body(data[2][0][0]) / (1 - 0.3)
    assert torch.allclose(dropped[kept], wanted[kept], atol=1e-5) and kept.sum() > 5


MISTAKES: dict[str, Any] = {
    "target 'target' is 6; the program was deployed for 7": lambda x, y: (x, y[:6]),
    "input 'input' is 7x6; the program was deployed for 7x5": lambda x, y: ((torch.zeros(7, 6), x[1]), y),
    "1 tensors as input; the program takes 2": lambda x, y: (x[0], y),
    "input 'input1' is float32; the program takes integers": lambda x, y: ((x[0], x[1].float()), y),
    "target 'target' has values that do not fit int32": lambda x, y: (x, y + 2**33),
    "input 'input' is 7x5x2; the program was deployed for 7x5": lambda x, y: ((x[0] + 1j, x[1]), y),
    "target 'target' is of type complex128; the program takes real numbers": lambda x, y: (x, y.numpy() + 1j),
    "target 'target' is of type <U3; the program takes real numbers": lambda x, y: (x, "abc"),
    "target 'target' cannot be read as numbers: setting an array element with a sequence. The requested array has an "
    "inhomogeneous shape after 1 dimensions. The detected shape was (2,) + inhomogeneous part.": lambda x, y: (
        x,
        [[1, 2], [3]],
    ),
    "target 'target' cannot be read as numbers: Cannot copy out of meta tensor; no data!": lambda x, y: (
        x,
        y.to("meta"),
    ),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes(words: str, made: tuple[Deployment, Net, list[Any]]) -> None:
    deployment, _, data = made
    deployment.reset()
    with pytest.raises(UsageError) as refused:
        deployment.step(*MISTAKES[words](*data[0]))
    assert refused.value.message == words
    assert deployment.session.steps == 0


def test_what_is_read_and_written(made: tuple[Deployment, Net, list[Any]], tmp_path: Path) -> None:
    """Lists and other precisions are numbers, too; a folder that is not there is said."""
    deployment, _, data = made
    (x, word), y = data[0]
    losses = []
    for given in ((x.bfloat16(), word.tolist()), (x.bfloat16().float().tolist(), word)):
        deployment.reset()
        arrays = [torch.tensor(g) if isinstance(g, list) else g for g in given]
        losses.append(deployment.step(tuple(arrays), y.tolist()))
    assert losses[0] == losses[1]
    deployment.load_state_dict(
        {n: v.bfloat16() if v.is_floating_point() else v for n, v in made[1].state_dict().items()}
    )
    for wrong in (
        lambda: deployment.session.save(tmp_path / "nowhere" / "saved"),
        lambda: deployment.session.load(tmp_path / "nowhere" / "saved"),
        lambda: deployment.step(*data[0], learning_rate="fast"),
        lambda: deployment.load_state_dict([]),
        lambda: deployment.verify(cores=99),
        lambda: deployment.verify(steps=0),
        lambda: Session(deployment.folder, cores="all"),
        lambda: Session(3),  # type: ignore[arg-type]
    ):
        with pytest.raises(UsageError) as refused:
            wrong()
        assert "\n" not in refused.value.message


def test_systems_that_cannot_close_a_library(
    made: tuple[Deployment, Net, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("_ctypes.dlclose")
    importlib.reload(session_module)
    assert session_module.Session(made[0].folder).steps == 0


def test_state_dicts_that_do_not_fit(made: tuple[Deployment, Net, list[Any]]) -> None:
    deployment, net, _ = made
    state = net.state_dict()
    for wrong, words in (
        ({n: v for n, v in state.items() if n != "head.bias"}, "lacks 'head.bias'"),
        ({**state, "more": torch.ones(1)}, "has no place in the program for 'more'"),
        ({**state, "head.bias": torch.ones(4)}, "'head.bias' is 4 in the state dict and 3 in the program"),
        ({**state, "order": torch.arange(6) * 2**33}, "'order' has values that do not fit"),
    ):
        with pytest.raises(UsageError, match=words):
            deployment.load_state_dict(wrong)
    with pytest.raises(UsageError, match="stacks for 1 to 4"):
        Session(deployment.folder, cores=5)


class Pruned(nn.Module):
    """Buffers that decide on a branch, on a shape and, calculated with, on places; and one that is calculated with."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 4)
        for name, values in (("mask", [1, 0, 1, 0]), ("flag", 1), ("twice", [2, 0]), ("gains", [0.5, 2.0])):
            self.register_buffer(name, torch.tensor(values))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        if self.flag.item() > 0:
            y = y * 2
        places = self.twice.clone()
        places += 1
        return y[:, self.mask > 0][:, (places // 2).tolist()] * self.gains


def loading(folder: Path, state: Path) -> str:
    command = ["make", "-s", "-C", str(folder), "host", "TRACE=0", f"LOAD={state}"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_what_has_decided_cannot_be_replaced(tmp_path: Path) -> None:
    torch.manual_seed(5)
    net, x = Pruned(), torch.randn(3, 5)
    made = deploy(net, x, torch.tensor([1, 0, 1]), cores=2, l1="64k", l2="1M", steps=1, out=tmp_path / "p")
    state = net.state_dict()
    wrong = {"mask": [0, 1, 0, 1], "flag": -1, "twice": [0, 2]}
    for name, values in wrong.items():
        torch.save({**state, name: torch.tensor(values)}, tmp_path / "new.pt")
        with pytest.raises(UsageError, match=f"^'{name}' decides about shapes or branches; deploy anew"):
            made.load_state_dict(torch.load(tmp_path / "new.pt"))
        with pytest.raises(UsageError, match=f"^'{name}' decides"):
            put_weights(made.folder, tmp_path / "new.pt")
    net.mask.copy_(torch.tensor(wrong["mask"]))
    other = deploy(net, x, torch.tensor([1, 0, 1]), cores=2, l1="64k", l2="1M", steps=1, out=tmp_path / "other")
    other.session.save(tmp_path / "other.state")
    with pytest.raises(UsageError, match="holds the state of another network"):
        made.session.load(tmp_path / "other.state")
    assert "saved by another network" in loading(made.folder, tmp_path / "other.state")
    alone = deploy(net, x, inference=True, cores=2, l1="64k", l2="1M", steps=1, out=tmp_path / "alone")
    alone.session.load(tmp_path / "other.state")
    assert loading(alone.folder, tmp_path / "other.state") == "DONE\n"
    made.session.save(tmp_path / "made.state")
    with pytest.raises(UsageError, match=r"holds the state of another network: .* what decides about branches"):
        alone.session.load(tmp_path / "made.state")
    assert "saved by another network" in loading(alone.folder, tmp_path / "made.state")
    net.mask.copy_(state["mask"].new_tensor([1, 0, 1, 0]))
    new = {**state, "mask": net.mask, "gains": torch.tensor([3.0, -1.0]), "layer.bias": torch.ones(4)}
    made.load_state_dict(new)
    net.load_state_dict(new)
    assert torch.allclose(made.predict(x), net(x), atol=1e-5)


def functional(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return nn.functional.nll_loss(output.transpose(1, 2).reshape(-1, 3).log_softmax(1), target.flatten())


def test_labels_of_a_loss_that_is_a_function(tmp_path: Path) -> None:
    """Fault: nobody looked at them, as the loss is no nn.CrossEntropyLoss."""
    model, x, y = nn.Conv1d(2, 3, 1), torch.randn(1, 2, 5), torch.randint(3, (1, 5))
    made = deploy(model, x, y, loss=functional, cores=2, l1="64k", steps=1, out=tmp_path / "p")
    wrong = torch.tensor([[0, 1, 2, 3, -100]])
    with pytest.raises(UsageError, match=r"class index 3 in target 'target' is out of range: .* 3 classes, 0 to 2"):
        made.step(x, wrong)
    with pytest.raises(UsageError, match="class index 3 in sample 1"):
        made.write_examples([(x, y), (x, wrong)], tmp_path / "train.bin")
    assert ", 20, 3, -100}" in (made.folder / "fit.c").read_text()


@pytest.mark.parametrize("weighted", [False, True])
def test_a_label_that_is_no_class_is_no_silent_loss(weighted: bool, tmp_path: Path) -> None:
    """It is refused here; a firmware's loss of a whole batch is NaN, and what is learned comes from the other labels.
    Ignored ones are still ignored."""
    torch.manual_seed(5)
    model = nn.Conv1d(2, 3, 1)
    rule = nn.CrossEntropyLoss(weight=torch.tensor([0.5, 1.0, 2.0]) if weighted else None)
    x, y = torch.randn(1, 2, 5), torch.randint(3, (1, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    made = deploy(model, x, y, loss=rule, optimizer=optimizer, cores=2, l1="64k", steps=1, out=tmp_path / "p")
    before = made.state_dict()
    for call in (made.step, made.session.evaluate):
        with pytest.raises(UsageError, match=r"class index 7 in target 'target' is out of range: .* 3 classes, 0 to 2"):
            call(x, torch.tensor([[0, 1, 7, -100, 9]]))
    assert made.session.steps == 0
    label = next(a for a in made.session.interface["arguments"] if a["role"] == "target")
    classes = label.pop("classes")  # as older projects are
    for wrong in (3, 7, -1, -3, 10**6):
        made.reset()
        assert torch.tensor(made.step(x, torch.full((1, 5), wrong))).isnan()
        assert all(torch.equal(v, before[n]) for n, v in made.state_dict().items()), wrong
        some = y.clone()
        some[0, 2] = wrong
        assert torch.tensor(made.step(x, some)).isnan()
        after = made.state_dict()
        assert all(v.isfinite().all() and not torch.equal(v, before[n]) for n, v in after.items())
    made.reset()
    label["classes"] = classes
    y[0, 2] = -100
    assert made.step(x, y) == pytest.approx(rule(model(x), y).item(), rel=1e-5)
