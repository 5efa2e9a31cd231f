"""Weights as people save them: formats, wrappers, prefixes, new heads; and files that are damaged."""

from __future__ import annotations

import zipfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from trainlib_deployer.errors import UsageError
from trainlib_deployer.user import safetensors
from trainlib_deployer.user.weights import load_weights


class Net(nn.Module):
    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(2, 5, 3), nn.BatchNorm1d(5))
        self.head = nn.Linear(5, classes)


def net(seed: int, classes: int = 3) -> Net:
    torch.manual_seed(seed)
    made = Net(classes)
    made.body[1].running_mean.normal_()
    return made


def same(a: nn.Module, b: nn.Module, but: str = "-") -> bool:
    x, y = a.state_dict(), b.state_dict()
    return all(torch.equal(x[n], y[n]) for n in x if not n.startswith(but))


def save_npz(state: dict[str, torch.Tensor], path: Path) -> None:
    np.savez(path, **{n: v.numpy() for n, v in state.items()})


WRITERS: dict[str, Callable[[dict[str, torch.Tensor], Path], Any]] = {
    "w.pt": torch.save,
    "w.npz": save_npz,
    "w.safetensors": lambda state, path: safetensors.write(path, state),
    "ending.lies": lambda state, path: safetensors.write(path, state),
    "old.pth": lambda state, path: torch.save(state, path, _use_new_zipfile_serialization=False),
}


@pytest.mark.parametrize("name", WRITERS)
def test_formats(tmp_path: Path, name: str) -> None:
    trained, fresh = net(1), net(2)
    WRITERS[name](trained.state_dict(), tmp_path / name)
    assert not same(trained, fresh)
    assert load_weights(fresh, tmp_path / name) == []
    assert same(trained, fresh)


