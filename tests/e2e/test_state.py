"""A deployment leaves the model as it was, and trains what plain PyTorch trains from there: networks whose forward
changes them, and ordinary ones."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from golden import load, reference
from tests import stateful_networks as networks
from tests.e2e.conftest import example
from tests.fingerprint import changes, fingerprint
from trainlib_deployer.advice.sweeping import sweep_user_model
from trainlib_deployer.api import deploy
from trainlib_deployer.check.verify import verify
from trainlib_deployer.errors import DoesNotFit
from trainlib_deployer.machine.targets import resolve
from trainlib_deployer.options import Options
from trainlib_deployer.pipeline import deploy_user_model

STEPS, RATE = 3, 0.1


@pytest.mark.parametrize("network", networks.NETWORKS, ids=lambda n: n.__name__)
def test_trains_the_untouched_model_and_leaves_it_so(network: Callable[[], nn.Module], tmp_path: Path) -> None:
    model = networks.made(network)
    untouched = copy.deepcopy(model)
    before = fingerprint(model)
    done = deploy(
        model,
        *networks.example(torch.Generator().manual_seed(5)),
        optimizer=lambda p: torch.optim.SGD(p, lr=RATE),
        steps=STEPS,
        out=tmp_path / "net",
    )
    assert not changes(before, fingerprint(model))
    copy.deepcopy(model)
    verification = done.verify()
    verification.raise_if_failed()
    assert not changes(before, fingerprint(model))
    assert done.task is not None
    if network is not networks.TwoNames:  # its dropout draws other masks in a loop of one's own
        plain = networks.plain_steps(untouched, done.task.samples, STEPS, RATE)
        assert verification.losses == pytest.approx(plain, rel=1e-5)
    if not (done.folder / "model" / "module.pt").exists():
        return  # PyTorch pickles no parametrization, Python no lambda
    stored = reference.run(load.load_task(done.folder / "model"), STEPS, torch.float64)
    losses = [float(stored[s, "loss", "loss"]) for s in range(STEPS)]
    assert losses == pytest.approx(verification.golden_losses, rel=1e-12), "the model/ folder holds the same model"


@pytest.mark.parametrize("name", ["mlp", "lstm"])
def test_examples_stay_as_they_are(name: str, tmp_path: Path) -> None:
    user = example(name)
    before = fingerprint(user.module, user.loss)
    deploy_user_model(user, Options(resolve(None, 8, "64k", "4M"), tmp_path / "net", steps=2))
    assert not changes(before, fingerprint(user.module, user.loss))
    if name == "mlp":
        verify(tmp_path / "net").raise_if_failed()
        assert not changes(before, fingerprint(user.module, user.loss))


def test_a_sweep_leaves_the_model_as_it_is() -> None:
    user = example("mlp")
    before = fingerprint(user.module, user.loss)
    sweep_user_model(user, resolve(None, 8, "64k", "4M"), 1)
    assert not changes(before, fingerprint(user.module, user.loss))


@pytest.mark.parametrize("options", [{"accumulate": 2}, {"l1": "4k", "l2": "1M"}], ids=["accumulated", "tiled"])
def test_a_constraint_on_weights_in_other_plans(options: dict[str, object], tmp_path: Path) -> None:
    """Fault: the update of a parameter in forward and the optimizer's change places."""
    model = networks.made(networks.Constrained)
    inputs, target = networks.example(torch.Generator().manual_seed(5))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    deploy(
        model,
        inputs,
        target,
        optimizer=optimizer,
        steps=3,
        out=tmp_path / "net",
        **options,  # type: ignore[arg-type]
    ).verify().raise_if_failed()


def test_what_does_not_fit_is_said_where_a_step_updates_a_parameter(tmp_path: Path) -> None:
    """Fault: the advice leaves out the optimizer's state and is left with an operation on nothing."""
    model = networks.made(networks.Constrained)
    optimizer = torch.optim.Adam(model.parameters())
    with pytest.raises(DoesNotFit, match="not even with one core"):
        deploy(
            model,
            *networks.example(torch.Generator().manual_seed(5)),
            optimizer=optimizer,
            l1=1792,
            l2="1M",
            out=tmp_path / "net",
        )
