"""Complex tensors as pairs of real ones: values and gradients of traced steps against PyTorch's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx, nn

from golden.precision import cast
from golden.rounding import Rounding
from tests.unit.test_model_state import user_of
from trainlib_deployer.capture.agreement import Dense
from trainlib_deployer.capture.tidy import tidy
from trainlib_deployer.capture.trace import functional, trace
from trainlib_deployer.capture.without_complex import without_complex
from trainlib_deployer.errors import UsageError

aten = torch.ops.aten
Function = Callable[..., torch.Tensor]


def step(function: Function) -> Callable[..., list[torch.Tensor]]:
    """The result and the gradients of a sum with weights."""

    def run(*values: torch.Tensor) -> list[torch.Tensor]:
        leaves = [v.detach().requires_grad_() for v in values]
        y = function(*leaves)
        weights = (torch.arange(y.numel()) * 7 % 17 / 8 - 1).reshape(y.shape)
        return [y.detach(), *torch.autograd.grad((y * weights).sum(), leaves)]

    return run


def real_graph(function: Function, *values: torch.Tensor) -> fx.GraphModule:
    graph = without_complex(functional(trace(step(function), list(values)), list(values)), list(values))
    tidy(graph)
    types = {v.dtype for n in graph.graph.nodes if isinstance(v := n.meta.get("val"), torch.Tensor)}
    assert not any(t.is_complex for t in types)
    return graph


def far(function: Function, *values: torch.Tensor) -> float:
    """The largest relative error of the result and the gradients."""
    found = Dense(real_graph(function, *values)).run(*values)
    exact = step(function)(*cast(values, torch.float64))
    return max(float((a - b).norm() / b.norm().clamp(min=1e-6)) for a, b in zip(found, exact, strict=True))


def products(graph: fx.GraphModule) -> int:
    """Multiply-adds in matrix products."""
    total = 0
    for node in graph.graph.nodes:
        if node.target in (aten.mm.default, aten.bmm.default, aten.addmm.default, aten.baddbmm.default):
            total += node.meta["val"].numel() * node.args[-1].meta["val"].shape[-2]
    return total


LENGTHS = (1, 2, 3, 8, 31, 32, 33, 36, 37, 64, 77, 105, 256, 400, 509, 1000, 4488)


@pytest.mark.slow
@pytest.mark.parametrize("n", LENGTHS)
def test_transforms_of_every_kind_of_length(n: int) -> None:
    torch.manual_seed(n)
    real, half, whole = torch.randn(2, n), torch.randn(2, n // 2 + 1, 2), torch.randn(2, n, 2)
    bound = 4e-7 * math.sqrt(math.log2(n + 1)) + 3e-9 * n
    assert far(lambda x: torch.view_as_real(torch.fft.rfft(x)), real) < bound
    assert far(lambda x: torch.fft.irfft(torch.view_as_complex(x), n=n), half) < bound
    assert far(lambda x: torch.view_as_real(torch.fft.ifft(torch.view_as_complex(x))), whole) < bound


@pytest.mark.slow
def test_what_is_real_in_pytorch_has_no_imaginary_part() -> None:
    """Else the angle at the ends of a spectrum is pi or -pi by chance."""
    torch.manual_seed(0)
    for n in (4, 32, 36, 50, 66, 400, 512):
        x = torch.randn(3, n)
        found = Dense(real_graph(lambda x: torch.view_as_real(torch.fft.rfft(x)), x)).run(x)[0]
        assert not found[:, (0, -1), 1].any() and not torch.signbit(found[:, (0, -1), 1]).any()


@pytest.mark.slow
def test_long_transforms_take_few_products() -> None:
    """512 = 16 * 32: forward and backward, 2 (16 + 34) products a number each, and rows of the last stage that are cut
    off. A step of PyTorch's own form would take four times as many backward."""
    graph = real_graph(lambda x: torch.fft.rfft(x).abs(), torch.randn(1, 512))
    assert products(graph) < 2 * 512 * 2 * (16 + 36)
    prime = real_graph(lambda x: torch.fft.rfft(x).abs(), torch.randn(1, 509))
    assert products(prime) == 2 * 509 * 255 * 2


