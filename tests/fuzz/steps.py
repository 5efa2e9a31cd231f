"""The steps a random network is made of: what they add to __init__ and to forward. `@` stands for their number."""

from __future__ import annotations

import random

from tests.fuzz import steps_images
from tests.fuzz.step import ACTIVATIONS, NAMES, STEPS, Shape, Step, divisor, flag, layer, step

__all__ = ["NAMES", "STEPS", "embedding", "steps_images"]


def embedding(rng: random.Random) -> Step:
    padding = ", padding_idx=3" if flag(rng, 0.3) else ""
    return layer(f"nn.Embedding(17, {rng.choice((4, 6, 9, 12))}{padding})")


@step(4, times=2)
def residual(rng: random.Random, shape: Shape) -> Step:
    c = shape[1]
    groups = rng.choice((1, 1, c))
    body = [f"nn.Conv2d({c}, {c}, 3, padding=1, groups={groups}, bias={flag(rng)})"]
    if flag(rng):
        body.append(f"nn.BatchNorm2d({c})" if shape[0] * shape[2] * shape[3] >= 6 else f"nn.GroupNorm(1, {c})")
    if flag(rng):
        body += [rng.choice(ACTIVATIONS), f"nn.Conv2d({c}, {c}, 1)"]
    ends = (("x = x + self.m@(x)",), ("x = F.relu(self.m@(x) + x)",), ("y = self.m@(x)", "y += x", "x = y"))
    return Step((f"self.m@ = nn.Sequential({', '.join(body)})",), rng.choice(ends))


@step(4, times=2)
def dense(rng: random.Random, shape: Shape) -> Step:
    c, k = shape[1], rng.choice((1, 3))
    return layer(
        f"nn.Sequential(nn.Conv2d({c}, {rng.randint(1, 6)}, {k}, padding={k // 2}), {rng.choice(ACTIVATIONS)})",
        rng.choice(("x = torch.cat([x, self.m@(x)], 1)", "x = torch.cat((self.m@(x), x), dim=1)")),
    )


@step(4)
def branches(rng: random.Random, shape: Shape) -> Step:
    c, co = shape[1], rng.randint(1, 8)
    return Step(
        (f"self.m@ = nn.Conv2d({c}, {co}, 3, 2, 1)", f"self.n@ = nn.Conv2d({c}, {co}, 1)"),
        (f"x = self.m@(x) + self.n@(F.{rng.choice(('avg', 'max'))}_pool2d(x, 2, ceil_mode=True))",),
    )


