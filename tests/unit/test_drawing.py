"""What PyTorch's random operations draw in forward: their distributions, ranges and types."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from golden.drawing import Drawing
from golden.random_numbers import Numbers

COUNT = 20011
EULER = 0.5772156649015329

DRAWN: dict[str, tuple[Callable[[], torch.Tensor], float, float]] = {  # values, mean, standard deviation
    "rand": (lambda: torch.rand(COUNT), 0.5, 12**-0.5),
    "rand_like": (lambda: torch.rand_like(torch.empty(COUNT)), 0.5, 12**-0.5),
    "uniform_": (lambda: torch.empty(COUNT).uniform_(-2, 4), 1.0, 6 * 12**-0.5),
    "randn": (lambda: torch.randn(COUNT), 0.0, 1.0),
    "normal_": (lambda: torch.empty(COUNT).normal_(3, 2), 3.0, 2.0),
    "normal": (lambda: torch.normal(torch.full((COUNT,), 2.0), 0.5), 2.0, 0.5),
    "exponential_": (lambda: torch.empty(COUNT).exponential_(4), 0.25, 0.25),
    "log_normal_": (lambda: torch.empty(COUNT).log_normal_(0, 0.5), math.exp(0.125), 0.6039),
    "geometric_": (lambda: torch.empty(COUNT).geometric_(0.3), 1 / 0.3, math.sqrt(0.7) / 0.3),
    "cauchy_": (lambda: (torch.empty(COUNT).cauchy_(1, 2) > 3) * 1.0, 0.25, math.sqrt(3) / 4),
    "bernoulli": (lambda: torch.bernoulli(torch.full((COUNT,), 0.2)), 0.2, 0.4),
    "bernoulli_": (lambda: torch.empty(COUNT).bernoulli_(0.8), 0.8, 0.4),
    "randint": (lambda: torch.randint(-3, 8, (COUNT,)).float(), 2.0, math.sqrt(10)),
    "randint_like": (lambda: torch.randint_like(torch.empty(COUNT), 11), 5.0, math.sqrt(10)),
    "random_": (lambda: torch.empty(COUNT).random_(5, 8), 6.0, math.sqrt(2 / 3)),
    "multinomial": (lambda: torch.multinomial(torch.tensor([1.0, 2, 1]).expand(COUNT, 3), 1).float(), 1.0, 0.5**0.5),
    "multinomial_again": (lambda: torch.multinomial(torch.tensor([1.0, 2, 1]), COUNT, True).float(), 1.0, 0.5**0.5),
    "rrelu": (lambda: -F.rrelu(-torch.ones(COUNT), 0.2, 0.4, True), 0.3, 0.2 * 12**-0.5),
    "gumbel": (lambda: -torch.empty(COUNT).exponential_().log(), EULER, math.pi / 6**0.5),
}


@pytest.mark.parametrize("name", DRAWN)
def test_distributions(name: str) -> None:
    draw, mean, deviation = DRAWN[name]
    with Drawing(Numbers(7)):
        first, second = draw().flatten(), draw().flatten()
    with Drawing(Numbers(8)):
        later = draw().flatten()
    for values in (first, second, later):
        assert abs(float(values.mean()) - mean) < 4.5 * deviation / COUNT**0.5
        assert abs(float(values.std()) / deviation - 1) < 0.05
    assert not torch.equal(first, second) and not torch.equal(first, later)
    assert abs(float(torch.corrcoef(torch.stack([first, second, first.roll(1)]))[0, 1:].abs().max())) < 0.035


def test_ranges_and_types() -> None:
    with Drawing(Numbers(0)):
        u, z = torch.rand(COUNT), torch.randn(COUNT)
        assert 0 < float(u.min()) < 1e-3 and 1 - 1e-3 < float(u.max()) < 1
        assert 3.5 < float(z.max()) < 5.5 and bool(torch.isfinite(z).all())
        whole = torch.randint(-3, 8, (COUNT,))
        assert whole.dtype is torch.int64 and whole.unique().tolist() == list(range(-3, 8))
        assert torch.rand(3, dtype=torch.float64).dtype is torch.float64
        assert torch.randint(3, (2,), dtype=torch.int32).dtype is torch.int32
        assert torch.rand_like(torch.zeros(3, dtype=torch.float64)).dtype is torch.float64
        assert sorted(torch.randperm(101).tolist()) == list(range(101)) != torch.randperm(101).tolist()
        chosen = torch.multinomial(torch.ones(50, 4), 4)
        assert bool((chosen.sort(1)[0] == torch.arange(4)).all()) and len(chosen.unique(dim=0)) > 10


def test_the_same_in_both_precisions() -> None:
    """Uniform numbers and what is whole are exact; a mode outside of this one may ask for float64."""

    def drawn(dtype: torch.dtype) -> list[torch.Tensor]:
        with Drawing(Numbers(3)):
            return [
                torch.rand(99, dtype=dtype),
                torch.empty(99, dtype=dtype).bernoulli_(0.3),
                torch.randint(7, (99,), dtype=dtype),
                torch.randn(99, dtype=dtype),
            ]  # fmt: skip

    *exact, z = zip(drawn(torch.float32), drawn(torch.float64), strict=True)
    assert all(torch.equal(a.double(), b) for a, b in exact)
    assert torch.allclose(z[0].double(), z[1], rtol=1e-4)


def test_what_is_not_known_is_left_to_pytorch() -> None:
    seen = []

    class Seeing(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Seeing(), Drawing(Numbers(0)):  # type: ignore[no-untyped-call]
        torch.poisson(torch.ones(3))
        torch.rand(3)
    assert torch.ops.aten.poisson.default in seen and torch.ops.aten.rand.default not in seen
