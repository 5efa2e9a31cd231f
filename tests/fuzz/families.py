"""Steps of more families: one-dimensional layers, decoders, mixtures, other states, and the idioms of research code."""

from __future__ import annotations

import random

from tests.fuzz.step import ACTIVATIONS, Shape, Step, divisor, flag, layer, step

# ---- along time, [batch, time, features]


def over_time(text: str) -> Step:
    """A layer on [batch, channels, time]."""
    return layer(text, "x = self.m@(x.transpose(1, 2)).transpose(1, 2)")


@step(3)
def transposed1d(rng: random.Random, shape: Shape) -> Step:
    c, co, stride = shape[2], rng.randint(1, 9), rng.choice((1, 2, 3))
    groups = divisor(rng, c, co) if flag(rng, 0.3) else 1
    return over_time(
        f"nn.ConvTranspose1d({c}, {co}, {rng.randint(1, 4)}, {stride}, {rng.randint(0, 1)}, "
        f"{rng.randint(0, stride - 1)}, {groups}, bias={flag(rng)}, dilation={rng.choice((1, 1, 2))})"
    )


@step(3, times=2)
def pool1d(rng: random.Random, shape: Shape) -> Step:
    return over_time(
        rng.choice(
            (
                f"nn.MaxPool1d({rng.randint(1, 3)}, {rng.randint(1, 2)}, ceil_mode={flag(rng)})",
                f"nn.AvgPool1d({rng.randint(2, 3)}, {rng.randint(1, 2)}, 1)",
                f"nn.AdaptiveAvgPool1d({rng.randint(1, 4)})",
                f"nn.AdaptiveMaxPool1d({rng.randint(1, shape[1])})",
                "nn.Upsample(scale_factor=2)",
                "nn.Upsample(scale_factor=2, mode='linear')",
                "nn.ReflectionPad1d((1, 0))",
                "nn.ReplicationPad1d((0, 2))",
                "nn.ConstantPad1d((2, -1), 0.3)",
            )
        )
    )


@step(3, times=2)
def norm1d(rng: random.Random, shape: Shape) -> Step:
    b, t, c = shape
    if b * t < 6 or t < 4:
        return Step()
    return over_time(
        rng.choice(
            (
                f"nn.BatchNorm1d({c})",
                f"nn.BatchNorm1d({c}, affine=False)",
                f"nn.InstanceNorm1d({c}, affine={flag(rng)})",
                f"nn.GroupNorm({divisor(rng, c)}, {c})",
                f"nn.SyncBatchNorm({c}).eval()",
            )
        )
    )


@step(3)
def causal_conv(rng: random.Random, shape: Shape) -> Step:
    """A block of a temporal network: padding on the left, a gate, a residual."""
    c, d = shape[2], rng.choice((1, 2, 3))
    return layer(
        f"nn.Conv1d({c}, {2 * c}, 3, dilation={d}, groups={rng.choice((1, c))})",
        f"x = x + F.glu(self.m@(F.pad(x.transpose(1, 2), ({2 * d}, 0))), 1).transpose(1, 2)",
    )


# ---- recurrent with states


@step(3)
def stateful(rng: random.Random, shape: Shape) -> Step:
    """The initial state is learned, the last one is used."""
    b, _, n = shape
    h, layers, lstm = rng.randint(1, 7), rng.choice((1, 2)), flag(rng)
    kind = "LSTM" if lstm else rng.choice(("GRU", "RNN"))
    options = ", nonlinearity='relu'" if kind == "RNN" else ""
    expanded = f"self.h@.expand({layers}, {b}, {h}).contiguous()"
    state = f"({expanded}, torch.tanh({expanded}))" if lstm else expanded
    last = rng.choice(("s[0]", "s[0] * s[1].tanh()")) if lstm else "s"
    return Step(
        (
            f"self.m@ = nn.{kind}({n}, {h}, {layers}, batch_first=True, dropout={rng.choice((0.0, 0.3))}{options})",
            f"self.h@ = nn.Parameter(torch.randn({layers}, 1, {h}) * 0.3)",
        ),
        (f"x, s = self.m@(x, {state})", f"x = x + {last}.mean(0).unsqueeze(1)"),
    )


