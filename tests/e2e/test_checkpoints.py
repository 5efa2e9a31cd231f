"""Training that began in PyTorch goes on in the generated C: weights and optimizer state of a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from trainlib_deployer.cli.main import cli
from trainlib_deployer.run.session import Session
from trainlib_deployer.user.optimizer_state import optimizer_states

torch.set_num_threads(1)
BEFORE, AFTER = 3, 3
NET = """\
import torch
from torch import nn

torch.manual_seed({seed})


class Own(torch.optim.Optimizer):
    def __init__(self, params, lr=0.05):
        super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["trace"] = torch.zeros_like(p)
                state["trace"].mul_(0.5).add_(p.grad)
                p.sub_(group["lr"] * state["trace"])


model = nn.Sequential(nn.Linear(5, 7, bias=False), nn.BatchNorm1d(7), nn.Tanh(), nn.Linear(7, 3))
g = torch.Generator().manual_seed(1)
data = [(torch.randn(6, 5, generator=g), torch.randint(3, (6,), generator=g)) for _ in range(6)]
optimizer = {optimizer}
"""
OPTIMIZERS = {
    "Adam": "torch.optim.Adam(model.parameters(), lr=0.01, amsgrad=True)",
    "SGD": "torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, dampening=0.5)",
    "NAdam": "torch.optim.NAdam(model.parameters(), lr=0.01)",
    "RAdam": "torch.optim.RAdam(model.parameters(), lr=0.01)",
    "ASGD": "torch.optim.ASGD(model.parameters(), lr=0.1, lambd=0.1)",
    "Adagrad": "torch.optim.Adagrad(model.parameters(), lr=0.1, lr_decay=0.1)",
    "Own": "Own(model.parameters())",
}


def net(optimizer: str, seed: int = 0) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(NET.format(optimizer=OPTIMIZERS[optimizer], seed=seed), names)
    return names


def trained(names: dict[str, Any], first: int, last: int) -> list[float]:
    losses = []
    for x, y in names["data"][first:last]:
        names["optimizer"].zero_grad()
        loss = nn.functional.cross_entropy(names["model"](x), y)
        loss.backward()
        names["optimizer"].step()
        losses.append(loss.item())
    return losses


def deployed(folder: Path, optimizer: str, checkpoint: Any) -> Any:
    """From another network's weights, which the checkpoint's replace."""
    folder.mkdir(exist_ok=True)
    (folder / "net.py").write_text(NET.format(optimizer=OPTIMIZERS[optimizer], seed=9))
    torch.save(checkpoint, folder / "checkpoint.pt")
    options = ["--weights", folder / "checkpoint.pt", "--out", folder / "p", "--cores", 2, "--steps", AFTER]
    return CliRunner().invoke(cli, ["--model", str(folder / "net.py"), *map(str, options)])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_goes_on_where_pytorch_was(optimizer: str, tmp_path: Path) -> None:
    """The losses of PyTorch's own next steps; verified; and back in PyTorch, the count of updates goes on."""
    names = net(optimizer)
    trained(names, 0, BEFORE)
    checkpoint = {"state_dict": names["model"].state_dict(), "optimizer_states": [names["optimizer"].state_dict()]}
    done = deployed(tmp_path, optimizer, checkpoint)
    assert done.exit_code == 0, done.output
    assert "its settings are the model's" in done.output
    if optimizer == "Adam":  # what the golden model begins with is the same for all
        assert CliRunner().invoke(cli, ["verify", str(tmp_path / "p")]).exit_code == 0
    session = Session(tmp_path / "p")
    fresh = net(optimizer)
    fresh["model"].load_state_dict(names["model"].state_dict())
    expected = trained(names, BEFORE, BEFORE + AFTER)
    assert [session.step(x, y) for x, y in names["data"][BEFORE:]] == pytest.approx(expected, rel=1e-5)
    assert trained(fresh, BEFORE, BEFORE + AFTER) != pytest.approx(expected, rel=1e-5), "the state matters"
    state, wanted = session.optimizer_state_dict()["state"], names["optimizer"].state_dict()["state"]
    for i, entries in wanted.items():
        assert state[i].keys() == entries.keys()
        for label, value in entries.items():
            assert torch.allclose(torch.as_tensor(state[i][label]), torch.as_tensor(value), rtol=1e-4, atol=1e-6), label


MISFITS: dict[str, Any] = {
    "it is of another optimizer than SGD": lambda: net("Adam"),
    "it is of other parameters": lambda: net("SGD"),
    "has another shape there": lambda: net("SGD"),
}


@pytest.mark.parametrize("words", MISFITS)
def test_a_state_that_does_not_fit_is_said(words: str, tmp_path: Path) -> None:
    names = MISFITS[words]()
    trained(names, 0, BEFORE)
    state = names["optimizer"].state_dict()
    if "parameters" in words:
        state["param_groups"][0]["params"].pop()
    elif "shape" in words:
        state["state"][1]["momentum_buffer"] = torch.zeros(8)
    done = deployed(tmp_path, "SGD", {"net": names["model"].state_dict(), "opt": state})
    assert done.exit_code == 0, done.output
    assert "is not used, as " in done.output and words in done.output


def test_where_the_state_is_found() -> None:
    state = {"state": {0: {"step": 1}}, "param_groups": [{"params": [0]}]}
    for content in (state, {"optimizer": state}, {"a": {"b": [None, (1, state)]}}):
        assert next(optimizer_states(content)) == state
    for content in ({}, {"state": 3, "param_groups": []}, [1, "x"]):
        assert not list(optimizer_states(content))
