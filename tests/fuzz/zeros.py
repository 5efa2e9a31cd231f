"""Random networks whose gradients hang on rounding: biases in front of norms, saturated softmax, sums that cancel."""

from __future__ import annotations

import random

from tests.fuzz.endings import OPTIMIZERS, SHAKE

Shape = tuple[int, ...]
ACTIVATIONS = ("nn.ReLU()", "nn.ReLU()", "nn.GELU()", "nn.SiLU()", "nn.Tanh()", "nn.Identity()", "nn.LeakyReLU(0.2)")
STEPS = 2


class Text:
    """The lines of __init__ and forward so far, and the shape behind them."""

    def __init__(self, rng: random.Random, shape: Shape) -> None:
        self.rng, self.shape = rng, shape
        self.make: list[str] = []
        self.call: list[str] = []

    def module(self, text: str) -> str:
        name = f"self.m{len(self.make)}"
        self.make.append(f"{name} = {text}")
        return name

    def apply(self, *modules: str) -> None:
        for text in modules:
            self.call.append(f"x = {self.module(text)}(x)")


def groups(rng: random.Random, channels: int) -> int:
    return rng.choice([d for d in range(1, channels + 1) if channels % d == 0])


def normed(text: Text) -> None:
    """A layer with a bias that the norm behind it takes away again, wholly or in part."""
    rng, shape = text.rng, text.shape
    if len(shape) == 4:
        b, c, h, w = shape
        out = rng.randint(2, 9)
        norms = (f"nn.BatchNorm2d({out})",) * 3 + (
            f"nn.InstanceNorm2d({out}, affine={rng.random() < 0.7})",
            f"nn.GroupNorm({groups(rng, out)}, {out})",
            f"nn.GroupNorm({out}, {out})",
        )
        k = rng.choice((1, 3, 3))
        text.apply(f"nn.Conv2d({c}, {out}, {k}, padding={k // 2})", rng.choice(norms), rng.choice(ACTIVATIONS))
        text.shape = (b, out, h, w)
    else:
        out = rng.randint(3, 12)
        norm = f"nn.LayerNorm({out})" if len(shape) == 3 or rng.random() < 0.4 else f"nn.BatchNorm1d({out})"
        text.apply(f"nn.Linear({shape[-1]}, {out})", norm, rng.choice(ACTIVATIONS))
        text.shape = (*shape[:-1], out)


def saturated(text: Text) -> None:
    """A softmax of large arguments; over a sequence, that of an attention, whose keys have a bias without effect."""
    rng, n, size = text.rng, text.shape[-1], text.rng.choice((8.0, 20.0, 60.0))
    if len(text.shape) == 3:
        q, k, v = (text.module(f"nn.Linear({n}, {n})") for _ in range(3))
        text.call += [f"s = {size} * {q}(x) @ {k}(x).transpose(1, 2)", f"x = x + s.softmax(-1) @ {v}(x)"]
    else:
        text.call.append(f"x = x + torch.softmax({size} * x, {rng.choice((1, -1))})")


def cancelling(text: Text) -> None:
    rng, d = text.rng, text.rng.randint(1, len(text.shape) - 1)
    own = text.module(f"nn.Parameter(torch.randn({text.shape[d]}{', 1' * (len(text.shape) - 1 - d)}))")
    text.call.append(
        rng.choice(
            (
                f"x = x + {own} - (x + {own}).mean({d}, keepdim=True)",
                f"x = (x * {own} + 30.0) - 30.0",
                f"x = x - x.sum({d}, keepdim=True) / {text.shape[d]} + {own} - {own}.mean()",
                f"x = (x + 1) ** 2 - x**2 - 1 + {own}",
                f"x = torch.cat([x, -x.flip({d})], {d}).cumsum({d}).narrow({d}, 0, {text.shape[d]}) * {own}",
            )
        )
    )


def head(text: Text) -> tuple[str, str]:
    """The loss and the expression of a target."""
    rng, shape = text.rng, text.shape
    if len(shape) == 4:
        text.call.append("x = x.mean((2, 3))")
    elif len(shape) == 3:
        text.call.append("x = x[:, -1]")
    features = shape[1] if len(shape) == 4 else shape[-1]
    text.apply(f"nn.Linear({features}, 4)")
    labels, values = f"torch.randint(4, ({shape[0]},))", f"torch.randn({shape[0]}, 4)"
    return rng.choice(
        (
            ("nn.CrossEntropyLoss()", labels),
            ("lambda y, t: nn.functional.cross_entropy(25 * y, t)", labels),
            ("nn.MSELoss()", values),
            ("lambda y, t: ((y - y.mean(0)) * t).sum()", values),
        )
    )


def source(seed: int) -> str:
    rng = random.Random(f"{seed}/zeros")
    b = rng.randint(2, 6)
    shape: Shape = rng.choice(
        (
            (b, rng.randint(1, 4), rng.randint(3, 9), rng.randint(3, 9)),
            (b, rng.randint(1, 4), rng.randint(3, 9), rng.randint(3, 9)),
            (b, rng.randint(2, 7), rng.randint(3, 9)),
            (b + 2, rng.randint(3, 12)),
        )
    )
    text = Text(rng, shape)
    normed(text)
    for _ in range(rng.randint(1, 4)):
        rng.choice((normed, normed, saturated, cancelling))(text)
    loss, target = head(text)
    make, call = (("\n        ".join(lines)) for lines in (text.make, text.call))
    shake = "\n".join(SHAKE) if rng.random() < 0.5 else ""
    return f"""\
import torch
from torch import nn

torch.manual_seed({seed})


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {make}

    def forward(self, x):
        {call}
        return x


model = Net()
{shake}
loss = {loss}
optimizer = torch.optim.{rng.choice(OPTIMIZERS).format("model.parameters()")}
data = [(torch.randn({shape}), {target}) for _ in range({STEPS})]
"""