@step(3)
def lstm_cells(rng: random.Random, shape: Shape) -> Step:
    """Two cells on top of each other, and only the last time step goes on, or all of them backwards."""
    b, _, n = shape
    h = rng.randint(1, 5)
    return Step(
        (f"self.m@ = nn.LSTMCell({n}, {h})", f"self.n@ = nn.LSTMCell({h}, {h}, bias={flag(rng)})"),
        (
            f"a = b = (torch.zeros({b}, {h}), torch.zeros({b}, {h}))",
            "hs = []",
            "for t in reversed(range(x.shape[1])):",
            "    a = self.m@(x[:, t], a)",
            "    b = self.n@(a[0], b)",
            "    hs.append(b[0])",
            rng.choice(("x = torch.stack(hs, 1)", "x = torch.stack(hs[-1:], 1)", "x = torch.stack([hs[-1], b[1]], 1)")),
        ),
    )


@step(3)
def own_recurrence(rng: random.Random, shape: Shape) -> Step:
    """A linear state space written as a loop."""
    b, _, n = shape
    return Step(
        (f"self.p@ = nn.Parameter(torch.randn({n}))", f"self.m@ = nn.Linear({n}, {n})"),
        (
            f"s, out, d = torch.zeros({b}, {n}), [], torch.sigmoid(self.p@)",
            "for u in x.unbind(1):",
            "    s = d * s + (1 - d) * self.m@(u)",
            "    out.append(s)",
            "x = torch.stack(out, 1)",
        ),
    )


# ---- attention


@step(3)
def cross_attention(rng: random.Random, shape: Shape) -> Step:
    """Learned queries over other keys and values, padding left out."""
    b, t, n = shape
    q, kd = rng.randint(1, 4), rng.randint(1, 6)
    masked = flag(rng)
    mask = f", key_padding_mask=torch.arange({t})[None].expand({b}, {t}) >= {max(1, t - 1)}" if masked else ""
    return Step(
        (
            f"self.q@ = nn.Parameter(torch.randn(1, {q}, {n}))",
            f"self.k@ = nn.Linear({n}, {kd})",
            f"self.m@ = nn.MultiheadAttention({n}, {divisor(rng, n)}, kdim={kd}, vdim={n}, batch_first=True)",
        ),
        (f"x = self.m@(self.q@.expand({b}, -1, -1), self.k@(x), x{mask}, need_weights={flag(rng)})[0]",),
    )


@step(3)
def decoder(rng: random.Random, shape: Shape) -> Step:
    _, t, n = shape
    if n < 3:
        return Step()
    causal = f", tgt_mask=nn.Transformer.generate_square_subsequent_mask({t})" if flag(rng) else ""
    return layer(
        f"nn.TransformerDecoderLayer({n}, {divisor(rng, n)}, {rng.randint(2, 9)}, dropout={rng.choice((0.0, 0.1))}, "
        f"batch_first=True, norm_first={flag(rng)})",
        f"x = self.m@(x, torch.tanh(x.flip(1)){causal})",
    )


@step(3)
def grouped_queries(rng: random.Random, shape: Shape) -> Step:
    """Fewer keys than queries, a learned bias on the scores, and a cap on them."""
    _, t, n = shape
    d = rng.randint(1, 5)
    return Step(
        (
            f"self.q@ = nn.Linear({n}, {4 * d}, bias=False)",
            f"self.k@ = nn.Linear({n}, {4 * d})",
            f"self.o@ = nn.Linear({4 * d}, {n})",
            f"self.p@ = nn.Parameter(torch.randn(4, {t}, {t}) * 0.3)",
        ),
        (
            f"q = self.q@(x).unflatten(2, (4, {d})).transpose(1, 2)",
            f"k, v = self.k@(x).unflatten(2, (2, 2, {d})).permute(2, 0, 3, 1, 4)",
            "k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)",
            f"s = 3 * torch.tanh(q.matmul(k.mT) * {d}**-0.5 / 3) + self.p@",
            "x = x + self.o@(s.softmax(-1).matmul(v).transpose(1, 2).flatten(2))",
        ),
    )


