"""Layers of odd and unequal shapes, drawn at random: what the tests of tiles compare tiled with untiled."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Shape = tuple[int, ...]
Layer = Callable[..., torch.Tensor]


class Calls(nn.Module):
    """A function as a layer; tensors of the given shapes are its parameters."""

    def __init__(self, function: Layer, *shapes: Shape) -> None:
        super().__init__()
        self.function = function
        self.weights = nn.ParameterList(torch.randn(s) * 0.5 for s in shapes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x, *self.weights)


class First(nn.Module):
    """A recurrent layer without its last state."""

    def __init__(self, made: nn.Module) -> None:
        super().__init__()
        self.made = made

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.made(x)[0]
        return out


@dataclass(frozen=True)
class Draw:
    """A generator of shapes."""

    rng: random.Random

    def image(self, channels: int | None = None, least: int = 5) -> Shape:
        n, c = self.rng.randint(1, 3), channels or self.rng.randint(1, 13)
        return n, c, self.rng.randint(least, 23), self.rng.randint(least, 23)

    def image_of_blocks(self) -> Shape:
        """Whose rows make up blocks of 64 terms: the sums of a weight gradient are cut only between those."""
        n, c = self.rng.randint(1, 3), self.rng.randint(1, 7)
        return n, c, self.rng.randint(9, 23), self.rng.choice([16, 32])

    def rows(self) -> Shape:
        lead = self.rng.choice([(), (self.rng.randint(1, 5),)])
        return *lead, self.rng.randint(1, 37), self.rng.randint(2, 71)

    def window(self, most: int = 5) -> dict[str, Any]:
        kernel = (self.rng.randint(1, most), self.rng.randint(1, most))
        return {
            "kernel_size": kernel,
            "stride": (self.rng.randint(1, 3), self.rng.randint(1, 3)),
            "padding": tuple(self.rng.randint(0, k // 2) for k in kernel),
        }

    def dilation(self) -> tuple[int, int]:
        return self.rng.choice([(1, 1), (1, 1), (2, 1), (1, 2), (2, 3)])

    def flag(self) -> bool:
        return self.rng.random() < 0.5

    def channels(self, most: int = 23) -> int:
        return self.rng.randint(1, most)


def convolution(d: Draw) -> tuple[Shape, nn.Module]:
    shape = d.image(least=9)
    window = {**d.window(4), "dilation": d.dilation(), "bias": d.flag()}
    return shape, nn.Conv2d(shape[1], d.channels(), **window)


def whole_blocks(d: Draw) -> tuple[Shape, nn.Module]:
    shape = d.image_of_blocks()
    depthwise = d.flag()
    channels = shape[1] if depthwise else d.channels(9)
    return shape, nn.Conv2d(shape[1], channels, 3, padding=1, groups=channels if depthwise else 1)


def depthwise(d: Draw) -> tuple[Shape, nn.Module]:
    shape = d.image(least=9)
    return shape, nn.Conv2d(
        shape[1], shape[1] * d.rng.randint(1, 2), **d.window(4), groups=shape[1], dilation=d.dilation(), bias=d.flag()
    )


def grouped(d: Draw) -> tuple[Shape, nn.Module]:
    groups = d.rng.randint(2, 4)
    shape = d.image(groups * d.rng.randint(2, 5))
    return shape, nn.Conv2d(shape[1], groups * d.rng.randint(2, 6), **d.window(), groups=groups, bias=d.flag())


def transposed(d: Draw) -> tuple[Shape, nn.Module]:
    groups = d.rng.choice([1, 1, 2])
    n, c, h, w = d.image(groups * d.rng.randint(1, 6))
    return (n, c, h // 2, w // 2), nn.ConvTranspose2d(
        c, groups * d.rng.randint(1, 6), **d.window(4), groups=groups, bias=d.flag()
    )


def pointwise_convolution(d: Draw) -> tuple[Shape, nn.Module]:
    n, c, h, w = d.image(d.rng.randint(3, 40))
    return (n, c, h // 2, w // 2), nn.Conv2d(c, d.channels(40), 1, stride=d.rng.randint(1, 2), bias=d.flag())


def line(d: Draw) -> tuple[Shape, nn.Module]:
    shape = (d.rng.randint(1, 3), d.channels(9), d.rng.randint(20, 150))
    kind = d.rng.choice([nn.Conv1d, nn.Conv1d, nn.ConvTranspose1d])
    return shape, kind(shape[1], d.channels(9), d.rng.randint(1, 9), stride=d.rng.randint(1, 4), padding=0)


def linear(d: Draw) -> tuple[Shape, nn.Module]:
    shape = d.rows() if d.flag() else (d.rng.randint(1, 5), d.rng.randint(50, 300))
    return shape, nn.Linear(shape[-1], d.rng.randint(1, 90), bias=d.flag())


def row_vector(d: Draw) -> tuple[Shape, nn.Module]:
    """One sample: the update makes its own gradient, and can share the weight with the gradient of the input."""
    before, after = d.rng.randint(9, 130), d.rng.randint(5, 150)
    return (1, before), nn.Linear(before, after, bias=d.rng.random() < 0.5)


def products(d: Draw) -> tuple[Shape, nn.Module]:
    batch, m, k, n = d.rng.randint(1, 5), d.rng.randint(1, 40), d.rng.randint(1, 150), d.rng.randint(1, 40)
    if d.flag():
        return (batch, m, k), Calls(lambda x, w: x @ w, (batch, k, n))
    return (batch, m, k), Calls(lambda x, w, i: torch.baddbmm(i, x, w.mT), (batch, n, k), (1, n))


def attention(d: Draw) -> tuple[Shape, nn.Module]:
    heads, tokens, width = d.rng.randint(1, 3), d.rng.randint(3, 29), d.rng.randint(2, 17)
    return (heads, tokens, width), Calls(lambda x, w: F.softmax(x @ (x @ w).mT, -1) @ x, (width, width))


def normalised(d: Draw) -> tuple[Shape, nn.Module]:
    n, c, h, w = d.image(d.rng.choice([4, 6, 9, 12]))
    made = d.rng.choice(
        [
            nn.BatchNorm2d(c),
            nn.GroupNorm(next(g for g in (3, 2, 1) if c % g == 0), c),
            nn.InstanceNorm2d(c, affine=True),
            nn.LayerNorm((h, w)),
            nn.LayerNorm(w),
        ]
    )
    return (n, c, h, w), made


def activation(d: Draw) -> tuple[Shape, nn.Module]:
    made = d.rng.choice(
        [nn.ReLU(), nn.GELU(), nn.SiLU(), nn.Tanh(), nn.PReLU(), nn.Hardswish(), nn.Softmax(-1), nn.LogSoftmax(1)]
    )
    return d.image(), made


def broadcast(d: Draw) -> tuple[Shape, nn.Module]:
    n, c, h, w = d.image()
    function = d.rng.choice(
        [
            lambda x, a, b: x * a + b,
            lambda x, a, b: torch.sigmoid(x + b).mT * a.mT,
            lambda x, a, b: (x - a).square() / (b.square() + 1),
            lambda x, a, b: torch.where(x > a, x * b, a),
        ]
    )
    return (n, c, h, w), Calls(function, (h, 1) if d.flag() else (h, w), (1, w) if d.flag() else (1, 1))


def reduction(d: Draw) -> tuple[Shape, nn.Module]:
    dims = tuple(sorted(d.rng.sample(range(4), d.rng.randint(1, 3))))
    function = d.rng.choice(
        [
            lambda x: x.sum(dims),
            lambda x: x.mean(dims, keepdim=True) * x,
            lambda x: x.amax(dims),
            lambda x: x.var(dims),
            lambda x: torch.logsumexp(x, dims),
        ]
    )
    return d.image(), Calls(function)


def pooling(d: Draw) -> tuple[Shape, nn.Module]:
    made = d.rng.choice(
        [
            nn.MaxPool2d(d.rng.randint(2, 3), d.rng.randint(1, 3)),
            nn.AvgPool2d(d.rng.randint(2, 3), d.rng.randint(1, 3)),
            nn.AdaptiveAvgPool2d((2, 3)),
            nn.Upsample(scale_factor=2),
        ]
    )
    return d.image(), nn.Sequential(nn.Tanh(), made, nn.SiLU())


def moved(d: Draw) -> tuple[Shape, nn.Module]:
    n, c, h, w = d.image()
    function = d.rng.choice(
        [
            lambda x: torch.cat([x, x.flip(2), x * 2], 1).relu(),
            lambda x: F.pad(x, (1, 2, 0, 3)).sigmoid(),
            lambda x: x[:, :, 1::2, :-1].permute(0, 2, 3, 1).tanh(),
            lambda x: x.roll(2, 3) * x,
            lambda x: x.cumsum(2) * 0.1,
        ]
    )
    return (n, c, h, w), Calls(function)


def recurrent(d: Draw) -> tuple[Shape, nn.Module]:
    shape = (d.rng.randint(5, 17), d.rng.randint(1, 3), d.rng.randint(1, 9))
    kind = d.rng.choice([nn.RNN, nn.GRU, nn.LSTM])
    return shape, First(kind(shape[2], d.rng.randint(2, 13)))


Families = tuple[Callable[[Draw], tuple[Shape, nn.Module]], ...]
FAMILIES: Families = (
    *(convolution, convolution, whole_blocks, whole_blocks, depthwise, depthwise, grouped, transposed),
    *(pointwise_convolution, line),
    *(linear, linear, products, products, attention, normalised, normalised, activation, broadcast, reduction),
    *(pooling, moved, recurrent, row_vector, row_vector),
)


def windowed(d: Draw) -> tuple[Shape, nn.Module]:
    window, shape = d.window(), d.image(least=9)
    made = d.rng.choice(
        [
            nn.MaxPool2d(**{**window, "dilation": 1}, ceil_mode=d.flag()),
            nn.MaxPool2d(d.rng.randint(2, 3), d.rng.randint(1, 4), dilation=d.dilation()),
            nn.AvgPool2d(**window, ceil_mode=d.flag(), count_include_pad=d.flag()),
            nn.AvgPool2d(d.rng.randint(2, 4), d.rng.randint(1, 5), divisor_override=5),
        ]
    )
    return shape, nn.Sequential(nn.Tanh(), made, nn.SiLU())


def adapted(d: Draw) -> tuple[Shape, nn.Module]:
    """To windows of several sizes."""
    n, c, h, w = d.image(least=9)
    made = nn.AdaptiveMaxPool2d if d.flag() else nn.AdaptiveAvgPool2d
    return (n, c, h, w), nn.Sequential(nn.Tanh(), made((d.rng.randint(2, h // 2), w // 2 - (w % (w // 2) == 0))))


def looked_up(d: Draw) -> tuple[Shape, nn.Module]:
    """Rows by their numbers, some of them several times, and what is written or added to them."""
    lead, rows, width = d.rng.randint(1, 3), d.rng.randint(5, 40), d.rng.randint(1, 13)
    count = d.rng.randint(3, 50)
    places = torch.randint(-rows, rows, (count,))
    each = torch.randint(0, rows, (lead, count, width))
    own = torch.stack([torch.randperm(rows)[: rows // 2] for _ in range(lead)])[:, :, None].expand(-1, -1, width)
    function = d.rng.choice(
        [
            lambda x: x[:, places],
            lambda x: F.embedding(places % rows, x[0], padding_idx=3),
            lambda x: x.gather(1, each),
            lambda x: x.scatter_add(1, each, each.float().sin() * x.mean()),
            lambda x: x.scatter(1, own, x[:, : rows // 2].exp()),
            lambda x: torch.zeros_like(x).index_add(1, places % rows, x[:, places].cos()),
        ]
    )
    return (lead, rows, width), Calls(lambda x: function(x).sigmoid())


def along_lines(d: Draw) -> tuple[Shape, nn.Module]:
    n, c, h, w = d.image()
    dim = d.rng.choice([1, 2, 3])
    function = d.rng.choice(
        [
            lambda x: x.cumsum(dim) * 0.1,
            lambda x: x.tanh().cumprod(dim),
            lambda x: x.max(dim)[0],
            lambda x: x.min(dim)[0] + x.argmax(dim),
            lambda x: x.sort(dim, descending=c > 6)[0],
            lambda x: x.topk(1, dim)[0],
        ]
    )
    return (n, c, h, w), Calls(lambda x: function(x).sin())


SELECTIONS = (windowed,) * 6 + (adapted,) * 3 + (looked_up,) * 6 + (along_lines,) * 5


class Layers(nn.Module):
    """Layers side by side, each on a parameter of its own, so that all their gradients are computed."""

    def __init__(self, seed: int, count: int, families: Families = FAMILIES) -> None:
        super().__init__()
        torch.manual_seed(seed)
        draw = Draw(random.Random(seed))
        self.inputs = nn.ParameterList()
        self.layers = nn.ModuleList()
        for family in draw.rng.sample(families, count):
            shape, layer = family(draw)
            self.layers.append(layer)
            self.inputs.append(torch.randn(shape))

    def forward(self, scale: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(layer(x * scale) for layer, x in zip(self.layers, self.inputs, strict=True))


def all_sums(outputs: tuple[torch.Tensor, ...], _target: torch.Tensor) -> torch.Tensor:
    return sum((o * torch.linspace(-1, 1, o.numel()).reshape(o.shape)).mean() for o in outputs)  # type: ignore[return-value]


def optimizer(parameters: Any, seed: int) -> torch.optim.Optimizer:
    made: list[Callable[[], torch.optim.Optimizer]] = [
        lambda: torch.optim.SGD(parameters, 0.05, momentum=0.9, weight_decay=0.01),
        lambda: torch.optim.Adam(parameters, 0.01),
        lambda: torch.optim.AdamW(parameters, 0.01, amsgrad=True),
        lambda: torch.optim.RMSprop(parameters, 0.01, momentum=0.5, centered=True),
        lambda: torch.optim.SGD(parameters, 0.05),
    ]
    return made[seed % len(made)]()
