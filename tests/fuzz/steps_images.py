"""Steps of random networks: layers of images, activations, movements."""

from __future__ import annotations

import math
import random

from tests.fuzz.step import ACTIVATIONS, Shape, Step, divisor, flag, layer, step


@step(4, times=4)
def conv(rng: random.Random, shape: Shape) -> Step:
    c, co = shape[1], rng.choice((1, 2, 3, 4, 5, 7, 8, 12, 17))
    kernel = (rng.randint(1, 4), rng.randint(1, 4))
    stride = rng.choice(((1, 1), (1, 1), (2, 2), (1, 2), (3, 2)))
    padding = (rng.randint(0, 2), rng.randint(0, 2))
    dilation = rng.choice(((1, 1), (1, 1), (1, 1), (2, 1), (2, 2), (1, 3)))
    mode = rng.choice(("zeros",) * 6 + ("reflect", "replicate", "circular"))
    groups = divisor(rng, c, co) if flag(rng, 0.3) else 1
    return layer(
        f"nn.Conv2d({c}, {co}, {kernel}, {stride}, {padding}, {dilation}, {groups}, bias={flag(rng)}, "
        f"padding_mode={mode!r})"
    )


@step(4, times=3)
def square_conv(rng: random.Random, shape: Shape) -> Step:
    k = rng.choice((3, 3, 5))
    stride = rng.choice((1, 1, 2))
    return layer(f"nn.Conv2d({shape[1]}, {rng.choice((3, 6, 8, 10, 16))}, {k}, {stride}, {k // 2}, bias={flag(rng)})")


@step(4, times=2)
def depthwise(rng: random.Random, shape: Shape) -> Step:
    c, k = shape[1], rng.choice((2, 3, 3, 5))
    return layer(
        f"nn.Conv2d({c}, {c * rng.choice((1, 1, 2))}, {k}, {rng.choice((1, 1, 2))}, {k // 2}, "
        f"dilation={rng.choice((1, 1, 2))}, groups={c}, bias={flag(rng)})"
    )


@step(4, times=2)
def pointwise(rng: random.Random, shape: Shape) -> Step:
    return layer(f"nn.Conv2d({shape[1]}, {rng.randint(1, 20)}, 1, {rng.choice((1, 1, 2))}, bias={flag(rng)})")


@step(4)
def transposed(rng: random.Random, shape: Shape) -> Step:
    stride = rng.choice((1, 2, 2, 3))
    co = rng.randint(1, 8)
    groups = divisor(rng, shape[1], co) if flag(rng, 0.3) else 1
    return layer(
        f"nn.ConvTranspose2d({shape[1]}, {co}, {rng.randint(1, 4)}, {stride}, {rng.randint(0, 1)}, "
        f"{rng.randint(0, stride - 1)}, {groups}, bias={flag(rng)}, dilation={rng.choice((1, 1, 2))})"
    )


@step(3, times=2)
def conv1d(rng: random.Random, shape: Shape) -> Step:
    c, co = shape[2], rng.randint(1, 12)
    groups = divisor(rng, c, co) if flag(rng, 0.3) else 1
    text = (
        f"nn.Conv1d({c}, {co}, {rng.randint(1, 4)}, {rng.choice((1, 1, 2))}, {rng.randint(0, 2)}, "
        f"{rng.choice((1, 1, 2))}, {groups}, bias={flag(rng)})"
    )
    return layer(text, "x = self.m@(x.transpose(1, 2)).transpose(1, 2)")


@step(4)
def twice(rng: random.Random, shape: Shape) -> Step:
    """The same module called twice."""
    act = rng.choice(("F.relu({})", "torch.tanh({})", "{}"))
    call = f"x = self.m@({act.format('self.m@(x)')})"
    return layer(f"nn.Conv2d({shape[1]}, {shape[1]}, 3, padding=1, bias={flag(rng)})", call)


@step(4)
def tied(rng: random.Random, shape: Shape) -> Step:
    """Two modules with one weight."""
    c, groups = shape[1], rng.choice((1, shape[1]))
    conv = f"nn.Conv2d({c}, {c}, 3, padding=1, groups={groups})"
    return Step(
        (f"self.m@ = {conv}", f"self.n@ = {conv}", "self.n@.weight = self.m@.weight"),
        (f"x = self.n@({rng.choice(('torch.relu', 'torch.sigmoid'))}(self.m@(x)))",),
    )


# ---- norms


@step(4, 2, times=2)
def batch_norm(rng: random.Random, shape: Shape) -> Step:
    kept = math.prod(shape) // shape[1] < 6 or flag(rng, 0.35)
    options = rng.choice(("", "", ", momentum=0.3", ", affine=False", ", momentum=None", ", eps=1e-3"))
    return layer(f"nn.BatchNorm{'2d' if len(shape) == 4 else '1d'}({shape[1]}{options}){'.eval()' if kept else ''}")


@step(4)
def group_norm(rng: random.Random, shape: Shape) -> Step:
    return layer(f"nn.GroupNorm({divisor(rng, shape[1])}, {shape[1]}{rng.choice(('', ', affine=False'))})")


@step(4)
def instance_norm(rng: random.Random, shape: Shape) -> Step:
    options = rng.choice(("", ", affine=True", ", affine=True, track_running_stats=True"))
    if shape[2] * shape[3] < 6:
        return Step()
    return layer(f"nn.InstanceNorm2d({shape[1]}{options})")


@step(2, 3, 4, times=2)
def layer_norm(rng: random.Random, shape: Shape) -> Step:
    most = len(shape) - 1
    extents = shape[-rng.randint(1, most) :]
    if len(extents) == 1 and extents[0] < 3:
        return Step()
    kind = rng.choice(("LayerNorm", "LayerNorm", "RMSNorm"))
    return layer(f"nn.{kind}({list(extents)}{rng.choice(('', '', ', elementwise_affine=False'))}, eps=1e-5)")