@step(3)
def linear_attention(rng: random.Random, shape: Shape) -> Step:
    n = shape[2]
    return Step(
        (f"self.m@ = nn.Linear({n}, {3 * n}, bias={flag(rng)})",),
        (
            "q, k, v = self.m@(x).chunk(3, -1)",
            "q, k = F.elu(q) + 1, F.elu(k) + 1",
            "kv = torch.einsum('btd,bte->bde', k, v)",
            "x = torch.einsum('btd,bde->bte', q, kv) / (q * k.sum(1, keepdim=True)).sum(-1, keepdim=True)",
        ),
    )


@step(3)
def positions(rng: random.Random, shape: Shape) -> Step:
    t, n = shape[1:]
    return Step(
        (f"self.p@ = nn.Embedding({t + 2}, {n})",),
        (rng.choice((f"x = x + self.p@(torch.arange({t}))", f"x = x * self.p@.weight[1:{t + 1}] + x")),),
    )


# ---- mixtures, and modules in containers


@step(2, 3)
def mixture(rng: random.Random, shape: Shape) -> Step:
    """Experts weighted by a gate."""
    n, m, experts = shape[-1], rng.randint(1, 9), rng.randint(2, 4)
    return Step(
        (
            f"self.g@ = nn.Linear({n}, {experts})",
            f"self.m@ = nn.ModuleList(nn.Linear({n}, {m}) for _ in range({experts}))",
        ),
        (
            "g = F.softmax(self.g@(x), -1)",
            rng.choice(
                (
                    "x = sum(g[..., i : i + 1] * e(x) for i, e in enumerate(self.m@))",
                    "x = (torch.stack([e(x) for e in self.m@], -1) * g.unsqueeze(-2)).sum(-1)",
                )
            ),
        ),
    )


@step(2, 3, 4)
def checkpointed(rng: random.Random, shape: Shape) -> Step:
    """A function that PyTorch runs again in the backward pass."""
    n = shape[-1]
    return layer(
        f"nn.Sequential(nn.Linear({n}, {rng.randint(1, 12)}), nn.Tanh())",
        "x = torch.utils.checkpoint.checkpoint(self.m@, x, use_reentrant=False)",
    )


@step(2, 3, 4)
def dictionary(rng: random.Random, shape: Shape) -> Step:
    n = shape[-1]
    acts = (rng.choice(ACTIVATIONS), rng.choice(ACTIVATIONS))
    return Step(
        (f"self.m@ = nn.ModuleDict({{'a': nn.Linear({n}, {n}), 'act': {acts[0]}, 'b': {acts[1]}}})",),
        ("y = self.m@['act'](self.m@['a'](x))", "x = y + self.m@['b'](x * 0.9)"),
    )


@step(2, 3, 4)
def reparametrized(rng: random.Random, shape: Shape) -> Step:
    n, m = shape[-1], rng.randint(2, 8)
    wraps = [f"parametrizations.weight_norm(nn.Linear({n}, {m}))"]
    call = "x = self.m@(x)"
    if len(shape) == 4:
        k = shape[1]
        wraps = [f"parametrizations.weight_norm(nn.Conv2d({k}, {m}, 3, padding=1), dim={rng.choice((0, 1))})"]
    return layer(rng.choice(wraps), call)


@step(2)
def low_rank(rng: random.Random, shape: Shape) -> Step:
    """A frozen layer with a trained update of low rank."""
    n, r = shape[1], rng.randint(1, 3)
    return Step(
        (
            f"self.m@ = nn.Linear({n}, {n}).requires_grad_(False)",
            f"self.a@ = nn.Linear({n}, {r}, bias=False)",
            f"self.b@ = nn.Linear({r}, {n}, bias=False)",
        ),
        ("x = self.m@(x) + 0.5 * self.b@(self.a@(x))",),
    )


# ---- pictures


@step(4)
def stem(rng: random.Random, shape: Shape) -> Step:
    """Patches of a picture as a sequence, a layer on them, and back."""
    c, p, m = shape[1], rng.choice((2, 3)), rng.randint(2, 12)
    return Step(
        (f"self.m@ = nn.Conv2d({c}, {m}, {p}, {p})", f"self.n@ = nn.LayerNorm({m})"),
        (
            "y = self.m@(x)",
            "x = self.n@(y.flatten(2).transpose(1, 2)).transpose(1, 2).unflatten(2, y.shape[2:])",
        ),
    )


