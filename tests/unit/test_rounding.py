"""What rounding may do to a tensor: the errors that are made on purpose, and the verdict that rests on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from golden import compare, reference, rounding
from golden.rounding import ROUNDING, Rounding
from golden.task import Task
from tests.fuzz import wolf, zeros
from trainlib_deployer.check.judge import judge
from trainlib_deployer.cli.console import unseen

torch.set_num_threads(1)


def apart(got: torch.Tensor, exact: torch.Tensor) -> float:
    return float((got.double() - exact.double()).norm() / exact.double().norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_err_with_their_length_and_moves_do_not(dtype: torch.dtype) -> None:
    x, y = torch.randn(37, 401, dtype=dtype).abs(), torch.randn(401, 29, dtype=dtype).abs()
    size = ROUNDING / rounding.SHRUNK if dtype is torch.float64 else ROUNDING * rounding.USUAL
    with Rounding(3, dtype):
        moved = torch.cat([x.t().contiguous(), x.relu().t()]).roll(5, 0)[3:].clone()
        product, total, more = x @ y, x.sum(1), x + 1
    assert torch.equal(moved, torch.cat([x.t(), x.relu().t()]).roll(5, 0)[3:])
    fewest = 1 if dtype is torch.float64 else rounding.FEWEST
    long, alone = 401**0.5 * size / 3**0.5, fewest**0.5 * size / 3**0.5
    assert long / 2 < apart(product, x.double() @ y.double()) < 3 * long
    assert long / 2 < apart(total, x.double().sum(1)) < 3 * long
    assert alone / 2 < apart(more, x + 1.0) < 2 * alone


def test_masks_counts_and_what_is_written_in_place() -> None:
    x = torch.randn(50)
    with Rounding(1, torch.float32):
        ones = (x > 0).float() * 3 - 1
        y = x.clone()
        view = y.view(5, 10)
        y.mul_(1.1)
    assert torch.equal(ones, (x > 0).float() * 3 - 1)
    assert torch.equal(view.flatten(), y) and not torch.equal(y, x * 1.1)
    assert apart(y, x * 1.1) < 2 * ROUNDING


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_that_are_masked_stay_so(dtype: torch.dtype) -> None:
    """Fault: minus infinity and an error of its own size are not a number, and what is none in a run is not judged."""
    x = torch.randn(2, 3, 5, 4, dtype=dtype)
    with rounding.otherwise(1, dtype):
        causal = nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        sums = torch.full((3, 7), -torch.inf, dtype=dtype).sum(0)
    assert causal.isfinite().all() and (sums == -torch.inf).all()


@pytest.mark.parametrize("layer", [nn.BatchNorm2d(5), nn.GroupNorm(5, 5), nn.LayerNorm([4, 3])])
def test_a_composed_operation_is_the_same_one(layer: nn.Module) -> None:
    """Taken apart, a norm gives the same result, gradients and running statistics."""
    g = torch.Generator().manual_seed(5)
    x, t = torch.randn(3, 5, 4, 3, generator=g), torch.randn(3, 5, 4, 3, generator=g)
    task = Task(layer, lambda y, t: (y * t).sum(), [((x,), t)], "SGD", [({"lr": 0.1}, names(layer))])
    plain, shaken = (reference.run(task, 1, torch.float32, noise=noise) for noise in (0, 1))
    assert plain.keys() == shaken.keys()
    for key, values in plain.items():
        assert compare.distance(shaken[key], values, float(np.linalg.norm(values))) < 1e-5, key


def names(module: nn.Module) -> list[str]:
    return [n for n, _ in module.named_parameters()]


class Biased(nn.Module):
    """The convolution's bias has no effect: its gradient is rounding. A sum hides in a large number."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.conv, self.norm, self.head = nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.Linear(5, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.conv(x)).relu().mean((2, 3)))  # type: ignore[no-any-return]


def biased_task(kind: str) -> Task:
    module = Biased()
    torch.manual_seed(4)
    samples = [((torch.randn(4, 3, 7, 5),), torch.randint(4, (4,))) for _ in range(2)]
    return Task(module, nn.CrossEntropyLoss(), samples, kind, [({"lr": 0.01}, names(module))])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_a_bias_in_front_of_a_norm_is_named(kind: str) -> None:
    task = biased_task(kind)
    computed = reference.run(task, 2, torch.float32)
    judged = judge(task, computed, 2, [])
    assert judged.verdict.passed
    only = {t.name for t in judged.verdict.rounding_only if t.kind == "gradient"}
    assert only == {"conv.bias"}
    assert "0/gradient/conv.bias" in judged.verdict.as_json()["rounding_only"]
    assert "gradient of conv.bias: rounding only, not judged beyond its bound" in unseen(judged.verdict)
    seen = {t.name: t.hides for t in judged.verdict.tensors if t.kind == "gradient" and t.name != "conv.bias"}
    assert max(seen.values()) < 1e-3
    if kind == "SGD":  # rounding only, but not anything
        spoiled = {k: v * 1e3 if k[1:] == ("gradient", "conv.bias") else v for k, v in computed.items()}
        assert not judge(task, spoiled, 2, []).verdict.passed


@pytest.mark.slow
@pytest.mark.parametrize("seed", [8, 21, 928, 1887])
def test_another_order_of_summation_is_no_mistake(seed: int, tmp_path: Path) -> None:
    """Fault: a correct program fails, since no run disturbed the gradients on their way, or (928, 1887) since Adamax's
    and Adam's states of a gradient that is all rounding are not to first order what they are."""
    (tmp_path / "net.py").write_text(zeros.source(seed))
    found = wolf.stood_in(tmp_path / "net.py", seed, plant=seed == 21)
    assert found.passed, found.words
    assert not found.silent
    assert seed != 21 or 0 < found.named < found.planted / 2