# ---- pools


@step(4, times=2)
def pool(rng: random.Random, shape: Shape) -> Step:
    k, s = rng.randint(2, 3), rng.choice((1, 2, 2, 3))
    ceil = flag(rng, 0.3)
    pad = rng.choice((0, 0, 1))
    return layer(
        rng.choice(
            (
                f"nn.MaxPool2d({k}, {s}, {pad}, ceil_mode={ceil})",
                f"nn.MaxPool2d(({k}, 1), {s})",
                f"nn.MaxPool2d(2, {s}, dilation=2)",
                f"nn.AvgPool2d({k}, {s}, {pad}, ceil_mode={ceil}, count_include_pad={flag(rng)})",
                f"nn.AvgPool2d((1, {k}), {s})",
            )
        )
    )


@step(4)
def adaptive_pool(rng: random.Random, shape: Shape) -> Step:
    h, w = rng.randint(1, min(5, shape[2])), rng.randint(1, min(5, shape[3]))
    return layer(f"nn.Adaptive{rng.choice(('Avg', 'Max'))}Pool2d(({h}, {w}))")


@step(4)
def upsample(rng: random.Random, shape: Shape) -> Step:
    return layer(
        rng.choice(
            (
                "nn.Upsample(scale_factor=2)",
                "nn.Upsample(scale_factor=2, mode='bilinear')",
                f"nn.Upsample(({shape[2] + 3}, {shape[3] + 1}), mode='bilinear', align_corners=True)",
                f"nn.Upsample(size=({shape[2] + 1}, {max(1, shape[3] - 1)}))",
                "nn.PixelShuffle(2)",
                "nn.PixelUnshuffle(2)",
                "nn.ChannelShuffle(2)",
                "nn.ZeroPad2d((1, 0, 2, 1))",
                "nn.ReflectionPad2d((1, 2, 0, 1))",
                "nn.ReplicationPad2d(1)",
            )
        )
    )


# ---- activations and elementwise


@step(2, 3, 4, times=4)
def activation(rng: random.Random, shape: Shape) -> Step:
    return layer(rng.choice(ACTIVATIONS))


@step(2, 3, 4)
def written_activation(rng: random.Random, shape: Shape) -> Step:
    dim = rng.randint(1, len(shape) - 1)
    lines = (
        "x = x * torch.sigmoid(x)",
        "x = F.relu(x, inplace=True)",
        "x = x.clamp(-1.3, 0.9)",
        "x = torch.maximum(x, 0.1 * x)",
        f"x = F.softmax(x, {dim}) * {shape[dim]}",
        f"x = F.log_softmax(x, {dim})",
        f"x = F.glu(x, {dim})",
        "x = torch.where(x > 0.1, x, x * x - 0.2)",
        "x = torch.sqrt(x * x + 0.3)",
        "x = x / (1 + x.abs())",
        f"x = F.normalize(x, dim={dim}) * 1.7",
        "x = torch.exp(-x.square())",
        "x = x + x.detach() * 0.5",
        f"x = x.cumsum({dim}) * 0.4",
        f"x = x - x.mean({dim}, keepdim=True)",
        f"x = x - x.amax({dim}, keepdim=True)",
        "x = x.masked_fill(x < -0.8, -0.5)",
        "x = F.dropout(x, 0.4, False)",
    )
    return Step((), (rng.choice(lines),))


@step(2, 3, 4)
def own_parameter(rng: random.Random, shape: Shape) -> Step:
    """A parameter without a module, of a shape that broadcasts."""
    extents = [e if flag(rng) else 1 for e in shape[rng.randint(1, len(shape) - 1) :]]
    calls = ("x = x * (1 + self.p@) + self.p@", "x = x + self.p@", "x = x / (2 + self.p@.square())")
    return Step((f"self.p@ = nn.Parameter(torch.randn({extents}) * 0.4)",), (rng.choice(calls),))


@step(2, 3, 4)
def movement(rng: random.Random, shape: Shape) -> Step:
    d = rng.randint(1, len(shape) - 1)
    n = shape[d]
    lines = (
        f"x = x.flip({d})",
        f"x = x.roll({rng.randint(1, n)}, {d})",
        f"x = x.transpose({d}, {len(shape) - 1}).contiguous()",
        f"x = x.narrow({d}, {min(1, n - 1)}, {max(1, n - 2)})",
        f"x = x.index_select({d}, torch.tensor({[rng.randrange(n) for _ in range(n)]}))",
        f"x = torch.cat(x.split({max(1, n // 2)}, {d})[::-1], {d})",
        f"x = torch.cat([x, x * 0.5], {d})",
        f"x = torch.stack([x, -x], {d}).flatten({d}, {d + 1})",
        "x = x[..., ::2]",
        "x = x[:, 1:]",
        f"x = x.repeat_interleave(2, {d})",
        f"x = F.pad(x, ({rng.randint(0, 2)}, {rng.randint(-1, 2)}))",
    )
    return Step((), (rng.choice(lines),))


@step(2, 3, 4)
def in_place(rng: random.Random, shape: Shape) -> Step:
    lines = (
        ("y = x.clone()", "y += x * 0.5", "y *= 0.7", "x = y"),
        ("x = x.mul(1.3).add_(0.2).tanh_()",),
        ("y = x * 1.5", "y[:, 0] = 0.25", "x = y"),
        ("y = x * 0.5", "y[:, :1] += x[:, -1:]", "x = y"),
        ("y = torch.zeros_like(x)", "y[..., 1:] = x[..., :-1]", "x = x + y"),
    )
    return Step((), rng.choice(lines))


# ---- branches
