"""The same from Python."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import trainlib_deployer
from golden import reference
from trainlib_deployer import api
from trainlib_deployer.check.verify import task_of
from trainlib_deployer.errors import UsageError
from trainlib_deployer.options import Options
from trainlib_deployer.pipeline import Deployed
from trainlib_deployer.plan.smaller import Saved
from trainlib_deployer.user.model import UserModel

PLAN = SimpleNamespace(saved=Saved())


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(5, 3)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> Any:
        return self.fc(self.drop(x))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    seen: list[Any] = []

    def stages(user: UserModel, options: Options, say: Any) -> Deployed:
        say("working")
        seen[:] = [user, options]
        return Deployed(PLAN, options.out, task_of(user, options.accumulate))  # type: ignore[arg-type]

    def verified(folder: Path, **options: Any) -> Any:
        return SimpleNamespace(folder=folder, options=options, as_json=lambda: {"of": str(folder)})

    monkeypatch.setattr(api, "deploy_user_model", stages)
    monkeypatch.setattr(api, "verify", verified)
    monkeypatch.chdir(tmp_path)
    return seen


def test_defaults(asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[Any] = []
    monkeypatch.setattr(api, "note_verdict", lambda *given: noted.append(given))
    done = trainlib_deployer.deploy(Small(), torch.ones(2, 5), torch.tensor([1, 2]))
    user, options = asked
    assert (user.name, user.source, len(user.samples), user.optimizer.kind) == ("Small", None, 5, "SGD")
    assert (options.target.name, options.out, options.steps) == ("pulp-open", Path("generated/Small"), 5)
    assert (done.plan, done.folder) == (PLAN, Path("generated/Small"))
    verified: Any = done.verify(steps=3, cores=2)
    task = verified.options.pop("task")
    assert (verified.folder, verified.options) == (done.folder, {"on": "host", "steps": 3, "cores": 2})
    assert noted == [(done.folder, {"of": str(done.folder)})]
    assert (task.optimizer, len(task.samples)) == ("SGD", 5)


def test_the_reference_starts_from_what_was_deployed(asked: list[Any]) -> None:
    """Fault: it starts from what the caller has trained since, or leaves the caller's model changed."""
    model = Small()
    done = trainlib_deployer.deploy(model, torch.ones(2, 5), torch.tensor([1, 2]))
    assert done.task is not None
    before = reference.run(done.task, 2, torch.float64)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(3.0)
            p.requires_grad_(False)
    kept = {n: v.clone() for n, v in model.eval().state_dict().items()}
    after = reference.run(done.task, 2, torch.float64)
    assert before.keys() == after.keys() and all(np.array_equal(before[k], after[k]) for k in before)
    assert not model.training and all(torch.equal(v, kept[n]) for n, v in model.state_dict().items())
    assert all(p.dtype is torch.float32 and p.grad is None and not p.requires_grad for p in model.parameters())


def test_everything_given(asked: list[Any]) -> None:
    model, lines = Small(), list[str]()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    items = [(torch.full((5,), float(i)), torch.full((3,), float(i))) for i in range(9)]
    more: dict[str, Any] = {"cores": 3, "l1": "32k", "l2": 1 << 20, "target": "gap9", "out": "o", "steps": 2}
    loss = nn.L1Loss()
    state = torch.random.get_rng_state()
    api.deploy(
        model, torch.ones(4, 5), loss=loss, optimizer=optimizer, data=items, name="my net", say=lines.append, **more
    )
    user, options = asked
    assert torch.equal(state, torch.random.get_rng_state()), "the caller's generator is left alone"
    assert (user.name, user.loss, user.optimizer.kind, user.module) == ("my_net", loss, "Adam", model)
    assert [s[1][:, 0].tolist() for s in user.samples] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    target = options.target
    assert (target.name, target.cores, target.inner.size, target.outer.size) == ("gap9", 3, 32 << 10, 1 << 20)
    assert (options.out, options.steps, lines) == (Path("o"), 2, ["working"])


def test_notes_are_said(asked: list[Any]) -> None:
    lines: list[str] = []
    trainlib_deployer.deploy(Small(), torch.ones(2, 5), torch.tensor([1, 2]), say=lines.append)
    assert [line.split(":")[0] for line in lines] == ["note", "note", "working"]


@pytest.mark.parametrize(
    ("change", "phrase"),
    [
        ({"model": Small}, "not an nn.Module"),
        ({"steps": 0}, "at least 1"),
        ({"cores": 17}, "number of cores"),
        ({"l1": "64q"}, "not a size"),
        ({"target": "gap8"}, "unknown target"),
        ({"example_input": None}, "no 'example_input'"),
        ({"example_target": None}, "no 'example_target'"),
        ({"example_target": torch.tensor([1, 3])}, "class index 3"),
        ({"optimizer": torch.optim.SGD(Small().parameters(), lr=1)}, "not the model's"),
        ({"out": "/dev/null"}, "is a file"),
    ],
)
def test_mistakes(asked: list[Any], change: dict[str, Any], phrase: str) -> None:
    given = {"model": Small(), "example_input": torch.ones(2, 5), "example_target": torch.tensor([1, 2]), **change}
    with pytest.raises(UsageError, match=phrase):
        trainlib_deployer.deploy(**given)
    assert asked == []


def test_no_such_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'deployed'"):
        _ = trainlib_deployer.deployed
