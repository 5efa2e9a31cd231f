"""What is no more rounded in the reference of mixed precision: halves that the program had, and maxima of halves."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
import torch

from golden.doubt import CERTAIN, Doubt
from golden.halves import Halves
from golden.memory import Memory
from golden.rounding import otherwise

Operation = Callable[[torch.Tensor], torch.Tensor]
TURNED = torch.arange(7).flip(0).div(2, rounding_mode="floor").view(1, 7).expand(6, 7)
MAXIMA: dict[str, Operation] = {
    "amax": lambda x: x.amax(1),
    "amin": lambda x: x.amin((0, 1)).reshape(1),
    "max": lambda x: x.max().reshape(1),
    "norm": lambda x: torch.linalg.vector_norm(x, float("inf"), 1),
    "index_reduce": lambda x: x.index_reduce(1, torch.tensor([0, 1]), x.narrow(1, 0, 2), "amax"),
    "scatter_reduce": lambda x: x.scatter_reduce(1, TURNED[:, : x.shape[1]], x, "amin"),
}
BEFORE: dict[str, Operation] = {
    "tanh": torch.tanh,
    "product": lambda x: x @ torch.eye(7, dtype=x.dtype),
    "in place": lambda x: (x * 1.0).mul_(1.3),
    "repeated": lambda x: (x * 1.3)[:, :1].expand(6, 7),
    "part": lambda x: (x @ torch.eye(7, dtype=x.dtype))[:, 1:6],
}
DOUBTS = (CERTAIN, *(Doubt(shaken=1 / 16, seed=seed) for seed in range(3)))


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("maximum", MAXIMA)
def test_autograd_finds_a_maximum_among_what_it_is_of(maximum: str, before: str) -> None:
    """Fault: it was one of halves, what it was compared with floats, as in a chain of loops, or a half that the program
    had, in another size; and its gradient was 0 / 0. A run without numbers is no reference."""
    torch.manual_seed(5)
    x = torch.randn(6, 7).double().requires_grad_()
    with torch.no_grad():
        made = BEFORE[before](x)
        had = [(1.37 * v).half().numpy() for v in (made, made.abs(), MAXIMA[maximum](made)) if v.numel() > 1]
    memories = (None, Memory({0: had}).of(0))
    for doubt, chains, memory in product(DOUBTS, (False, True), memories):
        with Halves(torch.float64, [x], chains, branches=doubt.of(0), memory=memory):
            made = BEFORE[before](x)
            made.retain_grad()
            found = MAXIMA[maximum](made)
            found.sum().backward()
        assert x.grad is not None and made.grad is not None and x.grad.isfinite().all()
        passed_on = made.grad * made.detach().sign() if maximum == "norm" else made.grad
        assert passed_on.sum().item() == pytest.approx(found.numel(), rel=1e-3)
        x.grad = None


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("maximum", MAXIMA)
def test_a_maximum_is_off_by_no_rounding(maximum: str, dtype: torch.dtype) -> None:
    """Fault: in runs that are off by roundings it was equal to none of what it is of, and the gradient 0 / 0."""
    torch.manual_seed(5)
    x = torch.randn(6, 7, dtype=dtype, requires_grad=True)
    with otherwise(3, dtype):
        made = torch.tanh(x) * 1.3
        MAXIMA[maximum](made).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None and x.grad.isfinite().all() and x.grad.any()


def read(value: torch.Tensor, had: torch.Tensor, change: Operation) -> tuple[torch.Tensor, torch.Tensor]:
    """What is made of it by one operation, of floats, and what of the float that it is by two."""
    with Halves(torch.float64, [value], False, memory=Memory({0: [had.numpy()]}).of(0)):
        made = value * 1.0
        return made, change(made)


SEEN: dict[str, Operation] = {
    "whole": lambda v: v + 0.0,
    "transposed": lambda v: v.t() + 0.0,
    "part": lambda v: v[2:, 1:4] + 0.0,
    "product": lambda v: v.reshape(7, 6) @ torch.eye(6, dtype=v.dtype),
}


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("factor", [1.0, 1.0005])
def test_what_the_program_had_as_halves_is_not_rounded_again(factor: float, seen: str) -> None:
    """Fault: in a size that is off by what rounding does to it, some elements became the half beside them, and where
    large terms cancel that was all of a gradient. What its own values round to has no other size."""
    torch.manual_seed(8)
    value = torch.randn(6, 7).double()
    half = (factor * value).half().double()
    size = (half * value).sum() / value.square().sum() if factor != 1.0 else torch.ones(())
    made, result = read(value, half.half(), SEEN[seen])
    assert torch.allclose(made, half / size, rtol=1e-12) and torch.equal(made.half().double(), made) == (factor == 1.0)
    assert torch.allclose(result, SEEN[seen](half / size), rtol=1e-12)


def test_what_the_program_had_as_floats_is_rounded() -> None:
    """Also halves that something is written to, and of what lies in one place those that the program had not."""
    torch.manual_seed(8)
    value = torch.randn(6, 7).double()
    for had, change in (
        (value.float(), lambda v: v[:, :5] + 0.0),
        ((1.05 * value).half(), lambda v: v[:, :5] + 0.0),
        (value.half(), lambda v: v.add_(0.3)[:, :5] + 0.0),
        (value[:3].half(), lambda v: (v[:3].mul_(1.0), v[:, :5] + 0.0)[1]),
    ):
        _, result = read(value, had, change)
        assert torch.equal(result.half().double(), result)


def test_a_multiple_of_what_the_program_had_is_not_taken_for_it() -> None:
    """Fault: it points the same way, the halves of it only nearly, so these were not found; and where a norm takes the
    factor away, the gradient of that is nothing but what they were rounded by."""
    torch.manual_seed(8)
    value = torch.randn(6, 7).half().double()
    multiple = (1.3 * value).half()
    made = 1.3 * value
    assert Memory({0: [value.half().numpy(), multiple.numpy()]}).of(0).follow(made)
    size = (made * multiple).sum() / made.square().sum()
    assert torch.allclose(made * size, multiple.double(), rtol=1e-12) and abs(size - 1) < 1e-3