WRAPPED = {
    "under a key": (lambda s: {"state_dict": s, "epoch": 3}, "'state_dict' of the file"),
    "under any key": (lambda s: {"weights_of_ours": s, "accuracy": 0.5}, "'weights_of_ours' of the file"),
    "deep": (lambda s: {"run": {"best": {"net_state": s}}, "lr": 1.0}, "'run.best.net_state' of the file"),
    "parallel": (lambda s: {f"module.{n}": v for n, v in s.items()}, "the prefix 'module.' taken off"),
    "compiled": (lambda s: {f"_orig_mod.{n}": v for n, v in s.items()}, "the prefix '_orig_mod.' taken off"),
    "both": (lambda s: {f"module._orig_mod.{n}": v for n, v in s.items()}, "the prefix 'module._orig_mod.' taken off"),
    "Lightning": (
        lambda s: {
            "epoch": 1,
            "pytorch-lightning_version": "2.1",
            "state_dict": {**{f"model.{n}": v for n, v in s.items()}, "loss.weight": torch.ones(3)},
            "optimizer_states": [{"state": {0: {"exp_avg": torch.zeros(5)}}}],
        },
        "'state_dict' of the file, the prefix 'model.' taken off",
    ),
    "beside an average": (
        lambda s: {"ema": {n: v for n, v in s.items() if "head" in n}, "model": s},
        "'model' of the file",
    ),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_wrapped(tmp_path: Path, name: str) -> None:
    wrap, sentence = WRAPPED[name]
    trained, fresh = net(1), net(2)
    torch.save(wrap(trained.state_dict()), tmp_path / "w.pt")
    assert load_weights(fresh, tmp_path / "w.pt") == [f"weights: {sentence}"]
    assert same(trained, fresh)


def test_a_model_whose_own_names_begin_with_a_prefix(tmp_path: Path) -> None:
    trained, fresh = nn.ModuleDict({"model": net(1)}), nn.ModuleDict({"model": net(2)})
    torch.save(trained.state_dict(), tmp_path / "w.pt")
    assert load_weights(fresh, tmp_path / "w.pt") == []
    assert same(trained, fresh)


def test_old_files_have_no_counters_of_batches(tmp_path: Path) -> None:
    trained, fresh = net(1), net(2)
    torch.save({n: v for n, v in trained.state_dict().items() if "tracked" not in n}, tmp_path / "w.pt")
    load_weights(fresh, tmp_path / "w.pt")
    assert same(trained, fresh)


def test_a_new_head(tmp_path: Path) -> None:
    trained, fresh, untouched = net(1), net(2, classes=7), net(2, classes=7)
    torch.save(trained.state_dict(), tmp_path / "w.pt")
    with pytest.raises(UsageError, match=r"'head.weight' is 3x5 there and 7x5 in the model") as refused:
        load_weights(fresh, tmp_path / "w.pt")
    assert "--weights-allow-missing 'head'" in refused.value.remedy and same(fresh, untouched)
    notes = load_weights(fresh, tmp_path / "w.pt", ("head",))
    assert notes == ["weights: 'head.bias', 'head.weight' keep their own values"]
    assert torch.equal(fresh.body[0].weight, trained.body[0].weight)
    assert torch.equal(fresh.head.weight, untouched.head.weight)


def test_a_head_that_fits_is_taken(tmp_path: Path) -> None:
    trained, fresh = net(1), net(2)
    torch.save(trained.state_dict(), tmp_path / "w.pt")
    assert load_weights(fresh, tmp_path / "w.pt", ("he*",)) == [] and same(trained, fresh)


def test_a_layer_that_is_not_there_is_no_excuse(tmp_path: Path) -> None:
    torch.save(net(1).state_dict(), tmp_path / "w.pt")
    with pytest.raises(UsageError, match="the model has no layer 'hed'") as refused:
        load_weights(net(2), tmp_path / "w.pt", ("hed",))
    assert "'head'" in refused.value.remedy


def test_python_objects_are_not_loaded(tmp_path: Path) -> None:
    torch.save({"state_dict": net(1).state_dict(), "args": Namespace(lr=0.1)}, tmp_path / "w.pt")
    with pytest.raises(UsageError, match="Python objects") as refused:
        load_weights(net(2), tmp_path / "w.pt")
    assert "torch.save(torch.load" in refused.value.remedy


@pytest.mark.parametrize("dtype", safetensors.NAMES)
def test_safetensors_keep_every_type(tmp_path: Path, dtype: torch.dtype) -> None:
    state = {"b": torch.tensor([[1, 0, 3]]).to(dtype), "a": torch.tensor(2).to(dtype), "none": torch.zeros(0, 4)}
    safetensors.write(tmp_path / "w", state)
    got = safetensors.read(tmp_path / "w")
    assert {n: (v.dtype, v.shape) for n, v in got.items()} == {n: (v.dtype, v.shape) for n, v in state.items()}
    assert all(torch.equal(got[n], state[n]) for n in state)


def test_an_archive_of_other_things(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "w.zip", "w") as archive:
        archive.writestr("notes.txt", "nothing")
    with pytest.raises(UsageError, match="not a file of weights"):
        load_weights(net(1), tmp_path / "w.zip")


class Remembering(Net):
    """Keeps something beside its tensors."""

    kept: Any = 3

    def get_extra_state(self) -> Any:
        return {"kept": self.kept}

    def set_extra_state(self, state: Any) -> None:
        self.kept = state["kept"]


def test_extra_state(tmp_path: Path) -> None:
    """Taken where the file has one, kept where it has none, left aside where nobody wants it."""
    one, other = Remembering(), Remembering()
    one.kept = 5
    torch.save(one.state_dict(), tmp_path / "w.pt")
    load_weights(other, tmp_path / "w.pt")
    assert same(one.body, other.body) and other.kept == 5
    load_weights(net(2), tmp_path / "w.pt")
    torch.save(net(3).state_dict(), tmp_path / "w.pt")
    load_weights(other, tmp_path / "w.pt")
    assert same(other.body, net(3).body) and other.kept == 5
