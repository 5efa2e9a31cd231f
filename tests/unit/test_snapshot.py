"""Whatever running a model changes in it is put back."""

from __future__ import annotations

import collections
import copy
import functools
import random
import threading
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from golden.borrow import borrowed
from golden.precision import Precise
from golden.snapshot import Snapshot
from tests import stateful_networks as networks
from tests.fingerprint import changes, fingerprint


class Holder:
    """An object of the user's that is no module."""

    shared: list[int] = [1]  # noqa: RUF012

    def __init__(self) -> None:
        self.cache: dict[str, Any] = {}
        self.me = self


class Everything(nn.Module):
    shared_count = 0

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.same = self.fc
        self.fc.weight.grad = torch.ones(2, 3)
        self.norm = nn.BatchNorm1d(2)
        self.register_buffer("table", torch.arange(6.0).reshape(2, 3))
        self.view = self.table[:, 1]
        self.other = torch.ones(2)
        self.wide = torch.zeros(1).expand(4)
        self.numbers = np.arange(3)
        self.holder = Holder()
        self.nested = {"a": [torch.zeros(2), (torch.ones(2), {1, 2})], "b": collections.deque([1])}
        self.lock = threading.Lock()  # nobody can copy it
        self.draws = random.Random(1), np.random.default_rng(2), torch.Generator().manual_seed(3)
        self.bound = functools.partial(self.norm.forward)
        self.hook = self.fc.register_forward_hook(lambda module, given, output: None)

    def everything_changes(self) -> None:
        type(self).shared_count += 1
        Holder.shared.append(2)
        with torch.no_grad():
            self.fc.weight.mul_(2)
            self.fc.weight.grad.add_(1)  # type: ignore[union-attr]
        self.fc.bias.data = torch.zeros(7)
        self.fc.bias.requires_grad_(False)
        self.fc.bias.grad = torch._efficientzerotensor(7)  # has no memory
        self.norm.running_mean = torch.zeros(9)
        self.norm.eval()
        self.view.fill_(float("nan"))
        self.other[0] = (self.fc.weight * 2).sum()  # a leaf no more
        self.numbers[1] = 7
        self.holder.cache["x"] = torch.ones(1)
        self.holder.me = None  # type: ignore[assignment]
        self.nested["a"][0] = torch.ones(5)
        self.nested["a"][1][0].add_(1)  # type: ignore[index]
        self.nested["a"][1][1].add(3)  # type: ignore[index]
        self.nested["b"].append(2)  # type: ignore[attr-defined]
        self.hook.remove()
        self.added = nn.Linear(2, 2)
        self.register_buffer("late", torch.zeros(1))
        del self.wide
        for draw in self.draws:
            draw.random() if not isinstance(draw, torch.Generator) else torch.rand(2, generator=draw)
        random.random()
        np.random.rand()
        torch.rand(1)


def test_everything_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Holder, "shared", [1])  # another test may have run before
    model = Everything()
    before = fingerprint(model), copy.copy(model.holder.__dict__), Holder.shared, list(Holder.shared)
    draws = [model.draws[0].getstate(), str(model.draws[1].bit_generator.state), model.draws[2].get_state().tolist()]
    snapshot = Snapshot(model)
    with pytest.raises(ZeroDivisionError), snapshot.undone():
        model.everything_changes()
        assert len(changes(before[0], fingerprint(model))) > 20
        raise ZeroDivisionError
    after = fingerprint(model), copy.copy(model.holder.__dict__), Holder.shared, list(Holder.shared)
    assert not changes(before[0], after[0])
    assert before[1:] == after[1:] and Holder.shared == [1]
    assert draws == [
        model.draws[0].getstate(),
        str(model.draws[1].bit_generator.state),
        model.draws[2].get_state().tolist(),
    ]
    assert model.holder.cache == {} and model.holder.me is model.holder


def test_a_lasting_change_is_found() -> None:
    """The test above proves something."""
    model = Everything()
    before = fingerprint(model)
    model.everything_changes()
    assert len(changes(before, fingerprint(model))) > 20


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("network", networks.NETWORKS, ids=lambda n: n.__name__)
def test_a_borrowed_model_comes_back(network: Any, dtype: torch.dtype) -> None:
    """In between, it was what it was at the start, although its owner had gone on with it."""
    model = networks.made(network)
    x, _ = networks.example(torch.Generator().manual_seed(5))
    start = Snapshot(model)
    first = model(x).detach()
    model.eval()
    for p in model.parameters():
        p.data.mul_(1.5)
    before = fingerprint(model)
    torch.set_default_dtype(dtype)
    try:
        with borrowed(start, dtype), Precise(dtype):
            assert model.training
            result = model(x.to(dtype))
            assert result.dtype is dtype
            if network is not networks.TwoNames:
                assert torch.allclose(result.detach().float(), first, rtol=1e-4, atol=1e-5)
    finally:
        torch.set_default_dtype(torch.float32)
    assert not changes(before, fingerprint(model))


def test_bytes_are_shared_with_an_equal_snapshot() -> None:
    model = nn.Linear(3, 5)
    first = Snapshot(model)
    with torch.no_grad():
        model.bias.add_(1)
    second = Snapshot(model, like=first)
    shared = [k for k in second.bytes if second.bytes[k] is first.bytes[k]]
    assert shared == [model.weight.untyped_storage()._cdata]


def test_a_gradient_follows_its_tensor_back_to_float() -> None:
    """Fault: it is put back while module.double() still has its values."""
    net = nn.Linear(3, 2)
    net(torch.ones(1, 3)).sum().backward()
    assert net.weight.grad is not None
    before, start = net.weight.grad.clone(), Snapshot(net)
    with start.undone():
        net.double()
        net(torch.ones(1, 3, dtype=torch.float64)).sum().backward()
    assert net.weight.dtype == torch.float32 and torch.equal(net.weight.grad, before)