@step(4)
def gate(rng: random.Random, shape: Shape) -> Step:
    """Squeeze and excitation."""
    c = shape[1]
    m = max(1, c // 2)
    return layer(
        f"nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d({c}, {m}, 1), nn.ReLU(), nn.Conv2d({m}, {c}, 1))",
        f"x = x * {rng.choice(('torch.sigmoid', 'F.hardsigmoid'))}(self.m@(x))",
    )


@step(4)
def split(rng: random.Random, shape: Shape) -> Step:
    c = shape[1] // 2
    return Step(
        (f"self.m@ = nn.Conv2d({c}, {c}, 3, padding=1)",),
        (f"a, b = x.split([{c}, {shape[1] - c}], 1)", "x = torch.cat([b, self.m@(a)], 1)"),
    )


# ---- linear, attention, recurrent


@step(2, 3, times=4)
def linear(rng: random.Random, shape: Shape) -> Step:
    return layer(f"nn.Linear({shape[-1]}, {rng.choice((1, 3, 5, 8, 12, 16, 31))}, bias={flag(rng, 0.7)})")


@step(2, 3)
def linear_twice(rng: random.Random, shape: Shape) -> Step:
    n = shape[-1]
    return layer(
        f"nn.Linear({n}, {n})", rng.choice(("x = self.m@(torch.tanh(self.m@(x)))", "x = x + self.m@(self.m@(x))"))
    )


@step(2, 3)
def autoencoder(rng: random.Random, shape: Shape) -> Step:
    """One matrix and its transpose."""
    return layer(
        f"nn.Linear({shape[-1]}, {rng.randint(1, 9)}, bias={flag(rng)})",
        "x = F.linear(torch.sigmoid(self.m@(x)), self.m@.weight.t())",
    )


@step(2, 3)
def mlp(rng: random.Random, shape: Shape) -> Step:
    n, m = shape[-1], rng.randint(1, 20)
    return layer(
        f"nn.Sequential(nn.Linear({n}, {m}), {rng.choice(ACTIVATIONS)}, nn.Linear({m}, {n}))", "x = x + self.m@(x)"
    )


@step(2)
def weight_norm(rng: random.Random, shape: Shape) -> Step:
    return layer(f"parametrizations.weight_norm(nn.Linear({shape[-1]}, {rng.randint(2, 9)}))")


@step(2)
def bilinear(rng: random.Random, shape: Shape) -> Step:
    if shape[1] > 20:
        return Step()
    return layer(f"nn.Bilinear({shape[1]}, {shape[1]}, {rng.randint(1, 5)})", "x = self.m@(x, torch.tanh(x))")


@step(3, times=2)
def attention(rng: random.Random, shape: Shape) -> Step:
    n = shape[-1]
    return layer(
        f"nn.MultiheadAttention({n}, {divisor(rng, n)}, batch_first=True, bias={flag(rng)})",
        rng.choice(("x = x + self.m@(x, x, x, need_weights=False)[0]", "x = self.m@(x, x, x)[0]")),
    )


@step(3)
def own_attention(rng: random.Random, shape: Shape) -> Step:
    n = shape[-1]
    return layer(
        f"nn.Linear({n}, {3 * n})",
        f"x = x + F.scaled_dot_product_attention(*self.m@(x).chunk(3, -1), is_causal={flag(rng)})",
    )


@step(3)
def encoder(rng: random.Random, shape: Shape) -> Step:
    n = shape[-1]
    if n < 3:
        return Step()
    return layer(
        f"nn.TransformerEncoderLayer({n}, {divisor(rng, n)}, {rng.randint(2, 12)}, dropout=0.0, "
        f"activation={rng.choice(('relu', 'gelu'))!r}, batch_first=True, norm_first={flag(rng)})"
    )


@step(3, times=2)
def recurrent(rng: random.Random, shape: Shape) -> Step:
    kind = rng.choice(("LSTM", "GRU", "RNN"))
    return layer(
        f"nn.{kind}({shape[-1]}, {rng.randint(1, 9)}, {rng.choice((1, 1, 2))}, bias={flag(rng, 0.8)}, "
        f"batch_first=True, bidirectional={flag(rng, 0.3)})",
        rng.choice(("x, _ = self.m@(x)", "x = self.m@(x)[0]")),
    )


@step(3)
def mixer(rng: random.Random, shape: Shape) -> Step:
    return layer(f"nn.Linear({shape[1]}, {rng.randint(1, 9)})", "x = self.m@(x.transpose(1, 2)).transpose(1, 2)")


# ---- from one rank to another


@step(4)
def to_sequence(rng: random.Random, shape: Shape) -> Step:
    lines = (
        "x = x.flatten(2).transpose(1, 2)",
        "x = x.mean(3)",
        "x = x.permute(0, 3, 2, 1).flatten(2)",
        "x = x.amax(2)",
    )
    return Step((), (rng.choice(lines),))


@step(3)
def to_vector(rng: random.Random, shape: Shape) -> Step:
    lines = ("x = x.flatten(1)", "x = x.mean(1)", "x = x[:, -1]", "x = x.sum(2)", "x = x.logsumexp(1)", "x = x.std(1)")
    return Step((), (rng.choice(lines),))


@step(2)
def to_more(rng: random.Random, shape: Shape) -> Step:
    d = divisor(rng, shape[1])
    return Step((), (f"x = x.unflatten(1, ({d}, {shape[1] // d}))",))


# ---- written by hand, the way research code is


@step(2, 3, 4, times=2)
def one_liner(rng: random.Random, shape: Shape) -> Step:
    d = rng.randint(1, len(shape) - 1)
    n = shape[d]
    lines = (
        f"x = x * torch.linspace(0.5, 1.5, {n}).reshape({[n] + [1] * (len(shape) - 1 - d)})",
        f"x = x.sort({d})[0]",
        f"x = x.topk({max(1, n - 1)}, {d})[0]",
        f"x = x + x.max({d}, keepdim=True)[0]",
        f"x = (x - x.mean({d}, keepdim=True)) / (x.var({d}, keepdim=True, correction=0) + 0.1).sqrt()",
        f"x = torch.gather(x, {d}, x.argsort({d}))",
        f"x = x * F.one_hot(x.argmax({d}), {n}).movedim(-1, {d})  + 0.3 * x",
        f"x = x.cumprod({d}).clamp(-2, 2) + x" if n < 6 else "x = x.square() - x",
        f"a, b = x.chunk(2, {d})[0], x.chunk(2, {d})[-1]\nx = a * b.mean({d}, keepdim=True)",
        f"x = torch.logaddexp(x, x.flip({d}))",
        f"x = torch.lerp(x, x.roll(1, {d}), 0.3)",
        "x = torch.atan2(x, 1 + x.square())",
        f"x = x * torch.tril(torch.ones({shape[-2:]}))" if len(shape) > 2 else "x = x.abs().sqrt() * x",
        f"x = torch.diff(x, dim={d}, prepend=x.narrow({d}, 0, 1))",
        f"x = x.unfold({d}, {min(2, n)}, 1).mean(-1)",
        f"x = torch.cat([x.narrow({d}, i, 1) * (i + 1) for i in range({min(n, 4)})], {d})",
        "x = F.threshold(x, 0.1, -0.3)",
        f"x = x * (torch.arange({shape[-1]}) % 2 == 0)",
    )
    return Step((), tuple(rng.choice(lines).split("\n")))


@step(2, 3, 4)
def dropout(rng: random.Random, shape: Shape) -> Step:
    return layer(rng.choice(("nn.Dropout(0.3)", "nn.Dropout(0.3)", "nn.AlphaDropout(0.2).eval()", "nn.Dropout1d(0.4)")))


@step(4)
def functional_conv(rng: random.Random, shape: Shape) -> Step:
    """A convolution with a bare or computed weight, and back with the same one."""
    c, m = shape[1], rng.randint(1, 6)
    weights = ("self.w@", "torch.tanh(self.w@)", "self.w@ - self.w@.mean((1, 2, 3), keepdim=True)")
    calls = (
        f"x = F.conv2d(x, {rng.choice(weights)}, padding=1)",
        f"x = F.conv_transpose2d(F.relu(F.conv2d(x, self.w@, stride={rng.choice((1, 2))})), {rng.choice(weights)})",
        "x = x + F.conv_transpose2d(torch.tanh(F.conv2d(x, self.w@, padding=1)), self.w@, padding=1)",
    )
    return Step((f"self.w@ = nn.Parameter(torch.randn({m}, {c}, 3, 3) * 0.2)",), (rng.choice(calls),))


@step(4)
def scales(rng: random.Random, shape: Shape) -> Step:
    """One module on two resolutions."""
    c = shape[1]
    return layer(
        f"nn.Sequential(nn.Conv2d({c}, {rng.randint(1, 5)}, 3, padding=1), {rng.choice(ACTIVATIONS)})",
        "x = self.m@(x) + F.interpolate(self.m@(F.max_pool2d(x, 2)), x.shape[2:])",
    )


@step(4)
def wide(rng: random.Random, shape: Shape) -> Step:
    """More channels than a block of a kernel, and an inverted bottleneck."""
    c, m = shape[1], rng.choice((24, 33, 40))
    return layer(
        f"nn.Sequential(nn.Conv2d({c}, {m}, 1), nn.ReLU6(), nn.Conv2d({m}, {m}, 3, 1, 1, groups={m}), "
        f"nn.Conv2d({m}, {c}, 1))",
        rng.choice(("x = x + self.m@(x)", "x = self.m@(x)")),
    )


@step(4)
def rare_layer(rng: random.Random, shape: Shape) -> Step:
    return layer(
        rng.choice(
            (
                "nn.LocalResponseNorm(3)",
                "nn.LPPool2d(2, 2)",
                "nn.Softmax2d()",
                "nn.CircularPad2d(1)",
                "nn.Dropout2d(0.3)",
                f"nn.Conv2d({shape[1]}, 3, 5, 3, 4)",
                f"nn.Conv2d({shape[1]}, 2, 1, 3)",
                f"nn.Conv2d({shape[1]}, 4, (1, {shape[3]}))",
                f"nn.ConvTranspose2d({shape[1]}, {shape[1]}, 2, 3, groups={shape[1]})",
                f"nn.BatchNorm2d({shape[1]}, track_running_stats=False)",
                "nn.Unfold(2, stride=2)",
            )
        )
    )


@step(3)
def rotary(rng: random.Random, shape: Shape) -> Step:
    """Queries and keys turned by their position."""
    _, t, n = shape
    make = (
        f"self.q@ = nn.Linear({n}, {2 * (n // 2)})",
        f"angles = torch.arange({t})[:, None] * torch.rand({n // 2})",
        "self.register_buffer('turn@', torch.stack([angles.cos(), angles.sin()]))",
    )
    call = (
        "a, b = self.q@(x).chunk(2, -1)",
        "q = torch.cat([a * self.turn@[0] - b * self.turn@[1], a * self.turn@[1] + b * self.turn@[0]], -1)",
        rng.choice(
            (
                "x = torch.softmax(q.matmul(q.transpose(1, 2)), -1).matmul(x)",
                "x = torch.einsum('btd,bsd,bsn->btn', q, q, x) * 0.1",
            )
        ),
    )
    return Step(make, call)


@step(3)
def masked_attention(rng: random.Random, shape: Shape) -> Step:
    _, t, n = shape
    h = divisor(rng, n)
    mask = rng.choice((f"torch.ones({t}, {t}).triu(1).bool()", f"torch.randn({t}, {t})"))
    return Step(
        (
            f"self.m@ = nn.MultiheadAttention({n}, {h}, batch_first=True, dropout={rng.choice((0.0, 0.2))})",
            f"self.register_buffer('mask@', {mask})",
        ),
        ("y, w = self.m@(x, x, x, attn_mask=self.mask@)", "x = x + y" if flag(rng) else "x = y + w.sum()"),
    )


@step(3)
def cells(rng: random.Random, shape: Shape) -> Step:
    """A recurrence written as a loop."""
    n, h = shape[2], rng.randint(1, 6)
    kind = rng.choice(("GRUCell", "RNNCell"))
    return Step(
        (f"self.m@ = nn.{kind}({n}, {h})",),
        (
            f"h, hs = torch.zeros(x.shape[0], {h}), []",
            "for t in range(x.shape[1]):",
            "    h = self.m@(x[:, t], h)",
            "    hs.append(h)",
            "x = torch.stack(hs, 1)",
        ),
    )
