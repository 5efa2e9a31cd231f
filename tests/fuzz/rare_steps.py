"""Steps that came late: volumes, sampling, running sums, masks, limits on norms, constants that decide."""

from __future__ import annotations

import random

from tests.fuzz.step import Shape, Step, divisor, flag, layer, step

# ---- pictures, [batch, channels, rows, columns]


@step(4, times=2)
def volume(rng: random.Random, shape: Shape) -> Step:
    """Channels as the depth of a volume."""
    c, co, depth = shape[1], rng.randint(1, 3), rng.randint(1, min(3, shape[1]))
    side = rng.choice((1, 3))
    made = (
        f"nn.Conv3d(1, {co}, ({depth}, {side}, {side}), padding=(0, {side // 2}, {side // 2}), bias={flag(rng)})",
        f"nn.ConvTranspose3d(1, {co}, (1, 2, 1), stride=(1, {rng.randint(1, 2)}, 1))",
        f"nn.MaxPool3d(({depth}, 1, 2), 1)" if shape[3] > 1 else "nn.Identity()",
        f"nn.AvgPool3d(({depth}, 1, 1), {rng.randint(1, 2)})",
        f"nn.AdaptiveAvgPool3d(({rng.randint(1, c)}, None, 2))",
        "nn.Upsample(scale_factor=(1, 2, 1), mode='nearest')",
        "nn.Upsample(scale_factor=(2, 1, 1), mode='trilinear')",
    )
    return layer(rng.choice(made), "x = self.m@(x[:, None]).flatten(1, 2)")


@step(4)
def sampled(rng: random.Random, shape: Shape) -> Step:
    """A picture looked at through a learned transformation."""
    mode, pad = rng.choice(("bilinear", "nearest", "bicubic")), rng.choice(("zeros", "border", "reflection"))
    align = flag(rng)
    return Step(
        ("self.p@ = nn.Parameter(torch.tensor([[0.9, 0.1, 0.05], [-0.15, 1.1, -0.02]]))",),
        (
            f"grid@ = F.affine_grid(self.p@.expand({shape[0]}, 2, 3), list(x.shape), align_corners={align})",
            f"x = F.grid_sample(x, grid@, '{mode}', '{pad}', align_corners={align})",
        ),
    )


@step(4)
def resized(rng: random.Random, shape: Shape) -> Step:
    size = (rng.randint(2, 9), rng.randint(2, 9))
    if min(shape[2:]) < 3:
        return Step()
    mode = rng.choice(("'bilinear', antialias=True", "'bicubic'", "'area'", "'nearest-exact'"))
    return Step((), (f"x = F.interpolate(x, {size}, mode={mode})",))


@step(4)
def unpooled(rng: random.Random, shape: Shape) -> Step:
    if min(shape[2:]) < 2:
        return Step()
    back = "x = x + F.max_unpool2d(y@, at@, 2, output_size=x.shape[2:])"
    return Step((), ("y@, at@ = F.max_pool2d(x, 2, return_indices=True)", back))


# ---- anything


@step(2, 3, 4, times=2)
def running(rng: random.Random, shape: Shape) -> Step:
    d = rng.randint(1, len(shape) - 1)
    lines = (
        f"x = torch.cummax(x, {d}).values",
        f"x = torch.cummin(x, {d})[0] + 0.1 * x",
        f"x = torch.logcumsumexp(x, {d})",
        f"x = x.clamp(-1, 1).cumprod({d})",
        f"x = x.sort({d}, descending={flag(rng)}).values",
        f"x = x.msort() + x.kthvalue(1, {d}, keepdim=True).values",
        f"x = x - x.nanmedian({d}, keepdim=True).values",
        f"x = x * x.mode({d}, keepdim=True).values.sign()",
        f"x = torch.renorm(x, 2, {d}, 1.5)",
    )
    return Step((), (rng.choice(lines),))


@step(2, 3, 4, times=2)
def masks(rng: random.Random, shape: Shape) -> Step:
    d = rng.randint(1, len(shape) - 1)
    some = sorted(rng.sample(range(shape[d]), rng.randint(1, shape[d])))
    lines = (
        "x = x.masked_scatter(x > 0.3, 0.5 * x.flip(1))",
        f"x = x.index_fill({d}, torch.tensor({some}), 0.25)",
        f"x = x.index_reduce({d}, torch.tensor({some}), x.narrow({d}, 0, {len(some)}), 'amax')",
        f"x = x.scatter_reduce({d}, torch.zeros({shape}, dtype=torch.long), x, 'mean', include_self={flag(rng)})",
        "x = torch.copysign(x.abs() + 0.1, x + 1e-3) + torch.nansum(x.new_tensor([1.0, float('nan')]))",
        f"x = x.repeat_interleave(torch.tensor({[rng.randint(1, 2) for _ in range(shape[d])]}), {d})",
    )
    return Step((), (rng.choice(lines),))


@step(2, 3, 4)
def decided(rng: random.Random, shape: Shape) -> Step:
    """Buffers that no step changes decide on shapes, branches and numbers."""
    d = rng.randint(1, len(shape) - 1)
    made = (
        f"self.register_buffer('k@', torch.tensor({[0.5] * rng.randint(1, 3)}))",
        f"self.register_buffer('n@', torch.tensor({divisor(rng, shape[d])}))",
    )
    scaled = "x = x * sum(self.k@.tolist()) if (self.k@ > 0).all() else -x"
    return Step(made, (scaled, f"x = x.narrow({d}, 0, int(self.n@.item()))"))


@step(2)
def small_algebra(rng: random.Random, shape: Shape) -> Step:
    """A mixing matrix that stays well conditioned."""
    n = shape[1]
    if n > 8:
        return Step()
    lines = (
        "x = x.mm(torch.linalg.inv(w@))",
        "x = torch.linalg.solve(w@, x.t()).t()",
        "x = x.mm(torch.linalg.cholesky(w@.mm(w@.t())))",
        "x = x * torch.linalg.slogdet(w@).logabsdet",
        "x = x.mm(torch.matrix_exp(0.1 * w@))",
    )
    return Step(
        (f"self.w@ = nn.Parameter(0.1 * torch.randn({n}, {n}))",),
        (f"w@ = self.w@ + 2 * torch.eye({n})", rng.choice(lines)),
    )
