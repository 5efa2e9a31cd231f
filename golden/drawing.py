"""What forward draws: PyTorch's random operations in terms of numbers that a program can draw too."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from golden.mode import Mode

aten = torch.ops.aten
Tensor = torch.Tensor
Shape = Sequence[int]
FIRST_CALL = 1 << 20  # the generator's seed before the first draw of a step
MOST = 2**31 - 1


class Source(Protocol):
    """golden.random_numbers.Numbers, or what stands for them while a step is traced."""

    def keep(self, shape: Shape, probability: float, call: int) -> Tensor: ...
    def uniform(self, shape: Shape, call: int) -> Tensor: ...
    def integers(self, shape: Shape, call: int) -> Tensor: ...


class Drawing(Mode):
    """Takes the numbers from `source` wherever PyTorch would draw them.

    The number of the call is kept in PyTorch's generator, so that a forward that is computed again for the backward,
    as torch.utils.checkpoint does, meets the same numbers.
    """

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source

    def __enter__(self) -> Any:
        torch.default_generator.manual_seed(FIRST_CALL)
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        rule = RULES.get(func.overloadpacket)
        if rule is None or "out" in kwargs:
            return func(*args, **kwargs)
        return rule(Draw(self.source, kwargs.get("dtype")), *args)


@dataclass(frozen=True)
class Draw:
    """One call of a random operation."""

    source: Source
    asked: torch.dtype | None  # the type that the user asks for

    def call(self) -> int:
        """The number of a call that draws: an operation may have nothing to draw, as rrelu that is not trained."""
        seed = torch.default_generator.initial_seed()
        torch.default_generator.manual_seed(seed + 1)
        return seed - FIRST_CALL

    def keep(self, shape: Shape, probability: float) -> Tensor:
        return self.source.keep(list(shape), probability, self.call())

    def uniform(self, shape: Shape, dtype: torch.dtype | None) -> Tensor:
        """Between 0 and 1, both left out."""
        return self.source.uniform(list(shape), self.call()).to(self.asked or dtype or torch.get_default_dtype())

    def normal(self, shape: Shape, dtype: torch.dtype | None) -> Tensor:
        return torch.erfinv(self.uniform(shape, dtype) * 2 - 1) * math.sqrt(2)

    def exponential(self, shape: Shape, dtype: torch.dtype | None) -> Tensor:
        return -torch.log(self.uniform(shape, dtype))

    def between(self, shape: Shape, *bounds: int) -> Tensor:
        """Integers from `low`, or 0, to below `high`."""
        low, high = (0, *bounds)[-2:]
        return self.source.integers(list(shape), self.call()) % min(high - low, MOST) + low


def bernoulli(draw: Draw, x: Tensor, p: float | Tensor | None = None) -> Tensor:
    """Ones by a probability for all, or by each element's own."""
    if isinstance(p, float | int):
        return draw.keep(x.shape, p).to(x.dtype)
    return (draw.uniform(x.shape, torch.get_default_dtype()) < (x if p is None else p)).to(x.dtype)


def bernoulli_(draw: Draw, x: Tensor, p: float | Tensor = 0.5) -> Tensor:
    return x.copy_(bernoulli(draw, x, p))


def rand(draw: Draw, size: Shape) -> Tensor:
    return draw.uniform(size, None)


def rand_like(draw: Draw, x: Tensor) -> Tensor:
    return draw.uniform(x.shape, x.dtype)


def uniform_(draw: Draw, x: Tensor, low: float = 0.0, high: float = 1.0) -> Tensor:
    return x.copy_(draw.uniform(x.shape, x.dtype) * (high - low) + low)


def randn(draw: Draw, size: Shape) -> Tensor:
    return draw.normal(size, None)


def randn_like(draw: Draw, x: Tensor) -> Tensor:
    return draw.normal(x.shape, x.dtype)