@step(4)
def channels_last_block(rng: random.Random, shape: Shape) -> Step:
    """A block that normalises and mixes channels at the end, with a learned scale."""
    c = shape[1]
    if c < 3:
        return Step()
    return Step(
        (
            f"self.m@ = nn.Conv2d({c}, {c}, {rng.choice((3, 5, 7))}, padding='same', groups={c})",
            f"self.n@ = nn.Sequential(nn.LayerNorm({c}), nn.Linear({c}, {2 * c}), nn.GELU(), nn.Linear({2 * c}, {c}))",
            f"self.p@ = nn.Parameter(torch.full(({c},), 0.3))",
        ),
        ("x = x + (self.p@ * self.n@(self.m@(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)",),
    )


@step(4)
def encoder_decoder(rng: random.Random, shape: Shape) -> Step:
    """Down, up, and the picture from before beside it."""
    c, m = shape[1], rng.randint(1, 6)
    return Step(
        (
            f"self.m@ = nn.Conv2d({c}, {m}, 3, 2, 1)",
            f"self.n@ = nn.ConvTranspose2d({m}, {m}, 2, 2)",
        ),
        (
            "y = self.n@(torch.relu(self.m@(x)))",
            "x = torch.cat([x, y[:, :, : x.shape[2], : x.shape[3]]], 1)",
        ),
    )


@step(4)
def resampled(rng: random.Random, shape: Shape) -> Step:
    h, w = shape[2:]
    return layer(
        rng.choice(
            (
                f"nn.Upsample(({h + 1}, {max(2, w - 1)}), mode='bicubic')",
                "nn.UpsamplingNearest2d(scale_factor=2)",
                f"nn.AdaptiveAvgPool2d(({h + 2}, {max(1, w // 2)}))",
                f"nn.AdaptiveAvgPool2d((None, {max(1, w // 3)}))",
            )
        )
    )


@step(4)
def overlapping(rng: random.Random, shape: Shape) -> Step:
    """Patches taken apart, weighted, and put together again."""
    k = rng.choice(((2, 2), (3, 1), (1, 2)))
    return Step(
        (f"self.p@ = nn.Parameter(torch.rand({shape[1] * k[0] * k[1]}, 1))",),
        (f"x = F.fold(F.unfold(x, {k}) * self.p@, x.shape[2:], {k})",),
    )


@step(4)
def squeeze(rng: random.Random, shape: Shape) -> Step:
    """Attention over space and over channels by means and maxima."""
    return layer(
        f"nn.Conv2d(2, 1, {rng.choice((3, 5))}, padding='same', bias=False)",
        "x = x * torch.sigmoid(self.m@(torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)))",
    )


@step(2, 3, 4)
def functions(rng: random.Random, shape: Shape) -> Step:
    d = rng.randint(1, len(shape) - 1)
    lines = (
        "x = torch.special.expit(x) * torch.special.erf(x)",
        "x = torch.log1p(x.abs()) * x.sign()",
        "x = torch.sin(x) + 0.3 * torch.cos(2 * x)",
        "x = torch.hypot(x, x.new_full((), 0.5))",
        f"x = x / x.norm(dim={d}, keepdim=True).clamp(min=0.5)",
        f"x = x.square().sum({d}, keepdim=True).rsqrt().clamp(max=3) * x",
        "x = torch.where(x.abs() < 1, 0.5 * x * x, x.abs() - 0.5)",
        f"x = torch.minimum(x, x.mean({d}, keepdim=True)) + F.celu(x, 0.6)",
        "x = x.pow(2).add(0.1).pow(0.4)",
        f"x = F.softmin(x, {d})",
        "x = F.tanhshrink(x) + F.hardshrink(x, 0.3)",
        f"x = x.std({d}, keepdim=True) * x" if shape[d] > 2 else "x = x.reciprocal().clamp(-1, 1) * x",
        f"x = torch.addcmul(x, x, x.flip({d}), value=0.2)",
        f"x = x.scatter_add({d}, torch.zeros({shape}, dtype=torch.long), 0.1 * x)",
        "x = F.rrelu(x, 0.1, 0.3, training=False)",
    )
    return Step((), (rng.choice(lines),))
