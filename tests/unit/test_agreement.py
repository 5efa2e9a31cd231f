"""Captured steps beside plain PyTorch: what was called a disagreement, or could not be captured, though it is right."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.unit.test_model_state import user_of
from trainlib_deployer.api import deploy
from trainlib_deployer.capture.agreement import captured_and_checked
from trainlib_deployer.errors import Unsupported

pytestmark = pytest.mark.slow

Forward = Callable[[nn.Module, torch.Tensor], torch.Tensor]


class Net(nn.Module):
    def __init__(self, rest: Forward) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.fc, self.other, self.rest = nn.Linear(6, 6), nn.Linear(6, 6), rest
        self.attention = nn.MultiheadAttention(6, 6, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rest(self, self.fc(x))


class Again(torch.autograd.Function):
    """Computes a layer once more in the backward pass, which adds to the gradients of its parameters by itself."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, layer: nn.Module) -> Any:
        ctx.layer = layer
        ctx.save_for_backward(x.detach())
        return layer(x.detach()).detach()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.layer(x)
        torch.autograd.backward(y, gradient)
        return x.grad, None


def attended(x: torch.Tensor) -> torch.Tensor:
    given = x.view(1, 1, 4, 6)
    return F.scaled_dot_product_attention(given, given, given).view(4, 6)