def normal(draw: Draw, mean: Any, std: Any = 1.0, size: Shape | None = None) -> Tensor:
    """Of tensors or numbers, broadcast."""
    tensors = [v for v in (mean, std) if isinstance(v, Tensor)]
    shape = torch.broadcast_shapes(*(v.shape for v in tensors)) if size is None else size  # type: ignore[no-untyped-call]
    found: Tensor = draw.normal(shape, tensors[0].dtype if tensors else None) * std + mean
    return found


def normal_(draw: Draw, x: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    return x.copy_(normal(draw, mean, std, x.shape))


def log_normal_(draw: Draw, x: Tensor, mean: float = 1.0, std: float = 2.0) -> Tensor:
    return x.copy_(torch.exp(normal(draw, mean, std, x.shape)))


def exponential_(draw: Draw, x: Tensor, rate: float = 1.0) -> Tensor:
    return x.copy_(draw.exponential(x.shape, x.dtype) / rate)


def cauchy_(draw: Draw, x: Tensor, median: float = 0.0, sigma: float = 1.0) -> Tensor:
    return x.copy_(torch.tan((draw.uniform(x.shape, x.dtype) - 0.5) * math.pi) * sigma + median)


def geometric_(draw: Draw, x: Tensor, p: float) -> Tensor:
    return x.copy_(torch.ceil(draw.exponential(x.shape, torch.get_default_dtype()) / -math.log1p(-p)))


def randint(draw: Draw, *bounds_and_size: Any) -> Tensor:
    """randint(high, size), randint(low, high, size)."""
    *bounds, size = bounds_and_size
    return draw.between(size, *bounds).to(draw.asked or torch.int64)


def randint_like(draw: Draw, x: Tensor, *bounds: int) -> Tensor:
    return draw.between(x.shape, *bounds).to(draw.asked or x.dtype)


def random_(draw: Draw, x: Tensor, *bounds: int | None) -> Tensor:
    """Without bounds, whole numbers that the type can hold."""
    most = 2**24 if x.is_floating_point() else MOST
    return x.copy_(draw.between(x.shape, *(most if b is None else b for b in bounds or (most,))))


def randperm(draw: Draw, count: int) -> Tensor:
    return draw.between([count], MOST).argsort(stable=True).to(draw.asked or torch.int64)


def multinomial(draw: Draw, weights: Tensor, count: int, replacement: bool = False) -> Tensor:
    """The largest of weight / exponential is an element by its weight, the next ones those without it."""
    if replacement and count > 1:
        weights = weights.unsqueeze(-2).expand(*weights.shape[:-1], count, weights.shape[-1])
        return (weights / draw.exponential(weights.shape, weights.dtype)).argmax(-1)
    return (weights / draw.exponential(weights.shape, weights.dtype)).topk(count, -1)[1]


def rrelu(draw: Draw, x: Tensor, noise: Tensor, low: float = 1 / 8, high: float = 1 / 3, training: bool = False) -> Any:
    """Slopes, which the gradient reads again."""
    if not training:
        return torch.nn.functional.leaky_relu(x, (low + high) / 2)
    slopes = draw.uniform(x.shape, x.dtype) * (high - low) + low
    noise.copy_(torch.where(x <= 0, slopes, 1.0))
    return x * noise


def rrelu_(draw: Draw, x: Tensor, *how: Any) -> Tensor:
    return x.copy_(rrelu(draw, x, *how))


RULES: dict[Any, Callable[..., Any]] = {
    aten.bernoulli: bernoulli,
    aten.bernoulli_: bernoulli_,
    aten.cauchy_: cauchy_,
    aten.exponential_: exponential_,
    aten.geometric_: geometric_,
    aten.log_normal_: log_normal_,
    aten.multinomial: multinomial,
    aten.normal: normal,
    aten.normal_: normal_,
    aten.rand: rand,
    aten.rand_like: rand_like,
    aten.randint: randint,
    aten.randint_like: randint_like,
    aten.randn: randn,
    aten.randn_like: randn_like,
    aten.random_: random_,
    aten.randperm: randperm,
    aten.rrelu_with_noise: rrelu,
    aten.rrelu_with_noise_: rrelu_,
    aten.uniform_: uniform_,
}
