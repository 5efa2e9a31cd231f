"""What a step of a random network is, and the steps that are known."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch.nn.utils import parametrizations

Shape = tuple[int, ...]
NAMES: dict[str, Any] = {"parametrizations": parametrizations}


@dataclass(frozen=True)
class Step:
    make: tuple[str, ...] = ()
    call: tuple[str, ...] = ()


Maker = Callable[[random.Random, Shape], Step]
STEPS: dict[int, list[Maker]] = {2: [], 3: [], 4: []}
ACTIVATIONS = (
    "nn.ReLU()",
    "nn.ReLU()",
    "nn.ReLU(inplace=True)",
    "nn.ReLU6(True)",
    "nn.LeakyReLU(0.2, True)",
    "nn.ELU(0.7)",
    "nn.SiLU()",
    "nn.SiLU(True)",
    "nn.Mish()",
    "nn.GELU()",
    "nn.GELU('tanh')",
    "nn.Hardswish(True)",
    "nn.Hardsigmoid()",
    "nn.Hardtanh(-0.7, 1.1, True)",
    "nn.Softplus()",
    "nn.Softsign()",
    "nn.Tanh()",
    "nn.Sigmoid()",
    "nn.Softshrink(0.2)",
    "nn.SELU()",
    "nn.LogSigmoid()",
    "nn.PReLU()",
    "nn.Dropout(0.3).eval()",
    "nn.Identity()",
)


def step(*ranks: int, times: int = 1) -> Callable[[Maker], Maker]:
    def register(maker: Maker) -> Maker:
        for rank in ranks:
            STEPS[rank] += [maker] * times
        return maker

    return register


def layer(text: str, call: str = "x = self.m@(x)") -> Step:
    return Step((f"self.m@ = {text}",), (call,))


def divisor(rng: random.Random, *numbers: int) -> int:
    return rng.choice([d for d in range(1, 1 + min(numbers)) if all(n % d == 0 for n in numbers)])


def flag(rng: random.Random, likely: float = 0.5) -> bool:
    return rng.random() < likely