def test_runs_are_the_same_each_time() -> None:
    def record(seed: int) -> dict[Any, Any]:
        return reference.run(biased_task("Adam"), 1, torch.float64, noise=seed)

    first, again, other = record(1), record(1), record(2)
    assert all(np.array_equal(first[k], again[k]) for k in first)
    assert any(not np.array_equal(first[k], other[k]) for k in first)


@pytest.mark.parametrize("momentum", [None, 1.0, 0.3])
def test_all_runs_record_the_same_tensors(momentum: float | None) -> None:
    """Statistics of a batch that comes again are the same or not, by rounding alone."""
    torch.manual_seed(0)
    net = nn.BatchNorm2d(3, momentum=momentum)
    data = [((torch.randn(4, 3, 5, 5),), torch.randn(4, 3, 5, 5))]
    task = Task(net, nn.MSELoss(), data, "SGD", [({"lr": 0.1}, ["weight", "bias"])])
    runs = [reference.run(task, 4, d, noise=seed) for d in (torch.float64, torch.float32) for seed in range(2)]
    assert all(set(runs[0]) == set(run) for run in runs) and (3, "state", "running_var") in runs[0]


def test_what_has_no_numbers_has_no_errors() -> None:
    """PyTorch works out shapes on tensors without contents, in some gradients too."""
    with Rounding(1, torch.float32):
        assert (torch.ones(3, device="meta") + 1).is_meta


class Barely(nn.Module):
    """Writes a buffer, which keeps its value unless a rounding error is made on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 5)
        self.register_buffer("scale", torch.rand(5) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.scale.mul_(1.0)
        return self.fc(x) * self.scale


def test_what_only_rounding_changes_is_no_missing_tensor() -> None:
    net, g = Barely(), torch.Generator().manual_seed(8)
    samples = [((torch.randn(7, 3, generator=g),), torch.randn(7, 5, generator=g)) for _ in range(2)]
    task = Task(net, nn.MSELoss(), samples, "SGD", [({"lr": 0.1}, names(net))])
    exact = reference.run(task, 2, torch.float64)
    shaken = [reference.run(task, 2, dtype, noise=1) for dtype in (torch.float32, torch.float64)]
    assert not any(kind == "state" for _, kind, _ in exact)
    assert all(not np.array_equal(s[1, "state", "scale"], net.scale.numpy()) for s in shaken)
    assert rounding.first_order(exact, shaken[1]).keys() == exact.keys() <= shaken[0].keys()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_by_winograd_a_sum_of_zeros_beside_large_terms_is_no_zero(dtype: torch.dtype) -> None:
    """Fault: Adam moves a weight whose gradient is exactly zero by what is left of its neighbours' rounding."""
    x, w = torch.randn(2, 5, 11, 7, dtype=dtype), torch.randn(3, 5, 3, 3, dtype=dtype)
    x[:, 2], x[:, :, :4] = 0, 0  # a channel, and rows of an image
    g = torch.randn(2, 3, 11, 7, dtype=dtype)
    g[:, :, 5:] = 0
    arguments = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    found = {}
    for winograd in (False, True):
        with Rounding(3, dtype, winograd):
            y = torch.ops.aten.convolution.default(x, w, None, *arguments)
            back = torch.ops.aten.convolution_backward.default(g, x, w, None, *arguments, [True, True, False])
        found[winograd] = (y, *back[:2])
    size = 300 * (ROUNDING / rounding.SHRUNK if dtype is torch.float64 else ROUNDING)
    for plain, tiled in zip(found[False], found[True], strict=True):
        assert (plain == 0).any() and (tiled - plain).abs().max() < size * plain.abs().max()
    y, dx, dw = found[True]
    assert (y[:, :, :2] == 0).all() and (y[:, :, 2] != 0).all() and (found[False][0][:, :, 2] == 0).all()
    assert (dx[:, :, 7:] == 0).all() and (dx[:, :, 6] != 0).all() and (found[False][1][:, :, 6] == 0).all()
    assert (dw[:, 2] == 0).all() and (dw[:, :2] != 0).all() and (found[False][2][:, :2, 0] == 0).all()


def test_convolutions_that_winograd_cannot_do_err_as_they_did() -> None:
    x, w = torch.randn(1, 2, 9, 9), torch.randn(2, 2, 3, 3)
    for stride, kernel in ((2, w), (1, w[:, :, :1])):
        runs = []
        for winograd in (False, True):
            with Rounding(3, torch.float32, winograd):
                runs.append(nn.functional.conv2d(x, kernel, stride=stride))
        assert torch.equal(*runs)


def test_a_mean_that_is_zero_in_float32_is_no_missing_tensor() -> None:
    """Batch norm behind batch norm: its mean is rounding, or nothing. Fault: no run of float32 records it, because
    PyTorch counts no write to it."""
    net = nn.Sequential(nn.Linear(3, 5, bias=False), nn.BatchNorm1d(5))
    nn.init.constant_(net[0].weight, 1e-25)
    samples = [((torch.full((7, 3), 1e-25),), torch.ones(7, 5))]
    task = Task(net, nn.MSELoss(), samples, "SGD", [({"lr": 0.1}, names(net))])
    exact, single = (reference.run(task, 1, dtype) for dtype in (torch.float64, torch.float32))
    assert exact[0, "state", "1.running_mean"].all() and not single[0, "state", "1.running_mean"].any()
    assert exact.keys() <= single.keys() and compare.compare(single, exact, [single], {}).passed