def far_from_zero(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    given = torch.cat([x, x.sin(), x.cos(), x * x])[None]
    y, weights = net.attention(given, given, given)
    return F.instance_norm((y + 9 * weights.sum()).transpose(1, 2)).transpose(1, 2)[0, :4]


def attended_by_flash(x: torch.Tensor) -> torch.Tensor:
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        return attended(x)


FORWARDS: dict[str, Forward] = {
    "rrelu draws nothing, and the dropout behind it as much as ever": lambda net, x: F.dropout(
        F.rrelu(x, 0.1, 0.3, training=False), 0.3
    ),
    "index_fill of other strides": lambda net, x: x.t().index_fill(0, torch.tensor([1, -1]), 0.25).t(),
    "index_fill in place": lambda net, x: (1 * x).t().index_fill_(0, torch.tensor([2]), 0.25).t(),
    "what a norm takes away leaves much rounding": far_from_zero,
    "a choice by bytes": lambda net, x: torch.where((x > 0).to(torch.uint8), x, 2 * x),
    "one of several results written in place": lambda net, x: x.sort(1)[0].mul_(2),
    "signs kept in bytes": lambda net, x: x * ((x >= 0).float() - (x < 0).float()).type(torch.int8) + x.sign().char(),
    "an assertion": lambda net, x: torch._assert_async((x < 1e9).all()) or x,  # type: ignore[func-returns-value]
    "attention by the user's choice of kernels": lambda net, x: attended_by_flash(x),
    "gradients by a backward pass inside of the backward pass": lambda net, x: (
        Again.apply(Again.apply(x, net.other), net.other) + net.other(x)  # type: ignore[no-untyped-call]
    ),
}


@pytest.mark.parametrize("name", FORWARDS)
def test_it_is_captured_and_agrees(name: str) -> None:
    generator = torch.Generator().manual_seed(4)
    x, y = torch.randn(4, 6, generator=generator), torch.randn(4, 6, generator=generator)
    captured_and_checked(user_of(Net(FORWARDS[name]), x, y, loss=nn.MSELoss()))


def test_hooks_of_parameters_change_their_gradients() -> None:
    net = Net(lambda net, x: x * 2)
    net.fc.weight.register_hook(lambda g: g.clamp(-0.01, 0.01))
    net.fc.bias.register_hook(lambda g: g * torch.arange(6))
    captured_and_checked(user_of(net, torch.randn(4, 6), torch.randn(4, 6), loss=nn.MSELoss()))


def test_a_hook_that_bounds_gradients_of_several_passes_is_refused_in_its_own_words(tmp_path: Path) -> None:
    model = nn.Linear(3, 5)
    model.weight.register_hook(lambda g: g.clamp(-0.1, 0.1))
    with pytest.raises(Unsupported, match=r"of 2 backward passes .* a hook that bounds") as found:
        deploy(model, torch.randn(2, 3), 9 * torch.randn(2, 5), loss=nn.MSELoss(), accumulate=2, out=tmp_path / "p")
    assert "clip_grad_value" in found.value.remedy


def test_parts_of_parameters_are_written_through_data() -> None:
    def bounded(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            net.fc.weight[2:4].clamp_(-0.1, 0.1)  # type: ignore[union-attr, index, operator]
        return x + net.fc(x)  # type: ignore[operator]

    with pytest.raises(Unsupported) as refused:
        captured_and_checked(user_of(Net(bounded), torch.randn(4, 6), torch.randn(4, 6), loss=nn.MSELoss()))
    assert "weight.data[2:4]" in refused.value.remedy


TABLE, KEPT, COUNT = torch.ones(6), [torch.zeros(6)], 0


def outside(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Writes to what a file holds, and to what is calculated from it."""
    before = KEPT[0]
    KEPT[0] = x.detach().mean(0)
    TABLE.mul_(0.5)
    mine = TABLE * 1
    mine[1] = 2
    return x * mine + before


def counted(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    global COUNT
    COUNT += 1
    return x * 2 if COUNT > 50 else x


def test_tensors_of_a_file_are_state() -> None:
    user = user_of(Net(outside), torch.randn(4, 6), torch.randn(4, 6), loss=nn.MSELoss())
    captured, _ = captured_and_checked(user)
    assert {o.name for o in captured.outputs if o.kind == "buffer"} == {"globals.TABLE", "globals.KEPT.0"}
    assert torch.equal(TABLE, torch.ones(6)) and torch.equal(KEPT[0], torch.zeros(6))


def test_numbers_of_a_file_are_watched() -> None:
    with pytest.raises(Unsupported, match=r"globals\.COUNT"):
        captured_and_checked(user_of(Net(counted), torch.randn(4, 6), torch.randn(4, 6), loss=nn.MSELoss()))
    assert COUNT == 0


class Escaping(nn.Module):
    """Keeps what torch.vmap has in its hands."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)
        self.last: torch.Tensor | None = None
        self.shape = torch.empty(3, device="meta")

    def one(self, x: torch.Tensor) -> torch.Tensor:
        self.last = x
        return self.fc(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.vmap(self.one)(x)


def test_what_vmap_leaves_behind_is_in_nobodys_way() -> None:
    captured_and_checked(user_of(Escaping(), torch.randn(4, 6), torch.randn(4, 6), loss=nn.MSELoss()))


def test_what_may_wrap_in_bytes_is_refused() -> None:
    with pytest.raises(Unsupported, match="int8, which wraps around"):
        net = Net(lambda net, x: x * (2 * x.sign() - 127).char())
        captured_and_checked(user_of(net, torch.randn(4, 6), torch.randn(4, 6), loss=nn.MSELoss()))


def put(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    y, place = 1 * x, x.mean(0).argmax()
    y[:, place - 6] = 0.5 * x[:, 1]
    y[place % 4] = x[0].sum()
    y[..., 1 - place % 2] += 2
    marked = torch.zeros(6)
    first = marked[:3]
    marked[place] = 3
    return y * (marked + 1) + first.sum()


PLACES: dict[str, Forward] = {
    "written to": put,
    "a place that is computed": lambda net, x: x[:, x.mean(0).argmax()],
    "of the last": lambda net, x: x.view(2, 2, 6)[..., x.mean(0).argmax() - 6, None],
    "in the middle": lambda net, x: x.view(2, 2, 3, 2)[None, 1:, x.view(-1).topk(3)[1][2] % 2, ..., 1],
    "of the row of a parameter": lambda net, x: x * net.fc.weight[x.mean(0).argmax()],  # type: ignore[union-attr, index, operator]
    "beside others": lambda net, x: x.view(2, 2, 6)[[0, 1, 1], x.mean(0).argmax() % 2, torch.tensor([5, 0, 5])],
}


@pytest.mark.parametrize("way", PLACES)
def test_a_place_is_found_as_the_step_runs(way: str) -> None:
    """Fault: a tensor of one integer as an index was refused, since PyTorch reads it."""
    model = Net(PLACES[way])
    x = torch.randn(4, 6)
    captured_and_checked(user_of(model, x, torch.randn_like(model(x)), loss=nn.MSELoss()))


def following(student: nn.Module) -> tuple[nn.Module, Callable[..., torch.Tensor]]:
    """A teacher that a loss keeps, and moves a little towards the network in each step."""
    teacher = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6)).requires_grad_(False)

    def distance(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            for mine, theirs in zip(teacher.parameters(), student.fc.parameters(), strict=False):  # type: ignore[operator, union-attr]
                mine.lerp_(theirs, 0.25)
        return F.mse_loss(y, teacher(x))

    return teacher, distance


def around(teacher: nn.Module, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(y, teacher(x))


class Centred(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        self.mean: torch.Tensor = self.mean / 2 + y.detach().mean(0)
        return F.mse_loss(y - self.mean, x)


MEAN = torch.zeros(6)


def centred(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    global MEAN
    MEAN = MEAN / 2 + y.detach().mean(0)
    return F.mse_loss(y - MEAN, x)


KEPT_BY = {
    "a variable around it": ("'distance.teacher.0.weight'", "model.teacher = teacher"),
    "functools.partial": ("'teacher.1.num_batches_tracked'", "model.teacher = teacher"),
    "the loss itself": ("'loss.mean'", "model.criterion = loss"),
    "the file": ("'globals.MEAN'", "model.register_buffer('MEAN', MEAN)"),
}


@pytest.mark.parametrize("way", KEPT_BY)
def test_state_that_a_loss_keeps_is_named(way: str) -> None:
    """Refused with what it is called and the line that makes the model hold it; and left as it was."""
    model = Net(lambda net, x: x)
    teacher, distance = following(model)
    losses = [distance, functools.partial(around, teacher), Centred(), centred]
    before = copy.deepcopy(teacher.state_dict())
    user = user_of(model, torch.randn(4, 6), torch.randn(4, 6), loss=losses[list(KEPT_BY).index(way)])
    with pytest.raises(Unsupported) as refused:
        captured_and_checked(user)
    words, remedy = KEPT_BY[way]
    assert words in refused.value.message and remedy in refused.value.remedy
    assert all(torch.equal(v, before[n]) for n, v in teacher.state_dict().items())
    assert not MEAN.any()


@pytest.mark.parametrize("way", ["a variable around it", "the loss itself"])
def test_state_that_a_loss_keeps_is_the_models_where_it_holds_it(way: str) -> None:
    """What the refusals advise."""
    model = Net(lambda net, x: x)
    teacher, distance = following(model)
    loss: Any = distance
    if way == "the loss itself":
        model.criterion = loss = Centred()
    else:
        model.teacher = teacher
    captured, _ = captured_and_checked(user_of(model, torch.randn(4, 6), torch.randn(4, 6), loss=loss))
    assert {"teacher.0.weight", "criterion.mean"} & captured.written


def test_what_is_written_to_such_a_place_is_not_known() -> None:
    """Nor is what lies in the same memory."""

    def decided(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
        marked = torch.zeros(6)
        first = marked[:3]
        marked[x.mean(0).argmax()] = 3
        return x if first.sum() > 1 else 2 * x

    with pytest.raises(Unsupported, match="depends on the values"):
        captured_and_checked(user_of(Net(decided), torch.randn(4, 6), torch.randn(4, 6), loss=nn.MSELoss()))
