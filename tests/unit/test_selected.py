"""Rows that a mask selects, whose number a step does not know: captured steps beside plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.unit.test_model_state import user_of
from trainlib_deployer.capture.agreement import captured_and_checked
from trainlib_deployer.errors import Unsupported

pytestmark = pytest.mark.slow
Tensor = torch.Tensor
ROWS, EXTENT = 11, 5


class Net(nn.Module):
    def __init__(self, rest: Callable[..., Any] | None = None) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.fc, self.rest = nn.Linear(6, EXTENT), rest
        self.gate = nn.Linear(EXTENT, 3)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(EXTENT, 7), nn.GELU(), nn.Linear(7, 5)) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        return y if self.rest is None else self.rest(self, y)


def values() -> Tensor:
    """Of which some are missing."""
    t = torch.randn(ROWS, EXTENT, generator=torch.Generator().manual_seed(4))
    t[::3, 1], t[4], t[7:, 2] = torch.nan, torch.nan, torch.nan
    return t


def labels() -> Tensor:
    return torch.tensor([0, -100, 3, 4, -100, 1, 2, -100, 0, 3, -100])


def there(t: Tensor) -> Tensor:
    return ~torch.isnan(t)


def written_twice(o: Tensor, t: Tensor) -> Tensor:
    chosen = o[there(t)]
    chosen += 1
    chosen *= 2
    return chosen.square().mean()


def by_count(o: Tensor, t: Tensor) -> Tensor:
    chosen = (o[there(t)] - t[there(t)]).abs()
    return chosen.sum() / chosen.shape[0] + chosen.sum() / chosen.numel()


def logarithm(o: Tensor, t: Tensor) -> Tensor:
    """Which zeros, in place of what is not selected, do not have."""
    mask = t > 0.2
    return (torch.log(o[mask].abs() + 0.1) - torch.log(t[mask])).pow(2).mean().sqrt()


def of_rows(o: Tensor, t: Tensor) -> Tensor:
    mask = there(t).all(1)
    return F.cosine_similarity(o[mask], t[mask]).mean() + (o[mask] - t[mask]).norm(dim=1).sum() + o[mask].mean(0).max()


def flat(o: Tensor, t: Tensor) -> Tensor:
    mask = there(t).all(1)
    return F.smooth_l1_loss(o[mask].view(-1), t[mask].reshape(-1)) + o[mask][:, 2].mean()


OF_VALUES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse": lambda o, t: F.mse_loss(o[there(t)], t[there(t)]),
    "a module": lambda o, t: nn.MSELoss(reduction="sum")(o[there(t)], t[there(t)]),
    "masked_select": lambda o, t: F.l1_loss(o.masked_select(there(t)), torch.masked_select(t, there(t))),
    "each": lambda o, t: F.huber_loss(o[there(t)], t[there(t)], reduction="none").mean(),
    "by hand": lambda o, t: ((o[there(t)] - t[there(t)]) ** 2).mean(),
    "logits": lambda o, t: F.binary_cross_entropy_with_logits(o[there(t)], (t[there(t)] > 0).float()),
    "probabilities": lambda o, t: F.binary_cross_entropy(o[there(t)].sigmoid(), t[there(t)].sigmoid()),
    "largest": lambda o, t: o[there(t)].max() - o[there(t)].min() + o[there(t)].exp().amax(),
    "written": written_twice,
    "counted": by_count,
    "logarithm": logarithm,
    "rows": of_rows,
    "flat": flat,
    "divergence": lambda o, t: F.kl_div(
        F.log_softmax(o[there(t).all(1)], 1), F.softmax(t[there(t).all(1)], 1), reduction="batchmean"
    ),
    "a norm": lambda o, t: (o[there(t)] - t[there(t)]).norm() + torch.linalg.vector_norm(o[there(t)]),
    "none at all": lambda o, t: o[t > 100].sum() + o.sum(),
    "a part": lambda o, t: (o[there(t).all(1), 1:3] ** 2).mean(),
}
WEIGHTS = torch.tensor([1.0, 2.0, 0.5, 3.0, 1.5])
OF_LABELS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "labels": lambda o, t: F.cross_entropy(o[t != -100], t[t != -100]),
    "weighted": lambda o, t: F.cross_entropy(o[t >= 0], t[t >= 0], weight=WEIGHTS, label_smoothing=0.1),
    "log_softmax": lambda o, t: F.nll_loss(o.log_softmax(1)[t >= 0], t[t >= 0], reduction="sum"),
    "gathered": lambda o, t: -o.log_softmax(1)[t >= 0].gather(1, t[t >= 0].unsqueeze(1)).squeeze(1).mean(),
    "each": lambda o, t: F.cross_entropy(o[t >= 0], t[t >= 0], reduction="none").clamp(max=1.5).sum(),
    "one hot": lambda o, t: F.mse_loss(o[t >= 0], F.one_hot(t[t >= 0], EXTENT).float()),
}


def chosen(net: Any, y: Tensor) -> Tensor:
    weights, which = net.gate(y).softmax(-1).max(-1)
    out = torch.zeros_like(y)
    for i, expert in enumerate(net.experts):
        mask = which == i
        out[mask] = expert(y[mask]) * weights[mask].unsqueeze(-1)
    return out


def best_two(net: Any, y: Tensor) -> Tensor:
    weights, which = net.gate(y).topk(2)
    out = torch.zeros_like(y)
    for i, expert in enumerate(net.experts):
        row, place = torch.where(which == i)
        out[row] += weights[row, place, None] * expert(y[row])
    return out


def added(net: Any, y: Tensor) -> Tensor:
    weights, which = net.gate(y).softmax(-1).topk(2)
    taken = F.one_hot(which, 3).permute(2, 1, 0)
    out = torch.zeros_like(y)
    for i, expert in enumerate(net.experts):
        place, row = torch.where(taken[i])
        out.index_add_(0, row, expert(y[row]) * weights[row, place, None])
    return out


def nonzero(net: Any, y: Tensor) -> Tensor:
    (row,) = (y.sum(1) > 0).nonzero(as_tuple=True)
    out = y.clone()
    out[row] = net.experts[0](y[row]).relu()
    return out


ROUTED = [chosen, best_two, added, nonzero]


def check(rest: Callable[..., Any] | None, loss: Any, target: Tensor) -> None:
    x = torch.randn(ROWS, 6, generator=torch.Generator().manual_seed(5))
    captured_and_checked(user_of(Net(rest), x, target, loss=loss))


@pytest.mark.parametrize("name", OF_VALUES)
def test_losses_of_values_that_are_there(name: str) -> None:
    check(None, OF_VALUES[name], values())


@pytest.mark.parametrize("name", OF_LABELS)
def test_losses_of_rows_that_have_a_label(name: str) -> None:
    check(None, OF_LABELS[name], labels())


@pytest.mark.parametrize("route", ROUTED)
def test_rows_that_go_to_experts(route: Any) -> None:
    check(route, nn.MSELoss(), torch.randn(ROWS, EXTENT))


def test_what_nothing_selects_has_no_mean() -> None:
    """Gradients are zeros, as in PyTorch."""
    check(None, lambda o, t: o[t > 100].sqrt().mean().nan_to_num() + o.sum(), values())


REFUSED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "the rows mix": lambda o, t: o[there(t)].cumsum(0).mean(),
    "a product of rows": lambda o, t: (o[there(t).all(1)] @ o[there(t).all(1)].T).mean(),
    "in an order": lambda o, t: o[there(t)].sort()[0].mean(),
    "the first": lambda o, t: o[there(t)][0],
    "another mask's": lambda o, t: F.mse_loss(o[t == t.max()], t[t == t.min()]),
    "all of the target": lambda o, t: (o[there(t)] - t.flatten()).mean(),
    "a number of Python": lambda o, t: o.sum() / len(o[there(t)]),
    "a spread": lambda o, t: o[there(t)].std(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_hangs_on_how_many_there_are_is_refused(name: str) -> None:
    with pytest.raises(Unsupported) as refused:
        check(None, REFUSED[name], values().nan_to_num(0.1))
    assert "values in a tensor" in refused.value.message, refused.value.message


def test_a_mask_that_is_written_to() -> None:
    """What it has selected stays."""

    def loss(o: Tensor, t: Tensor) -> Tensor:
        mask = there(t)
        found = t[mask]
        mask[0] = False
        return o.mean() + found.mean()

    with pytest.raises(Unsupported, match="written to"):
        check(None, loss, values())
