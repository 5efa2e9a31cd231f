"""Records of runs that are not kept in memory say the same as those that are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from golden import reference, sketch
from golden.record import Apart, Array, Key, Spilled
from tests.unit.test_model_state import user_of
from trainlib_deployer.capture.eager import first_steps
from trainlib_deployer.check.verify import task_of
from trainlib_deployer.user.model import UserModel

STEPS = 3


@pytest.fixture(scope="module")
def user() -> UserModel:
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(11, 7), nn.BatchNorm1d(7), nn.Tanh(), nn.Linear(7, 3))
    return user_of(model, torch.randn(5, 11), torch.tensor([0, 2, 1, 1, 0]))


@pytest.mark.parametrize("in_memory", [0, 1 << 20])
def test_a_record_on_disk_is_the_one_in_memory(user: UserModel, in_memory: int) -> None:
    task = task_of(user, 1)
    kept, spilled = reference.run(task, STEPS, torch.float64), Spilled(in_memory)
    reference.train(task, STEPS, torch.float64, spilled)
    assert list(spilled) == list(kept) and len({k[0] for k in kept}) == STEPS
    for key in reversed(list(kept)):
        assert spilled[key].dtype == kept[key].dtype and spilled[key].shape == kept[key].shape
        assert (spilled[key] == kept[key]).all()
    single = reference.run(task, STEPS, torch.float32, noise=1)
    apart = Apart(spilled)
    reference.train(task, STEPS, torch.float32, apart, noise=1)
    assert sketch.sketches_within(spilled, [apart]) == sketch.sketches(kept, [single])


def test_records_are_of_that_moment(user: UserModel) -> None:
    """Fault: all steps hold what the last one left in the parameters' memory."""
    record = reference.run(task_of(user, 1), STEPS, torch.float32)
    assert not (record[0, "parameter", "0.weight"] == record[1, "parameter", "0.weight"]).all()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (3, 5)])
def test_any_shape_and_type_comes_back(shape: tuple[int, ...]) -> None:
    spilled, rng = Spilled(8), np.random.default_rng(4)
    values: list[Array] = [rng.integers(0, 2, shape).astype(t) for t in ("f8", "f4", "i8", "u1", "?")]
    for i, v in enumerate(values):
        spilled[i, "output", "x"] = v.T
    for i, v in enumerate(values):
        found = spilled[i, "output", "x"]
        assert found.dtype == v.dtype and found.shape == v.T.shape and (found == v.T).all()


def test_what_is_not_finite_in_one_run_is_not_judged() -> None:
    key, other = (0, "gradient", "a"), (0, "gradient", "b")
    exact: dict[Key, Array] = {key: np.array([3.0, 4.0, 1e3]), other: np.array([1.0, 0.0])}
    runs: list[dict[Key, Array]] = [{**exact}, {**exact, key: np.array([3.0, 4.0, np.inf])}]
    found = sketch.sketches(exact, runs)
    assert found[key] == sketch.UNCHECKED
    floor = 1e-3 * 5.0  # of what is finite everywhere
    assert found[other] == sketch.sketch(exact[other], 1e-6, max(1.0, floor))


def test_what_does_not_change_is_held_once(user: UserModel, tmp_path: Path) -> None:
    """Fault: copies of all parameters before and after each step, several times the network's own bytes."""
    first, second = first_steps(user)
    start = {t.untyped_storage().data_ptr() for t in user.start.bytes.values()}
    assert {t.untyped_storage().data_ptr() for t in first.before.values()} <= start
    assert second.before is first.after
    weight = "0.weight"
    assert not torch.equal(first.after[weight], first.before[weight])
    assert second.after[weight].data_ptr() == second.before[weight].data_ptr()  # there is no update behind it
    mean = "1.running_mean"
    assert not torch.equal(second.after[mean], second.before[mean])