@pytest.mark.slow
def test_a_part_that_is_zero_or_not_read_costs_nothing() -> None:
    """FNet's mixing: half of the first transform, and the real part of the second; the gradient is such a one too."""
    x = torch.randn(2, 12, 20)
    graph = real_graph(lambda x: torch.fft.fftn(x, dim=(1, 2)).real, x)
    assert products(graph) == 2 * (2 * 12 * 20 * 2 * 11 + 2 * 11 * 12 * 12 * 2)
    for dims in ((1,), (2, 1), (0, 1, 2)):
        assert far(lambda x, dims=dims: torch.fft.fftn(x, dim=dims).real, torch.randn(3, 7, 36)) < 1e-6
        assert far(lambda x, dims=dims: torch.fft.fftn(x, dim=dims).imag, torch.randn(3, 4, 5)) < 1e-6


def test_arithmetic_at_zero_and_of_mixed_operands() -> None:
    torch.manual_seed(1)
    x, y = torch.randn(3, 2), torch.randn(5, 1)
    zero = torch.zeros(3, 2)

    def mixed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = torch.view_as_complex(x)
        return torch.view_as_real((1 - z * y) / (2 + 1j) + y + z.conj() * 3j - 1j)

    assert far(mixed, x, y) < 1e-6
    for function in (lambda x: torch.view_as_complex(x).abs(), lambda x: torch.view_as_complex(x).angle()):
        found = Dense(real_graph(function, zero)).run(zero)
        assert all(torch.equal(a, b) for a, b in zip(found, step(function)(zero), strict=True))


FAR_OUT = torch.tensor([[90.0, 1.0], [-90.0, 2.0], [-44.7, 0.3], [1e-5, 2e-5], [0.3, 1.6], [0.0, 0.0]])


@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
def test_functions_far_out_and_near_zero(name: str) -> None:
    """Where exp(x) overflows, and where nearly all of 1 - exp(-x) cancels."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(getattr(torch, name)(torch.view_as_complex(x)))

    (found, *_), exact = Dense(real_graph(function, FAR_OUT)).run(FAR_OUT), function(FAR_OUT.double())
    assert torch.allclose(found.double(), exact, rtol=1e-6, atol=1e-38)


def test_numbers_are_chosen_and_written_with_both_parts() -> None:
    mask, places = torch.tensor([[True], [False], [True]]), torch.tensor([[0, 1], [1, 1]])

    def chosen(x: torch.Tensor) -> torch.Tensor:
        z = torch.view_as_complex(x)
        written = z.scatter(0, places, 2.0) + z.scatter(1, places, 1.5 - 3j)
        return torch.view_as_real(written * torch.where(mask, z, 4.0) + torch.where(mask, 1j, z[0]))

    assert far(chosen, torch.randn(3, 2, 2)) < 1e-6


def test_constants_are_complex_too() -> None:
    table = torch.polar(torch.ones(4), torch.arange(4.0))

    def turned(x: torch.Tensor) -> torch.Tensor:
        scalar = torch.tensor(0.5 - 1j)
        return torch.view_as_real(
            torch.view_as_complex(x) * table.to(torch.promote_types(x.dtype, table.dtype)) * scalar
        )

    assert far(turned, torch.randn(3, 4, 2)) < 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_errors_of_rounding_are_made_in_complex_numbers(dtype: torch.dtype) -> None:
    """A complex number is off by its absolute value, in both parts; what is exactly real stays so."""
    z = torch.complex(torch.randn(4000, dtype=dtype), torch.randn(4000, dtype=dtype) * 1e-3)
    with Rounding(3, dtype) as errors:
        product, moved, real = (
            z * 1.1j,
            z.conj().resolve_conj().flip(0),
            torch.complex(z.real, torch.zeros_like(z.real)) * 3,
        )
    expected = errors.size * math.sqrt(errors.fewest) / 3**0.5
    for part in (torch.real, torch.imag):
        off = (part(product) - part(z * 1.1j)).norm() / (z * 1.1).norm()
        assert expected / 2 < off < 2 * expected
    assert torch.equal(moved, z.conj().flip(0)) and not real.imag.any()


def test_a_step_with_complex_numbers_is_traced_twice_only_where_there_are_some() -> None:
    values: list[Any] = [torch.randn(3)]
    graph = functional(trace(step(lambda x: x * 2), values), values)
    assert without_complex(graph, values) is graph


class Filter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(3, dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.irfft(torch.fft.rfft(x) * self.w, n=4)


def test_complex_gradients_are_clipped_by_no_value() -> None:
    with pytest.raises(UsageError, match="parameter 'w' is complex") as found:
        user_of(Filter(), torch.randn(2, 4), torch.randn(2, 4), clip_value=0.1)
    assert "clip_grad_norm" in found.value.remedy
    assert user_of(Filter(), torch.randn(2, 4), torch.randn(2, 4), clip_norm=0.1).clip_norm == 0.1
