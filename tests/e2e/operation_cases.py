"""The table of operations: each case is a function or a module, and the tensors it gets."""

# ruff: noqa: PLW0108, PLC3002, PLR0124 - lambdas keep a case on one line, and `x == x` is one
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

Leaf = torch.Tensor  # floats become parameters, everything else (and what `fixed` made) buffers
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """`function(*leaves)`; a module is its own function."""

    group: str
    name: str
    function: Callable[..., Any]
    leaves: tuple[Any, ...]


CASES: list[Case] = []
generator = torch.Generator().manual_seed(20)


def case(group: str, name: str, function: Callable[..., Any], *leaves: Any) -> None:
    """A bare shape stands for a normal random parameter."""
    tensors = tuple(normal(v) if isinstance(v, tuple) else v for v in leaves)
    assert name not in {c.name for c in CASES if c.group == group}, name
    CASES.append(Case(group, name, function, tensors))


def cases(group: str, table: dict[str, Callable[..., Any]], *leaves: Any) -> None:
    for name, function in table.items():
        case(group, name, function, *leaves)


def normal(shape: Shape) -> Leaf:
    return torch.randn(shape, generator=generator)


def uniform(shape: Shape, low: float, high: float) -> Leaf:
    return torch.rand(shape, generator=generator) * (high - low) + low


def positive(*shape: int) -> Leaf:
    return uniform(shape, 0.3, 2.5)


def fixed(value: Leaf) -> nn.Buffer:
    return nn.Buffer(value)


def integers(shape: Shape, high: int, low: int = 0) -> nn.Buffer:
    return fixed(torch.randint(low, high, shape, generator=generator))


def mask(*shape: int) -> nn.Buffer:
    return fixed(torch.rand(shape, generator=generator) < 0.6)


def spread(*shape: int) -> Leaf:
    """Distinct values in random order, -3 to 3: no ties and no kinks within rounding."""
    n = math.prod(shape)
    return ((torch.randperm(n, generator=generator) + 0.37) / n * 6 - 3).reshape(shape)


def module(group: str, name: str, made: nn.Module, *leaves: Any) -> None:
    with torch.no_grad():  # affine weights start at one and zero, where mistakes hide
        for key, p in made.named_parameters():
            if "original" not in key:
                p.add_(torch.randn(p.shape, generator=generator) * 0.3)
        for b in made.buffers():
            if b.is_floating_point():
                b.copy_(uniform(tuple(b.shape), 0.5, 1.5))
    case(group, name, made, *leaves)


torch.manual_seed(3)

# ---- activations

for made in (
    nn.ReLU(),
    nn.ReLU6(),
    nn.LeakyReLU(0.2),
    nn.ELU(0.7),
    nn.SELU(),
    nn.CELU(1.3),
    nn.SiLU(),
    nn.Mish(),
    nn.GELU(),
    nn.Hardswish(),
    nn.Hardsigmoid(),
    nn.Hardtanh(-0.7, 1.1),
    nn.Softplus(1.5, 4.0),
    nn.Softsign(),
    nn.Tanhshrink(),
    nn.Softshrink(0.4),
    nn.Hardshrink(0.6),
    nn.LogSigmoid(),
    nn.GLU(1),
    nn.Threshold(0.3, -1.5),
    nn.Sigmoid(),
    nn.Tanh(),
    nn.PReLU(),
):
    module("activations", type(made).__name__, made, spread(3, 4, 5) * 1.3)
module("activations", "PReLU_channels", nn.PReLU(4), spread(3, 4, 5))
module("activations", "GELU_tanh", nn.GELU("tanh"), spread(3, 4, 5))
module("activations", "GLU_last", nn.GLU(), (2, 3, 6))
module("activations", "RReLU_eval", nn.RReLU().eval(), spread(3, 7))
module(
    "activations",
    "inplace",
    nn.Sequential(nn.Linear(5, 7), nn.ReLU(inplace=True), nn.Linear(7, 3), nn.SiLU(True)),
    (3, 5),
)
module(
    "activations",
    "inplace_hard",
    nn.Sequential(nn.Conv1d(2, 3, 2), nn.Hardswish(True), nn.Conv1d(3, 2, 1), nn.LeakyReLU(0.1, True)),
    (2, 2, 5),
)

# ---- functions of one tensor

for name in "sin cos tanh sinh cosh atan erf erfc exp exp2 expm1 sigmoid neg abs square relu sinc asinh".split():
    case("functions", name, getattr(torch, name), spread(3, 5))
for name in "log log2 log10 log1p sqrt rsqrt reciprocal".split():
    case("functions", name, getattr(torch, name), positive(4, 3))
for name in "tan asin acos atanh logit erfinv".split():
    leaf = uniform((3, 5), 0.1, 0.9) if name == "logit" else uniform((3, 5), -0.9, 0.9)
    case("functions", name, getattr(torch, name), leaf)
case("functions", "acosh", torch.acosh, positive(3, 4) + 1)
case("functions", "pow2", lambda x: x**2, (3, 4))
case("functions", "pow3", lambda x: x**3, (3, 4))
case("functions", "pow_half", lambda x: x**1.5, positive(3, 4))
case("functions", "pow_negative", lambda x: x**-2, positive(3, 4))
case("functions", "pow_tensor", lambda x, y: x**y, positive(3, 4), (4,))
case("functions", "pow_base", lambda x: 2.5**x, (3, 4))
case("functions", "floor_ceil", lambda x: x - x.floor() + x * x.ceil() + x.trunc() * x, spread(3, 5))
case("functions", "round", lambda x: x * x.round(), spread(3, 5))
case("functions", "frac", lambda x: x.frac(), spread(3, 5))
case("functions", "sign", lambda x: x.sign() * x + x.sgn(), spread(3, 5))
case("functions", "nan_to_num", lambda x: torch.nan_to_num(x), spread(3, 5))
case("functions", "xlogy", torch.xlogy, positive(3, 4), positive(3, 4))
case("functions", "special_entr", torch.special.entr, positive(3, 4))

# ---- pairs, comparisons, casts

a, c = (3, 1, 5), (4, 5)
cases(
    "pairs",
    {
        "add": lambda x, y: x + y,
        "sub_alpha": lambda x, y: torch.sub(x, y, alpha=1.7),
        "mul": lambda x, y: x * y,
        "rsub": lambda x, y: 2.5 - x + (1 - y),
        "atan2": torch.atan2,
        "maximum": torch.maximum,
        "minimum": torch.minimum,
        "fmax": torch.fmax,
        "fmin": torch.fmin,
        "hypot": torch.hypot,
        "logaddexp": torch.logaddexp,
        "logaddexp2": torch.logaddexp2,
        "lerp": lambda x, y: torch.lerp(x, y, 0.3),
        "where": lambda x, y: torch.where(x > y, x * y, y - x),
        "where_scalar": lambda x, y: torch.where(x > 0.2, x, 1.5) + torch.where(y < 0, 0.0, y),
        "comparisons": lambda x, y: (x < y, x <= y, x > 0, (x >= y).float() * y, x != y, x == x),
        "logic": lambda x, y: ((x > 0) & (y > 0), (x > 0) | (y < 0), (x > 0) ^ (y > 0), ~(x > 0)),
        "logical": lambda x, y: torch.logical_and(x > 0, y > 0) * x + torch.logical_not(y > 1) * y,
    },
    a,
    c,
)
case("pairs", "div", lambda x, y: x / y, (2, 3, 4), positive(3, 1))
case("pairs", "rdiv", lambda x: 1.3 / x + x / 3, positive(3, 4))
case("pairs", "fmod", lambda x: torch.fmod(x, 0.7), spread(4, 3))
case("pairs", "remainder", lambda x: torch.remainder(x, 0.7) + x % 1.3, spread(4, 3))
case("pairs", "remainder_tensor", torch.remainder, spread(4, 3), positive(4, 1))
case("pairs", "floor_divide", lambda x: (x.detach() // 0.7) * x, spread(4, 3))
case("pairs", "addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=0.7), (4, 3), (3,), (4, 1))
case("pairs", "addcdiv", lambda x, y, z: torch.addcdiv(x, y, z, value=0.7), (4, 3), (3,), positive(4, 1))
case("pairs", "lerp_tensor", torch.lerp, (4, 3), (3,), (4, 1))
case("pairs", "clamp", lambda x: x.clamp(-0.5, 1.2), spread(3, 5))
case("pairs", "clamp_one_side", lambda x: x.clamp(min=-0.5) * x.clamp(max=0.9), spread(3, 5))
case("pairs", "clamp_tensor", lambda x, y: torch.clamp(x, y - 1, y + 1), spread(3, 5), (5,))
case("pairs", "clip_inplace", lambda x: (x * 1).clamp_(0.1, 0.8), spread(3, 5))
case("pairs", "casts", lambda x: (x.long(), x.int().float() * x, (x > 0).long() * 3, x.to(torch.bool)), spread(3, 5))
case("pairs", "integer_math", lambda i, x: (i * 3 - 1, i // 2, i % 3, -i, i.float() * x), integers((4, 3), 9, -9), (3,))
case("pairs", "masked_fill", lambda x, m: x.masked_fill(m, -2.0), (3, 5), mask(3, 5))
case("pairs", "masked_fill_rows", lambda x, m: x.masked_fill(~m, float(4)), (3, 5), mask(3, 1))
case("pairs", "isfinite", lambda x: torch.isfinite(x) * x + torch.isnan(x).float(), (3, 4))
case("pairs", "sum_broadcast", lambda x, y, z: x * y + z, (2, 1, 4), (3, 1), (1,))
case("pairs", "scalar_parameter", lambda x, s: x * s + s, (3, 4), ())
case("pairs", "expand_as", lambda x, y: x.expand_as(y) * y, (1, 4), (3, 4))

# ---- reductions

for name, how in {
    "all": {},
    "first": {"dim": 0},
    "middle": {"dim": 1, "keepdim": True},
    "last": {"dim": -1},
    "outer_inner": {"dim": (0, 2)},
}.items():
    case("reductions", f"sum_{name}", lambda x, how=how: x.sum(**how), (3, 4, 5))
    case("reductions", f"mean_{name}", lambda x, how=how: x.mean(**how), (3, 4, 5))
    case("reductions", f"var_{name}", lambda x, how=how: x.var(**how), (3, 4, 5))
    case("reductions", f"amax_{name}", lambda x, how=how: x.amax(**how), spread(3, 4, 5))
cases(
    "reductions",
    {
        "std": lambda x: x.std(dim=1),
        "std_biased": lambda x: x.std((0, 1), correction=0, keepdim=True),
        "std_all": lambda x: x.std(),
        "var_mean": lambda x: torch.var_mean(x, 1),
        "norm": lambda x: x.norm(),
        "norm_dim": lambda x: x.norm(dim=1),
        "norm_1": lambda x: x.norm(p=1, dim=(0, 2)),
        "norm_3": lambda x: x.norm(p=3, dim=2),
        "norm_inf": lambda x: torch.linalg.vector_norm(x, float("inf"), dim=1),
        "amin": lambda x: x.amin((0, 1)),
        "max_all": lambda x: x.max(),
        "min_all": lambda x: x.min(),
        "max_dim": lambda x: tuple(x.max(1)),
        "min_dim": lambda x: tuple(x.min(-1, keepdim=True)),
        "argmax": lambda x: (x.argmax(1), x.argmin(dim=0, keepdim=True), x.argmax()),
        "logsumexp": lambda x: x.logsumexp(1),
        "logsumexp_two": lambda x: x.logsumexp((0, 2), keepdim=True),
        "cumsum": lambda x: x.cumsum(1),
        "cumsum_last": lambda x: x.cumsum(-1),
        "any_all": lambda x: ((x > 0).any(1), (x > -1).all(), (x > 2).any(), (x > 0).all(0, keepdim=True)),
        "median_free_topk": lambda x: tuple(x.topk(2, dim=1)),
        "sort": lambda x: tuple(x.sort(dim=2, descending=True)),
        "aminmax": lambda x: tuple(torch.aminmax(x, dim=1)),
        "normalize": lambda x: F.normalize(x, dim=1),
        "count_nonzero": lambda x: torch.count_nonzero(x > 0, dim=1),
        "nanmean_free_mean_int": lambda x: (x > 0).float().mean(0),
        "trace": lambda x: x[0].trace(),
    },
    spread(3, 4, 5),
)
case("reductions", "prod", lambda x: x.prod(), positive(2, 5))
case("reductions", "prod_dim", lambda x: x.prod(1), positive(3, 4, 2))
case("reductions", "cumprod", lambda x: x.cumprod(1), positive(3, 4))
case("reductions", "diff", lambda x: x.diff(dim=1), (3, 4))
case("reductions", "dist", lambda x, y: torch.dist(x, y), (3, 4), (3, 4))
case("reductions", "cosine_similarity", lambda x, y: F.cosine_similarity(x, y, dim=1), (3, 4, 2), (3, 4, 2))
case("reductions", "pairwise_distance", lambda x, y: F.pairwise_distance(x, y), (3, 4), (3, 4))
case("reductions", "median", lambda x: x.median(1).values * x.median(), (5, 6))
case("reductions", "median_keepdim", lambda x: torch.median(x, -1, keepdim=True)[0] * x, (3, 4, 7))
case("reductions", "vdot", lambda x, y: torch.vdot(x, y) * x, (7,), (7,))
case("reductions", "cdist", lambda x, y: torch.cdist(x, y), (3, 4), (5, 4))
for name, p in {"0": 0, "1": 1, "1.5": 1.5, "inf": math.inf}.items():
    case("reductions", f"cdist_{name.replace('.', '_')}", lambda x, y, p=p: torch.cdist(x, y, p), (3, 4), (5, 4))
    case("reductions", f"p_norm_{name.replace('.', '_')}", lambda x, p=p: torch.norm(x, p) * x.norm(p, 1), (3, 4))
case("reductions", "p_norm_minus_1", lambda x: torch.norm(x, -1) * x.norm(-1, 1), positive(3, 4))
case("reductions", "p_norm_minus_inf", lambda x: torch.norm(x, -math.inf) * x.norm(-math.inf, 1), (3, 4))
case(
    "reductions",
    "of_a_number",
    lambda x: (
        x.logsumexp(0),
        x.median(0)[0],
        x.softmax(0) * x.amax(0),
        x.norm(3, 0),
        (x.any(0) * 2 + x.bool().sum(0)) * x,
    ),
    torch.tensor(-0.7),
)
case("reductions", "pdist", lambda x: F.pdist(x, 3.0) + torch.pdist(x), (4, 5))
case("reductions", "long_sum", lambda x: (x.sum(), x.square().mean(1)), (3, 700))
case("reductions", "long_sum_prime", lambda x: (x.sum(), x.square().mean(1), x.var(1), x.amax()), (3, 701))
case("reductions", "scaled_scores", lambda x, s: (x * s.clamp(max=4.6).exp()).softmax(-1), (2, 23, 29), (2, 1, 1))

# ---- products

case("products", "matmul", torch.matmul, (3, 4), (4, 5))
case("products", "matmul_batch", torch.matmul, (2, 3, 4), (2, 4, 5))
case("products", "matmul_broadcast", torch.matmul, (2, 1, 3, 4), (3, 4, 5))
case("products", "matmul_vector", lambda x, v: (x @ v, v @ x.transpose(-1, -2)), (2, 3, 4), (4,))
case("products", "matmul_shared", torch.matmul, (2, 3, 4), (4, 5))
case("products", "mv_dot", lambda x, v: (torch.mv(x, v), v.dot(v)), (3, 4), (4,))
case("products", "bmm", torch.bmm, (2, 3, 4), (2, 4, 5))
case("products", "baddbmm", lambda i, x, y: torch.baddbmm(i, x, y, beta=0.5, alpha=2), (3, 5), (2, 3, 4), (2, 4, 5))
case("products", "addmm", lambda i, x, y: torch.addmm(i, x, y, beta=0.5, alpha=2), (5,), (3, 4), (4, 5))
case("products", "outer", torch.outer, (3,), (4,))
case("products", "einsum_attention", lambda q, k: torch.einsum("bhid,bhjd->bhij", q, k), (2, 2, 3, 4), (2, 2, 5, 4))
case("products", "einsum_mix", lambda x, y: torch.einsum("bij,jk->bki", x, y), (2, 3, 4), (4, 5))
case("products", "einsum_bilinear", lambda x, w, y: torch.einsum("bi,oij,bj->bo", x, w, y), (2, 3), (4, 3, 5), (2, 5))
case("products", "einsum_sum", lambda x: torch.einsum("ijk->j", x), (2, 3, 4))
case("products", "einsum_diagonal", lambda x: torch.einsum("ii->i", x), (4, 4))
case("products", "tensordot", lambda x, y: torch.tensordot(x, y, dims=([1, 2], [0, 1])), (2, 3, 4), (3, 4, 5))
case("products", "kron", torch.kron, (2, 3), (3, 2))
case("products", "inner", torch.inner, (2, 3), (4, 3))
case("products", "transposed", lambda x, y: x.t() @ y.t(), (4, 3), (5, 4))
module("products", "linear_vector", nn.Linear(4, 3), (4,))
module("products", "linear_3d", nn.Linear(4, 3), (2, 5, 4))
module("products", "linear_4d_no_bias", nn.Linear(4, 3, bias=False), (2, 2, 3, 4))
module("products", "linear_sequence", nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 2)), (3, 5))
module("products", "bilinear", nn.Bilinear(3, 4, 2), (5, 3), (5, 4))
case("products", "linear_function", F.linear, (2, 3, 4), (5, 4), (5,))
case("products", "matrix_power", lambda x: torch.linalg.matrix_power(x, 3), (3, 3))
case("products", "chain", lambda x, y, z: torch.linalg.multi_dot([x, y, z]), (2, 3), (3, 4), (4, 2))
case("products", "cross", lambda x, y: torch.linalg.cross(x, y), (4, 3), (4, 3))

# ---- convolutions

module("convolutions", "conv2d", nn.Conv2d(2, 3, 3), (2, 2, 5, 7))
module("convolutions", "conv2d_stride_pad", nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 2)), (2, 2, 6, 5))
module("convolutions", "conv2d_dilation", nn.Conv2d(2, 3, 3, dilation=(2, 1), padding=1, bias=False), (1, 2, 7, 6))
module("convolutions", "conv2d_groups", nn.Conv2d(4, 6, 3, groups=2, padding=1), (2, 4, 5, 4))
module("convolutions", "conv2d_depthwise", nn.Conv2d(3, 6, 3, groups=3, stride=2, padding=1), (2, 3, 7, 6))
module("convolutions", "conv2d_same", nn.Conv2d(2, 3, (3, 4), padding="same", dilation=(1, 2)), (1, 2, 6, 7))
module("convolutions", "conv2d_valid", nn.Conv2d(2, 3, 2, padding="valid"), (1, 2, 4, 5))
module("convolutions", "conv2d_1x1", nn.Conv2d(3, 5, 1), (2, 3, 4, 3))
module("convolutions", "conv2d_unbatched", nn.Conv2d(2, 3, 3, padding=1), (2, 5, 4))
for mode in ("reflect", "replicate", "circular"):
    module("convolutions", f"conv2d_{mode}", nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode=mode), (2, 2, 5, 4))
    module("convolutions", f"conv1d_{mode}", nn.Conv1d(2, 3, 3, padding=2, padding_mode=mode), (2, 2, 6))
module("convolutions", "conv1d", nn.Conv1d(3, 4, 3), (2, 3, 9))
module("convolutions", "conv1d_full", nn.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2), (2, 4, 9))
module("convolutions", "conv1d_same", nn.Conv1d(2, 3, 4, padding="same"), (2, 2, 7))
module("convolutions", "conv1d_unbatched", nn.Conv1d(2, 3, 3), (2, 7))
module("convolutions", "transpose2d", nn.ConvTranspose2d(3, 2, 3), (2, 3, 4, 3))
module(
    "convolutions",
    "transpose2d_full",
    nn.ConvTranspose2d(4, 6, (3, 2), stride=(2, 3), padding=1, output_padding=(1, 0), groups=2, dilation=(1, 2)),
    (2, 4, 4, 3),
)
module("convolutions", "transpose2d_no_bias", nn.ConvTranspose2d(3, 2, 2, stride=2, bias=False), (1, 3, 3, 4))
module("convolutions", "transpose2d_depthwise", nn.ConvTranspose2d(3, 3, 3, stride=2, groups=3), (1, 3, 3, 4))
module("convolutions", "transpose1d", nn.ConvTranspose1d(3, 2, 3), (2, 3, 5))
module(
    "convolutions",
    "transpose1d_full",
    nn.ConvTranspose1d(4, 2, 4, stride=3, padding=1, output_padding=2, groups=2),
    (2, 4, 5),
)
module("convolutions", "separable", nn.Sequential(nn.Conv2d(2, 2, 3, groups=2), nn.Conv2d(2, 4, 1)), (1, 2, 5, 5))

# ---- normalisations

module("norms", "layer", nn.LayerNorm(6), (2, 3, 6))
module("norms", "layer_two", nn.LayerNorm((3, 4)), (2, 3, 4))
module("norms", "layer_plain", nn.LayerNorm(6, elementwise_affine=False), (3, 6))
module("norms", "layer_no_bias", nn.LayerNorm(6, bias=False), (3, 6))
module("norms", "rms", nn.RMSNorm(6), (2, 3, 6))
module("norms", "rms_eps_two", nn.RMSNorm((3, 4), eps=1e-3), (2, 3, 4))
module("norms", "rms_plain", nn.RMSNorm(6, elementwise_affine=False), (3, 6))
module("norms", "group", nn.GroupNorm(2, 4), (2, 4, 3, 2))
module("norms", "group_1d", nn.GroupNorm(3, 6), (2, 6, 5))
module("norms", "group_flat", nn.GroupNorm(2, 6), (3, 6))
module("norms", "group_plain", nn.GroupNorm(2, 4, affine=False), (2, 4, 3))
module("norms", "instance2d", nn.InstanceNorm2d(3), (2, 3, 4, 3))
module("norms", "instance2d_affine", nn.InstanceNorm2d(3, affine=True), (2, 3, 4, 3))
module("norms", "instance1d_affine", nn.InstanceNorm1d(3, affine=True), (2, 3, 7))
module("norms", "instance2d_tracked", nn.InstanceNorm2d(3, affine=True, track_running_stats=True), (2, 3, 4, 3))
module("norms", "instance1d_eval", nn.InstanceNorm1d(3, affine=True, track_running_stats=True).eval(), (2, 3, 7))
module("norms", "batch1d", nn.BatchNorm1d(5), (6, 5))
module("norms", "batch1d_signal", nn.BatchNorm1d(3), (2, 3, 5))
module("norms", "batch1d_eval", nn.BatchNorm1d(5).eval(), (4, 5))
module("norms", "batch2d", nn.BatchNorm2d(3, eps=1e-3, momentum=0.3), (2, 3, 4, 3))
module("norms", "batch2d_eval", nn.BatchNorm2d(3).eval(), (2, 3, 4, 3))
module("norms", "batch2d_plain", nn.BatchNorm2d(3, affine=False), (2, 3, 4, 3))
module("norms", "batch2d_no_stats", nn.BatchNorm2d(3, track_running_stats=False), (2, 3, 4, 3))
case(
    "norms",
    "batch_no_stats_function",
    lambda x, w: (
        F.batch_norm(x, None, None, w, training=True) + torch.batch_norm(x, w, None, None, None, True, 0.1, 1e-5, False)
    ),
    (2, 3, 4, 3),
    (3,),
)
module("norms", "batch2d_cumulative", nn.BatchNorm2d(3, momentum=None).eval(), (2, 3, 4, 3))
for sampling in ("bilinear", "nearest"):
    for edges in ("zeros", "border"):
        for corners in (False, True):
            case(
                "sampling",
                f"{sampling}_{edges}_{corners}",
                lambda x, g, s=sampling, e=edges, c=corners: F.grid_sample(x, g, s, e, c),
                (2, 3, 5, 4),
                (fixed if sampling == "nearest" else torch.Tensor.clone)(uniform((2, 3, 6, 2), -1.4, 1.4)),
            )
for corners in (False, True):
    case("sampling", f"affine_{corners}", lambda t, c=corners: F.affine_grid(t, (2, 3, 4, 5), c), (2, 2, 3))
module("norms", "local_response", nn.LocalResponseNorm(3, alpha=0.1, k=1.2), (2, 5, 3, 2))
module("norms", "local_response_1d", nn.LocalResponseNorm(2, alpha=0.3), (2, 5, 4))
for dim in (0, 1, -1):
    case("norms", f"softmax_dim{dim % 3}", lambda x, d=dim: F.softmax(x, d), (3, 4, 5))
    case("norms", f"log_softmax_dim{dim % 3}", lambda x, d=dim: F.log_softmax(x, d), (3, 4, 5))
case("norms", "softmin", lambda x: F.softmin(x, 1), (3, 4))
module("norms", "softmax2d", nn.Softmax2d(), (2, 3, 2, 2))
case(
    "norms",
    "softmax_masked",
    lambda x, m: F.softmax(x.masked_fill(m, float("-inf")), -1),
    (3, 4),
    fixed(torch.tensor([[False, True, False, False], [True, False, True, False], [False] * 4])),
)
module("norms", "weight_norm", parametrizations.weight_norm(nn.Linear(4, 3)), (2, 4))
module("norms", "weight_norm_conv", parametrizations.weight_norm(nn.Conv1d(2, 3, 3)), (2, 2, 5))
case("norms", "renorm", lambda x: torch.renorm(x, 2, 1, 1.5) * x.renorm(3.0, 0, 0.5), (3, 4, 2))
case("norms", "max_norm", lambda x, t: F.embedding(t, x, max_norm=1.2, norm_type=1.0), (7, 3), integers((2, 5), 7))
case("norms", "spectral_norm", parametrizations.spectral_norm(nn.Conv1d(2, 3, 3), n_power_iterations=2), (2, 2, 5))
case("norms", "spectral_norm_old", nn.utils.spectral_norm(nn.Linear(4, 3)), (2, 4))
case("norms", "orthogonal", parametrizations.orthogonal(nn.Linear(5, 3)), (2, 5))
module("norms", "weight_norm_whole", parametrizations.weight_norm(nn.Linear(4, 3), dim=None), (2, 4))

# ---- pools

module("pools", "max2d", nn.MaxPool2d(2), spread(2, 3, 4, 6))
module("pools", "max2d_full", nn.MaxPool2d((3, 2), stride=(2, 1), padding=1, dilation=(1, 2)), spread(2, 2, 6, 5))
module("pools", "max2d_ceil", nn.MaxPool2d(3, stride=2, ceil_mode=True), spread(1, 2, 6, 8))
module("pools", "max1d", nn.MaxPool1d(3, stride=2, padding=1), spread(2, 3, 8))
module("pools", "max1d_ceil", nn.MaxPool1d(2, ceil_mode=True), spread(2, 3, 7))
module("pools", "avg2d", nn.AvgPool2d(2), (2, 3, 4, 6))
module("pools", "avg2d_full", nn.AvgPool2d((3, 2), stride=(2, 1), padding=1), (2, 2, 6, 5))
module("pools", "avg2d_exclude", nn.AvgPool2d(3, 2, padding=1, ceil_mode=True, count_include_pad=False), (1, 2, 6, 5))
module("pools", "avg2d_ceil", nn.AvgPool2d(3, 2, padding=1, ceil_mode=True), (1, 2, 6, 5))
module("pools", "avg2d_divisor", nn.AvgPool2d(2, divisor_override=3), (1, 2, 4, 4))
module("pools", "avg1d", nn.AvgPool1d(3, stride=2, padding=1), (2, 3, 8))
module("pools", "avg1d_ceil", nn.AvgPool1d(3, 2, ceil_mode=True, count_include_pad=False), (2, 3, 8))
module("pools", "adaptive_avg2d", nn.AdaptiveAvgPool2d((2, 3)), (2, 3, 5, 7))
module("pools", "adaptive_avg2d_one", nn.AdaptiveAvgPool2d(1), (2, 3, 5, 4))
module("pools", "adaptive_avg2d_none", nn.AdaptiveAvgPool2d((None, 2)), (2, 3, 5, 4))
module("pools", "adaptive_avg1d", nn.AdaptiveAvgPool1d(3), (2, 3, 7))
module("pools", "adaptive_max2d", nn.AdaptiveMaxPool2d((2, 3)), spread(2, 3, 5, 7))
module("pools", "adaptive_max1d", nn.AdaptiveMaxPool1d(3), spread(2, 3, 7))
module("pools", "lp2d", nn.LPPool2d(2, 3, stride=2), positive(2, 2, 5, 5))
module("pools", "lp1d", nn.LPPool1d(3, 2), positive(2, 2, 6))
module("pools", "max_unpool", nn.MaxPool2d(2, stride=2), spread(2, 4, 4))
case("pools", "max_indices", lambda x: F.max_pool2d(x, 2, return_indices=True)[0], spread(1, 2, 4, 4))
case("pools", "global_mean", lambda x: x.mean((2, 3)).flatten(1), (2, 3, 4, 3))

# ---- embeddings and images

tokens = fixed(torch.tensor([[1, 4, 1, 0, 2], [4, 4, 3, 1, 0]]))
module("embeddings", "embedding", nn.Embedding(6, 3), tokens)
module("embeddings", "embedding_padding", nn.Embedding(6, 3, padding_idx=1), tokens)
module("embeddings", "embedding_negative_padding", nn.Embedding(6, 3, padding_idx=-2), tokens)
module("embeddings", "embedding_vector", nn.Embedding(6, 4), fixed(torch.tensor([3, 3, 5])))
module("embeddings", "embedding_scalar", nn.Embedding(6, 4), fixed(torch.tensor(3)))
module("embeddings", "embedding_max", nn.Sequential(nn.Embedding(6, 4), nn.Linear(4, 3)), tokens)
case("embeddings", "embedding_tied", lambda w, i: F.embedding(i, w) @ w.t(), (6, 3), tokens)
case("embeddings", "embedding_by_freq", lambda w, i: F.embedding(i, w, scale_grad_by_freq=True), (6, 3), tokens)
for mode in ("sum", "mean", "max"):
    module("embeddings", f"bag_{mode}", nn.EmbeddingBag(6, 3, mode=mode), tokens)
case("embeddings", "one_hot", lambda w, i: F.one_hot(i, 6).float() @ w, (6, 3), tokens)

case("images", "nearest", lambda x: F.interpolate(x, scale_factor=2), (2, 2, 3, 4))
case("images", "nearest_size", lambda x: F.interpolate(x, size=(5, 3)), (1, 2, 3, 4))
case("images", "nearest_1d", lambda x: F.interpolate(x, scale_factor=3), (2, 2, 4))
case("images", "bilinear", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (2, 2, 3, 4))
case("images", "bilinear_size", lambda x: F.interpolate(x, size=(5, 3), mode="bilinear"), (1, 2, 3, 4))
case(
    "images",
    "bilinear_corners",
    lambda x: F.interpolate(x, size=(5, 7), mode="bilinear", align_corners=True),
    (1, 2, 3, 4),
)
case("images", "linear_1d", lambda x: F.interpolate(x, scale_factor=2, mode="linear"), (2, 2, 4))
case("images", "linear_1d_corners", lambda x: F.interpolate(x, size=7, mode="linear", align_corners=True), (2, 2, 4))
case("images", "bicubic", lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), (1, 2, 4, 3))
case("images", "nearest_exact", lambda x: F.interpolate(x, size=(5, 3), mode="nearest-exact"), (1, 2, 3, 4))
case("images", "area", lambda x: F.interpolate(x, size=(2, 3), mode="area"), (1, 2, 5, 4))
module("images", "upsample", nn.Upsample(scale_factor=(2, 3), mode="bilinear", align_corners=True), (1, 2, 3, 2))
module("images", "upsampling_nearest", nn.UpsamplingNearest2d(scale_factor=2), (1, 2, 3, 2))
module("images", "pixel_shuffle", nn.PixelShuffle(2), (2, 8, 3, 2))
module("images", "pixel_unshuffle", nn.PixelUnshuffle(2), (2, 2, 4, 6))
module("images", "channel_shuffle", nn.ChannelShuffle(2), (2, 6, 2, 3))
module("images", "unfold", nn.Unfold((2, 3), dilation=(1, 2), padding=1, stride=2), (2, 2, 4, 6))
module("images", "fold", nn.Fold((4, 5), (2, 2)), (2, 8, 12))
case("images", "pad_constant", lambda x: F.pad(x, (1, 2, -1, 1), value=0.7), (2, 2, 3, 4))
case("images", "pad_last", lambda x: F.pad(x, (2, 0)), (3, 4))
for mode in ("reflect", "replicate", "circular"):
    case("images", f"pad_{mode}_2d", lambda x, m=mode: F.pad(x, (2, 1, 1, 2), mode=m), (2, 2, 4, 5))
    case("images", f"pad_{mode}_1d", lambda x, m=mode: F.pad(x, (3, 1), mode=m), (2, 2, 5))
module("images", "zero_pad", nn.ZeroPad2d((1, 0, 2, 1)), (1, 2, 3, 3))
case("images", "crop", lambda x: x[:, :, 1:-1, 1:-1] + F.pad(x, (-1, -1, -1, -1)), (1, 2, 4, 5))

# ---- rearranging

cases(
    "movement",
    {
        "cat": lambda x: torch.cat([x, x * 2, x[:, :1]], 1),
        "stack": lambda x: torch.stack([x, x.exp(), x], -1),
        "split": lambda x: tuple(v * (i + 1) for i, v in enumerate(x.split(2, 1))),
        "split_sizes": lambda x: x.split([1, 3], 1)[1] * 2,
        "chunk": lambda x: x.chunk(3, dim=2)[0] * x.chunk(3, dim=2)[1],
        "unbind": lambda x: x.unbind(1)[0] * x.unbind(1)[2],
        "slice": lambda x: x[:, 1:4:2] * 1.5,
        "slices_overlap": lambda x: x[:, 1:] + x[:, :-1],
        "negative": lambda x: x[-1, :, -3:],
        "select": lambda x: x[:, 2].sin(),
        "ellipsis": lambda x: x[..., None, 0],
        "index_list": lambda x: x[:, [2, 0, 2]],
        "index_pair": lambda x: x[[0, 1, 0], [3, 1, 3]],
        "index_separate": lambda x: x[[0, 1, 0], :, [3, 1, 3]],
        "transpose": lambda x: x.transpose(1, 2) * 2,
        "permute": lambda x: x.permute(2, 0, 1).cos(),
        "permute_view": lambda x: x.permute(2, 0, 1).reshape(6, -1),
        "movedim": lambda x: x.movedim(0, -1) + 1,
        "flatten": lambda x: x.flatten(1).tanh(),
        "unflatten": lambda x: x.unflatten(2, (3, 2)).sum(3),
        "squeeze": lambda x: x[:1].squeeze(0).unsqueeze(1).mul(2),
        "expand": lambda x: x[:, :1].expand(-1, 3, -1) * 2,
        "repeat": lambda x: x.repeat(2, 1, 3),
        "repeat_interleave": lambda x: x.repeat_interleave(2, dim=1),
        "tile": lambda x: x.tile((2, 2)),
        "roll": lambda x: x.roll((1, -2), (1, 2)),
        "roll_flat": lambda x: x.roll(3),
        "flip": lambda x: x.flip(0, 2) * x,
        "rot90": lambda x: x.rot90(1, (1, 2)),
        "triu": lambda x: x.triu(1) + x.tril(-1),
        "diagonal": lambda x: x.diagonal(1, 1, 2),
        "diag_embed": lambda x: torch.diag_embed(x[:, 0]),
        "unfold": lambda x: x.unfold(2, 3, 2),
        "unfold_overlap": lambda x: x.unfold(1, 2, 1).sum(-1),
        "narrow": lambda x: x.narrow(1, 1, 2),
        "swap_add": lambda x: x[:, :, :4].transpose(1, 2) + x[:, :, 2:],
        "view_as_real_free_view": lambda x: x.view(2, -1)[1] * 2,
        "clone_inplace": lambda x: x.clone().mul_(2).add_(1),
        "slice_assign": lambda x: assigned(x),
        "broadcast_to": lambda x: torch.broadcast_to(x[:1], (3, 4, 6)),
        "meshgrid": lambda x: torch.meshgrid(x[0, 0], x[0, :, 0], indexing="ij")[0] * 1.5,
        "as_strided_free_window": lambda x: x.reshape(-1)[3:15].reshape(3, 4),
        "hstack": lambda x: torch.hstack([x, x]) + torch.vstack([x, x]).sum(),
        "detach": lambda x: x * x.detach(),
        "dropped_output": lambda x: x.split(3, dim=2)[1],
    },
    (2, 4, 6),
)


def assigned(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y[:, 1] = x[:, 0]
    y[0, 2:, 1] += 1
    return y


rows = fixed(torch.tensor([2, 0, 2, 1]))
places = fixed(torch.tensor([[0, 2, 1, 2, 0], [3, 3, 0, 1, 2]]))
case("indices", "index_select", lambda x, i: x.index_select(1, i), (2, 4, 3), rows)
case("indices", "index_rows", lambda x, i: x[i], (4, 3), rows)
case("indices", "index_middle", lambda x, i: x[:, i], (2, 4, 3), rows)
case("indices", "index_2d", lambda x, i: x[i], (4, 3), places)
case("indices", "index_two", lambda x, i, j: x[i, j], (3, 4, 2), rows, fixed(torch.tensor([3, 1, 3, 0])))
case("indices", "index_gap", lambda x, i, j: x[i, :, j], (3, 2, 4), rows, fixed(torch.tensor([3, 1, 3, 0])))
case("indices", "index_broadcast", lambda x, i: x[torch.arange(2)[:, None], i], (2, 4, 3), places)
case("indices", "index_negative", lambda x, i: x[i - 3], (4, 3), rows)
case("indices", "gather", lambda x, i: x.gather(1, i), (2, 4), places)
case("indices", "gather_first", lambda x, i: x.gather(0, i), (4, 6), places)
case("indices", "gather_3d", lambda x, i: x.gather(1, i[:, :, None].expand(-1, -1, 3)), (2, 4, 3), places)
case("indices", "take_along", lambda x, i: torch.take_along_dim(x, i, 1), (2, 4), places)
case("indices", "take", lambda x, i: x.take(i), (2, 4), places)
case("indices", "scatter_add", lambda x, y, i: x.scatter_add(1, i, y), (2, 4), (2, 5), places)
case(
    "indices",
    "scatter",
    lambda x, y, i: x.scatter(1, i, y),
    (2, 4),
    (2, 3),
    fixed(torch.tensor([[0, 3, 1], [2, 1, 0]])),
)
case("indices", "scatter_value", lambda x, i: x.scatter(1, i, 0.5), (2, 4), places)
case("indices", "scatter_reduce", lambda x, y, i: x.scatter_reduce(1, i, y, "sum"), (2, 4), (2, 5), places)
case("indices", "index_add", lambda x, y, i: x.index_add(0, i, y), (4, 3), (4, 3), rows)
case("indices", "index_copy", lambda x, y, i: x.index_copy(0, i, y), (4, 3), (3, 3), fixed(torch.tensor([2, 0, 3])))
case("indices", "index_fill", lambda x, i: x.index_fill(1, i, 0.5), (2, 4, 3), rows)
case("indices", "index_put", lambda x, y, i: x.index_put((i,), y), (4, 3), (3, 3), fixed(torch.tensor([2, 0, 3])))
case("indices", "index_put_add", lambda x, y, i: x.index_put((i,), y, accumulate=True), (4, 3), (4, 3), rows)
case("indices", "mask_multiply", lambda x, m: x * m, (3, 4), mask(3, 4))
case("indices", "masked_scatter_free", lambda x, m: torch.where(m, x, x * 0.1), (3, 4), mask(3, 4))
case("indices", "arange_positions", lambda x: x + torch.arange(4) * 0.5, (3, 4))
case("indices", "positions", lambda w, x: x + w[torch.arange(3)], (5, 4), (2, 3, 4))
case("indices", "linspace", lambda x: x * torch.linspace(0, 1, 4), (3, 4))
case("indices", "eye_ones", lambda x: x @ torch.eye(4) + torch.ones(4) + torch.zeros(3, 1), (3, 4))
case("indices", "tensor_literal", lambda x: x * torch.tensor([1.0, 2.0, 3.0, 4.0]), (3, 4))
case("indices", "full_like", lambda x: x * torch.full_like(x, 2.5) + x.new_ones(4), (3, 4))
case("indices", "bucketize_free_compare", lambda x: (x[:, None] > torch.arange(3.0)).sum(-1) * x.abs(), (5,))
case("indices", "tril_mask", lambda x: x.masked_fill(torch.triu(torch.ones(4, 4, dtype=torch.bool), 1), 0.0), (4, 4))

# ---- attention

qkv = ((2, 2, 5, 4), (2, 2, 5, 4), (2, 2, 5, 4))
attend = F.scaled_dot_product_attention
case("attention", "plain", attend, *qkv)
case("attention", "causal", lambda q, k, v: attend(q, k, v, is_causal=True), *qkv)
case("attention", "scale", lambda q, k, v: attend(q, k, v, scale=0.3), *qkv)
case(
    "attention",
    "mask",
    lambda q, k, v, m: attend(q, k, v, attn_mask=m),
    *qkv,
    fixed(torch.tril(torch.ones(5, 5)).bool()),
)
case("attention", "float_mask", lambda q, k, v, m: attend(q, k, v, attn_mask=m), *qkv, (5, 5))
case(
    "attention",
    "batch_mask",
    lambda q, k, v, m: attend(q, k, v, attn_mask=m),
    *qkv,
    fixed(torch.tensor([[True] * 5, [True, True, True, False, False]])[:, None, None, :]),
)
case("attention", "cross", attend, (2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 6))
case("attention", "three_dims", attend, (2, 3, 4), (2, 5, 4), (2, 5, 4))
case("attention", "grouped", lambda q, k, v: attend(q, k, v, enable_gqa=True), (1, 4, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4))


class Attention(nn.Module):
    def __init__(self, self_attention: bool = True, need_weights: bool = False, call: Any = None, **how: Any) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, **how)
        self.self_attention = self_attention
        self.need_weights = need_weights
        self.settings = call or {}

    def forward(self, x: torch.Tensor, *others: torch.Tensor) -> Any:
        names = ("attn_mask", "key_padding_mask")
        masks = dict(zip(names, others, strict=False))
        if "pad" in self.settings:
            masks = {"key_padding_mask": others[0]}
        k = v = x
        if not self.self_attention:
            k = v = others[0]
            masks = {}
        rest = {n: v for n, v in self.settings.items() if n != "pad"}
        out, weights = self.inner(x, k, v, need_weights=self.need_weights, **masks, **rest)
        return (out, weights) if self.need_weights else out


causal = torch.triu(torch.ones(5, 5), 1).bool()
padding = fixed(torch.tensor([[False] * 5, [False, False, False, True, True]]))
module("attention", "multihead", Attention(batch_first=True), (2, 5, 8))
module("attention", "multihead_weights", Attention(need_weights=True, batch_first=True), (2, 5, 8))
module(
    "attention",
    "multihead_each_head",
    Attention(need_weights=True, call={"average_attn_weights": False}, batch_first=True),
    (2, 5, 8),
)
module("attention", "multihead_mask", Attention(batch_first=True), (2, 5, 8), fixed(causal))
module("attention", "multihead_mask_weights", Attention(need_weights=True, batch_first=True), (2, 5, 8), fixed(causal))
module("attention", "multihead_float_mask", Attention(), (5, 2, 8), fixed(causal.float() * -3))
module("attention", "multihead_causal", Attention(call={"is_causal": True}, batch_first=True), (2, 5, 8), fixed(causal))
module("attention", "multihead_padding", Attention(call={"pad": True}, batch_first=True), (2, 5, 8), padding)
module("attention", "multihead_cross", Attention(False, batch_first=True, kdim=6, vdim=6), (2, 3, 8), (2, 5, 6))
module("attention", "multihead_no_bias", Attention(bias=False), (5, 2, 8))
module(
    "attention",
    "encoder_layer",
    nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True, norm_first=True),
    (2, 5, 8),
)
module(
    "attention",
    "encoder_layer_gelu",
    nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, activation="gelu", batch_first=True),
    (2, 5, 8),
)
module(
    "attention",
    "decoder_layer",
    nn.TransformerDecoderLayer(8, 2, 12, dropout=0.0, batch_first=True),
    (2, 3, 8),
    (2, 5, 8),
)
case(
    "attention",
    "decoder_masked",
    nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 12, dropout=0.0, batch_first=True), 1),
    (2, 5, 8),
    (2, 4, 8),
    fixed(nn.Transformer.generate_square_subsequent_mask(5)),
)

# ---- losses

labels = fixed(torch.tensor([3, 0, 2, 2, 1]))
ignoring = fixed(torch.tensor([3, -100, 2, 2, 1]))
weights = fixed(torch.tensor([0.5, 1.5, 0.7, 2.0]))
for how in ("mean", "sum", "none"):
    case("cross_entropy", f"plain_{how}", lambda x, y, h=how: F.cross_entropy(x, y, reduction=h), (5, 4), labels)
    case(
        "cross_entropy",
        f"weighted_{how}",
        lambda x, y, w, h=how: F.cross_entropy(x, y, w, reduction=h),
        (5, 4),
        labels,
        weights,
    )
    case(
        "cross_entropy",
        f"smoothed_{how}",
        lambda x, y, h=how: F.cross_entropy(x, y, label_smoothing=0.2, reduction=h),
        (5, 4),
        labels,
    )
    case(
        "cross_entropy",
        f"soft_{how}",
        lambda x, y, h=how: F.cross_entropy(x, y.softmax(1), reduction=h),
        (5, 4),
        (5, 4),
    )
    case("cross_entropy", f"ignored_{how}", lambda x, y, h=how: F.cross_entropy(x, y, reduction=h), (5, 4), ignoring)
    case(
        "cross_entropy",
        f"nll_{how}",
        lambda x, y, w, h=how: F.nll_loss(x.log_softmax(1), y, w, reduction=h),
        (5, 4),
        labels,
        weights,
    )
case(
    "cross_entropy",
    "everything",
    lambda x, y, w: F.cross_entropy(x, y, w, label_smoothing=0.1),
    (5, 4),
    ignoring,
    weights,
)
case("cross_entropy", "ignore_index", lambda x, y: F.cross_entropy(x, y, ignore_index=2), (5, 4), labels)
case(
    "cross_entropy",
    "soft_weighted_smoothed",
    lambda x, y, w: F.cross_entropy(x, y.softmax(1), w, label_smoothing=0.1),
    (5, 4),
    (5, 4),
    weights,
)
case("cross_entropy", "single", lambda x, y: F.cross_entropy(x, y), (4,), fixed(torch.tensor(2)))
pixels = integers((2, 3, 2), 4)
case("cross_entropy", "segmentation", lambda x, y, w: F.cross_entropy(x, y, w), (2, 4, 3, 2), pixels, weights)
case(
    "cross_entropy",
    "segmentation_smoothed",
    lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1, ignore_index=1),
    (2, 4, 3, 2),
    pixels,
)
case("cross_entropy", "segmentation_none", lambda x, y: F.cross_entropy(x, y, reduction="none"), (2, 4, 3, 2), pixels)
case("cross_entropy", "sequence", lambda x, y: F.cross_entropy(x, y), (2, 4, 5), integers((2, 5), 4))
case(
    "cross_entropy",
    "flattened",
    lambda x, y: F.cross_entropy(x.flatten(0, 1), y.flatten()),
    (2, 5, 4),
    integers((2, 5), 4),
)

pairs: tuple[Any, Any] = (spread(3, 4), fixed(spread(3, 4)))
for how in ("mean", "sum", "none"):
    for name, loss in {
        "mse": F.mse_loss,
        "l1": F.l1_loss,
        "smooth_l1": F.smooth_l1_loss,
        "huber": F.huber_loss,
        "poisson": F.poisson_nll_loss,
        "soft_margin": F.soft_margin_loss,
    }.items():
        case("losses", f"{name}_{how}", lambda x, y, f=loss, h=how: f(x, y, reduction=h), *pairs)
for how in ("batchmean", "sum", "none", "mean"):
    case(
        "losses", f"kl_{how}", lambda x, y, h=how: F.kl_div(x.log_softmax(1), y.softmax(1), reduction=h), (3, 4), (3, 4)
    )
case(
    "losses",
    "kl_log_target",
    lambda x, y: F.kl_div(x.log_softmax(1), y.log_softmax(1), reduction="sum", log_target=True),
    (3, 4),
    (3, 4),
)
for how in ("mean", "sum", "none"):
    case(
        "losses",
        f"bce_{how}",
        lambda x, y, h=how: F.binary_cross_entropy(x.sigmoid(), y, reduction=h),
        (3, 4),
        fixed(uniform((3, 4), 0, 1)),
    )
    case(
        "losses",
        f"bce_logits_{how}",
        lambda x, y, p, h=how: F.binary_cross_entropy_with_logits(x, y, pos_weight=p, reduction=h),
        (3, 4),
        fixed(uniform((3, 4), 0, 1)),
        fixed(positive(4)),
    )
signs = fixed(torch.tensor([1.0, -1.0, -1.0]))
case(
    "losses",
    "bce_weight",
    lambda x, y, w: F.binary_cross_entropy(x.sigmoid(), y, w),
    (3, 4),
    fixed(uniform((3, 4), 0, 1)),
    fixed(positive(3, 4)),
)
case(
    "losses",
    "bce_logits_weight",
    lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, w),
    (3, 4),
    fixed(uniform((3, 4), 0, 1)),
    fixed(positive(4)),
)
case("losses", "smooth_l1_beta", lambda x, y: F.smooth_l1_loss(x, y, beta=0.6), *pairs)
case("losses", "huber_delta", lambda x, y: F.huber_loss(x, y, delta=0.6), *pairs)
case("losses", "hinge_embedding", lambda x, y: F.hinge_embedding_loss(x, y, margin=0.8), spread(3), signs)
case("losses", "cosine_embedding", lambda x, y, s: F.cosine_embedding_loss(x, y, s, margin=0.1), (3, 4), (3, 4), signs)
case("losses", "triplet", lambda x, y, z: F.triplet_margin_loss(x, y, z), (3, 4), (3, 4), (3, 4))
case("losses", "triplet_swap", lambda x, y, z: F.triplet_margin_loss(x, y, z, swap=True, p=3), (3, 4), (3, 4), (3, 4))
case("losses", "triplet_distance", lambda x, y, z: nn.TripletMarginWithDistanceLoss()(x, y, z), (3, 4), (3, 4), (3, 4))
case("losses", "margin_ranking", lambda x, y, s: F.margin_ranking_loss(x, y, s, margin=0.3), (3,), (3,), signs)
case(
    "losses",
    "poisson_full",
    lambda x, y: F.poisson_nll_loss(x, y, log_input=False, full=True),
    positive(3, 4),
    fixed(positive(3, 4)),
)
case("losses", "gaussian", lambda x, y, v: F.gaussian_nll_loss(x, y, v), (3, 4), (3, 4), positive(3, 4))
case(
    "losses",
    "gaussian_full",
    lambda x, y, v: F.gaussian_nll_loss(x, y, v, full=True, reduction="sum"),
    (3, 4),
    (3, 4),
    positive(3, 1),
)
case("losses", "multi_margin", lambda x, y: F.multi_margin_loss(x, y), (5, 4), labels)
case(
    "losses",
    "multi_margin_2",
    lambda x, y, w: F.multi_margin_loss(x, y, p=2, margin=0.7, weight=w, reduction="sum"),
    (5, 4),
    labels,
    weights,
)
case(
    "losses",
    "multilabel_soft_margin",
    lambda x, y: F.multilabel_soft_margin_loss(x, y),
    (3, 4),
    fixed(torch.tensor([[1.0, 0, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0]])),
)
case(
    "losses",
    "multilabel_margin",
    lambda x, y: F.multilabel_margin_loss(x, y),
    (2, 4),
    fixed(torch.tensor([[3, 0, -1, 1], [1, -1, 0, 0]])),
)
case("losses", "mse_both_sides", F.mse_loss, (3, 4), (3, 4))
case("losses", "l1_both_sides", F.l1_loss, (3, 4), (3, 4))
case("losses", "mse_weight", lambda x, y, w: F.mse_loss(x, y, weight=w), (3, 4), (3, 4), fixed(positive(3, 4)))

# ---- modules and ways to write them


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.LayerNorm(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(self.inner(x)) + x


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(4, 3, bias=False)
        self.decode = nn.Linear(3, 4)
        self.again = nn.Linear(4, 3)
        self.again.weight = self.encode.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.encode(x))
        return F.linear(self.again(self.decode(hidden)), self.encode.weight.t())


class Loose(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.list = nn.ParameterList([nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(3, 1))])
        self.named = nn.ParameterDict({"shift": nn.Parameter(torch.randn(3, 4))})
        self.frozen = nn.Parameter(torch.randn(4), requires_grad=False)
        self.register_buffer("table", torch.randn(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, p in enumerate(self.list):
            x = x * p + i
        return x * self.scale + self.named["shift"] + self.frozen * self.table


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 6), nn.SiLU(), nn.Linear(6, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = checkpoint(self.inner, x * 1.5, use_reentrant=False)
        return y + x


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Conv2d(3, 3, 3, padding=1) for _ in range(3)])
        self.norms = nn.ModuleDict({str(i): nn.BatchNorm2d(3) for i in range(3)})

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        for i, block in enumerate(self.blocks):
            y = F.gelu(self.norms[str(i)](block(x)))
            y += x
            x = y
        return {"features": x, "pooled": x.mean((-1, -2))}


class Squeeze(nn.Module):
    """Squeeze and excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 2, 1), nn.ReLU6(), nn.Conv2d(2, 4, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(self.gate(x))


module("modules", "twice", Twice(), (3, 4))
module("modules", "tied", Tied(), (3, 4))
module("modules", "loose", Loose(), (3, 4))
module("modules", "checkpoint", Checkpointed(), (3, 4))
case("modules", "residual", nn.Sequential(nn.Conv2d(2, 3, 1), Residual()), (2, 2, 4, 3))
module("modules", "squeeze", Squeeze(), (2, 4, 3, 5))
module("modules", "identity", nn.Sequential(nn.Identity(), nn.Flatten(), nn.Unflatten(1, (2, 6))), (3, 4, 3))
module("modules", "dropout_eval", nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5)).eval(), (2, 4))
case("modules", "no_grad", lambda x: x * torch.no_grad()(torch.exp)(x), (3, 4))
case("modules", "inplace_chain", lambda x: (x + 0).mul_(2).sub_(1).div_(3).sigmoid_(), (3, 4))
case("modules", "augmented", lambda x, y: augmented(x, y), (3, 4), (4,))
case("modules", "same_slope", lambda x, y, z: (x + y) * z, (3, 4), (3, 4), (4,))
case("modules", "same_output", lambda x: (x * 2, (x * 2).t(), x), (3, 4))
case("modules", "one_tensor_often", lambda x: (lambda y: (y, y.t(), y.view(-1), y))(x.exp()), (3, 4))
case("modules", "product_shown_twice", lambda x, y: (lambda z: (z, z.t() * 2))(x @ y), (3, 4), (4, 5))
case("modules", "unused", lambda x, y: x * 2, (3,), (4,))
case("modules", "scan", lambda x, w: scanned(x, w), (5, 2, 3), (3, 3))
case("modules", "straight_through", lambda x: x + (x.round() - x).detach(), spread(3, 4))
module("modules", "cosine_module", nn.CosineSimilarity(1), (3, 4), (3, 4))
module("modules", "distance_module", nn.PairwiseDistance(p=3), (3, 4), (3, 4))
module("modules", "channel_dropout_eval", nn.Dropout2d(0.3).eval(), (2, 3, 2, 2))


def augmented(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x.clone()
    z += y
    z *= 2
    z -= x
    z /= 3
    return z


def scanned(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    h = torch.zeros(2, 3)
    states = []
    for step in x:
        h = torch.tanh(step + h @ w)
        states.append(h)
    return torch.stack(states)


def masked(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y[x > 0.5] = 0.25
    y[:, x[0, :, 0] < 0] = x[0, 0].detach() * 3  # one row for all that the mask selects
    return y


case("indices", "mask_assign", masked, (3, 4, 6))


def by_group(most: int) -> list[tuple[str, Sequence[Case]]]:
    """The cases in portions of one project each."""
    portions: list[tuple[str, Sequence[Case]]] = []
    for group in dict.fromkeys(c.group for c in CASES):
        members = [c for c in CASES if c.group == group]
        pieces = -(-len(members) // most)
        for i in range(pieces):
            portions.append((f"{group}{i}" if pieces > 1 else group, members[i::pieces]))
    return portions


# ---- three dimensions

VOLUME = (2, 4, 5, 7, 6)
module("volumes", "Conv3d", nn.Conv3d(4, 6, (3, 2, 3), (2, 1, 2), (1, 0, 2), groups=2), VOLUME)
module("volumes", "Conv3d same", nn.Conv3d(4, 3, (2, 3, 4), padding="same", dilation=(2, 1, 1)), VOLUME)
module("volumes", "Conv3d of one sample", nn.Conv3d(4, 3, 2, bias=False), VOLUME[1:])
module(
    "volumes",
    "ConvTranspose3d",
    nn.ConvTranspose3d(4, 6, (3, 2, 3), (3, 2, 1), (1, 0, 1), (2, 1, 0), groups=2, dilation=(1, 2, 1)),
    VOLUME,
)
module("volumes", "MaxPool3d", nn.MaxPool3d((2, 3, 2), (1, 2, 2), (1, 1, 0), ceil_mode=True), spread(*VOLUME))
module("volumes", "MaxPool3d dilated", nn.MaxPool3d(2, 1, dilation=(2, 1, 3)), spread(*VOLUME))
module("volumes", "AvgPool3d", nn.AvgPool3d((2, 3, 2), (2, 3, 1), 1, ceil_mode=True), VOLUME)
module("volumes", "AvgPool3d counted", nn.AvgPool3d(3, 2, 1, ceil_mode=True, count_include_pad=False), VOLUME)
module("volumes", "AvgPool3d divided", nn.AvgPool3d(2, divisor_override=3), VOLUME)
module("volumes", "LPPool3d", nn.LPPool3d(2, 2), positive(*VOLUME))
module("volumes", "AdaptiveAvgPool3d", nn.AdaptiveAvgPool3d((3, None, 4)), VOLUME)
module("volumes", "AdaptiveMaxPool3d", nn.AdaptiveMaxPool3d((3, 2, None)), spread(*VOLUME))
module("volumes", "ReflectionPad3d", nn.ReflectionPad3d((1, 2, 3, 0, 2, 1)), VOLUME)
module("volumes", "ReplicationPad3d of one sample", nn.ReplicationPad3d((1, 0, 2, 3, 1, 2)), VOLUME[1:])
module("volumes", "trilinear", nn.Upsample(scale_factor=(1.5, 2.0, 0.7), mode="trilinear"), VOLUME)
module("volumes", "trilinear aligned", nn.Upsample((7, 3, 8), mode="trilinear", align_corners=True), VOLUME)

# ---- places of maxima

module("places", "MaxPool1d", nn.MaxPool1d(3, 2, 1, 2, True, ceil_mode=True), spread(2, 3, 11))
module("places", "MaxPool2d", nn.MaxPool2d((3, 2), (2, 1), 1, return_indices=True), spread(2, 3, 7, 5))
module("places", "MaxPool3d", nn.MaxPool3d(2, return_indices=True), spread(2, 4, 5, 3))
module("places", "AdaptiveMaxPool2d", nn.AdaptiveMaxPool2d((3, 2), return_indices=True), spread(2, 3, 7, 5))


class Unpooled(nn.Module):
    """Pooled, scaled, and put back where the maxima were."""

    def __init__(self, dims: int) -> None:
        super().__init__()
        self.pool = getattr(nn, f"MaxPool{dims}d")(2, return_indices=True)
        self.unpool = getattr(nn, f"MaxUnpool{dims}d")(2)

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> Any:
        y, places = self.pool(x)
        return self.unpool(y * w, places, output_size=x.shape)


for dims, extents in ((1, (11,)), (2, (7, 5)), (3, (5, 3, 4))):
    case("places", f"MaxUnpool{dims}d", Unpooled(dims), spread(2, 3, *extents), tuple(e // 2 for e in extents))

# ---- rare ones

case("rare", "cummax", lambda x: torch.cummax(x, 1), spread(3, 11, 2))
case("rare", "cummin", lambda x: torch.cummin(x, 0), spread(13))
case("rare", "logcumsumexp", lambda x: torch.logcumsumexp(x, -1), (3, 13))
case("rare", "masked_scatter", lambda x, m, s: x.masked_scatter(m, s), (5, 7), mask(5, 7), (37,))
case("rare", "copysign", lambda x, y: torch.copysign(x, torch.cat([y, y * 0])), (14,), spread(7))
case("rare", "round to decimals", lambda x: x * torch.round(x.detach(), decimals=2), spread(11))
case("rare", "addbmm", lambda x, a, b: torch.addbmm(x, a, b, beta=0.5, alpha=2), (3, 5), (4, 3, 2), (4, 2, 5))
case("rare", "block_diag", lambda x, y, z: torch.block_diag(x, y, z), (2, 3), (5,), ())
case("rare", "sgn", lambda x: x * torch.sgn(x) + torch.sgn(x), spread(11))
case("rare", "copies of views", lambda x: torch.permute_copy(torch.squeeze_copy(x, 1), (1, 0)), (5, 1, 3))
case(
    "rare",
    "statistics of group norm",
    lambda x, w: torch.native_group_norm(x, w, None, 2, 4, 15, 2, 1e-5),
    (2, 4, 15),
    (4,),
)
case("rare", "an output without elements", lambda x: (x, x[:0]), (5,))
case("rare", "dimensions of a number", lambda x: x.transpose(0, -1).unfold(0, 1, 1) * 2, ())

# ---- small matrices


def solid(*shape: int) -> Leaf:
    """Far from singular, and not symmetric."""
    return normal(shape) + 2.0 * math.sqrt(shape[-1]) * torch.eye(shape[-1])


SQUARE = (2, 5, 5)
cases(
    "matrices",
    {
        "inverse": torch.linalg.inv,
        "determinant": torch.linalg.det,
        "logarithm of the determinant": torch.linalg.slogdet,
        "Cholesky": lambda a: torch.linalg.cholesky(a @ a.mT),
        "Cholesky, upper": lambda a: torch.linalg.cholesky(a @ a.mT, upper=True),
        "LU": torch.linalg.lu,
        "matrix exponential": lambda a: torch.linalg.matrix_exp(a * 0.3),
        "negative power": lambda a: torch.linalg.matrix_power(a, -2),
    },
    solid(*SQUARE),
)
case("matrices", "determinant that is zero", lambda a: a + torch.linalg.det(a * torch.eye(3)[:, [0, 1, 1]].mT), (3, 3))
case("matrices", "QR of a triangle", lambda a: torch.linalg.qr(a.triu())[1], (4, 4))
case("matrices", "rows are exchanged", torch.linalg.inv, solid(7, 7).flip(0))
case("matrices", "solve", torch.linalg.solve, solid(*SQUARE), (2, 5, 3))
case("matrices", "solve for a vector", torch.linalg.solve, solid(3, 3), (3,))
case("matrices", "solve from the right", lambda a, b: torch.linalg.solve(a, b, left=False), solid(*SQUARE), (3, 5))
case(
    "matrices",
    "triangle",
    lambda a, b: torch.linalg.solve_triangular(a, b, upper=True, left=False, unitriangular=True),
    solid(*SQUARE),
    (2, 3, 5),
)
case("matrices", "QR, tall", lambda a: torch.linalg.qr(a), (2, 7, 3))
case("matrices", "QR, wide", lambda a: torch.linalg.qr(a, mode="complete"), (3, 5))
case("rare", "strides", lambda x: torch.as_strided(x, (3, 4), (2, 1), 1), (3, 5))
case("rare", "diagonal_scatter", lambda x, y: torch.diagonal_scatter(x, y, 1, 0, 2), (3, 2, 5), (2, 3))


# ---- into places, by rank

for how in ("sum", "prod", "mean", "amax", "amin"):
    for whole in (True, False):
        case(
            "into places",
            f"scatter_reduce {how} {whole}",
            lambda x, i, s, how=how, whole=whole: x.scatter_reduce(1, i, s, how, include_self=whole),
            positive(3, 5, 2),
            integers((2, 7, 2), 5),
            positive(2, 7, 2),
        )
for how in ("prod", "mean", "amax", "amin"):
    case(
        "into places",
        f"index_reduce {how}",
        lambda x, i, s, how=how: x.index_reduce(0, i, s, how, include_self=False),
        positive(5, 3),
        integers((7,), 5),
        positive(7, 3),
    )
case("by rank", "kthvalue", lambda x: torch.kthvalue(x, 3, 0, keepdim=True), spread(7, 3))
case("by rank", "nanmedian", lambda x, m: torch.nanmedian(x.masked_fill(m, math.nan), 1)[0], spread(3, 11), mask(3, 11))
case(
    "by rank", "take and put", lambda x, i, s: x.put(i, s, accumulate=True).take(i - 5), (3, 5), integers((4,), 5), (4,)
)
case("by rank", "combinations", lambda x: torch.combinations(x, 3), (5,))
case("by rank", "cov", lambda x, w: torch.cov(x, aweights=w), (3, 7), positive(7))
case("by rank", "corrcoef", torch.corrcoef, (3, 7))
module(
    "by rank",
    "EmbeddingBag",
    nn.EmbeddingBag(7, 3, mode="max", padding_idx=2),
    integers((11,), 7),
    fixed(torch.tensor([0, 4, 4, 9])),
)
module(
    "by rank",
    "mean of a bag",
    nn.EmbeddingBag(7, 3, include_last_offset=True),
    integers((11,), 7),
    fixed(torch.tensor([0, 4, 11])),
)
case("losses", "multi_margin_loss of one sample", lambda x: F.multi_margin_loss(x, torch.tensor(2)), (5,))


# ---- special functions

beyond = torch.cat([uniform((9,), 0.3, 3.0), uniform((5,), 4.0, 20.0), torch.tensor([-0.3, -1.6, -3.7])])
cases(
    "special",
    {
        "lgamma": torch.lgamma,
        "digamma": torch.digamma,
        "i0": torch.i0,
        "i0e": torch.special.i0e,
        "i1": torch.special.i1,
        "i1e": torch.special.i1e,
        "erfcx": torch.special.erfcx,
        "log_ndtr": torch.special.log_ndtr,
    },
    beyond,
)
case("special", "polygamma", lambda x: torch.polygamma(2, x), uniform((11,), 0.5, 6.0))
case("special", "mvlgamma", lambda x: torch.mvlgamma(x, 3), uniform((11,), 2.0, 9.0))
case("special", "log_ndtr below", torch.special.log_ndtr, uniform((11,), -30.0, 0.0))
case("rare", "sure of its class", lambda x: F.soft_margin_loss(x, torch.tensor([1.0, -1.0])), torch.tensor([5.3, -6.1]))
case(
    "rare",
    "fixed statistics as results",
    lambda x, m, v: torch.ops.aten._native_batch_norm_legit(x, None, None, m, v, False, 0.1, 1e-5)[0],
    (3, 4, 5),
    fixed(normal((4,))),
    fixed(positive(4)),
)


# ---- what is no number counts as the largest


def with_gaps(function: Callable[..., Any]) -> Callable[..., Any]:
    """Of elements some of which are no numbers: values and places."""

    def of(x: Leaf, gaps: Leaf) -> Any:
        values, places = function(x.masked_fill(gaps, math.nan))
        return values.nan_to_num(7.0), places.float() + x.sum()

    return of


cases(
    "no number",
    {
        "sort": with_gaps(lambda x: torch.sort(x, 1)),
        "sort downwards": with_gaps(lambda x: torch.sort(x, 1, descending=True)),
        "topk": with_gaps(lambda x: torch.topk(x, 5, 1)),
        "max": with_gaps(lambda x: torch.max(x, 1)),
        "min": with_gaps(lambda x: torch.min(x, 0)),
    },
    spread(3, 11),
    fixed(torch.arange(33).reshape(3, 11) % 9 == 4),
)

# ---- values at computed places

cases(
    "places",
    {
        "bicubic, mirrored": lambda x, g: F.grid_sample(x, g, "bicubic", "reflection", align_corners=True),
        "nearest": lambda x, g: F.grid_sample(x, g, "nearest", "border", align_corners=False),
        "bilinear, mirrored": lambda x, g: F.grid_sample(x, g, "bilinear", "reflection", align_corners=False),
    },
    (2, 3, 5, 7),
    uniform((2, 4, 3, 2), -1.7, 1.7),
)
case(
    "places",
    "volume",
    lambda x, t: F.grid_sample(x, F.affine_grid(t, [2, 1, 2, 3, 4], align_corners=True), align_corners=True),
    (2, 3, 5, 3, 2),
    (2, 3, 4),
)


# ---- interpolation


def resize(mode: str, **settings: Any) -> Callable[..., Any]:
    return lambda x: F.interpolate(x, mode=mode, **settings)


cases(
    "interpolation",
    {
        "antialiased": resize("bilinear", size=(3, 2), antialias=True),
        "antialiased bicubic": resize("bicubic", scale_factor=(0.4, 1.5), antialias=True, align_corners=True),
    },
    (2, 3, 7, 5),
)
cases(
    "interpolation",
    {
        "nearest of a volume": resize("nearest", size=(4, 7, 2)),
        "nearest-exact of a volume": resize("nearest-exact", scale_factor=(0.5, 1.4, 2)),
        "areas of a volume": resize("area", scale_factor=(0.7, 0.5, 1)),
    },
    (1, 2, 3, 5, 2),
)


# ---- lengths that are known when the step runs


def aligned(log_probs: Leaf, *lengths: Any, **settings: Any) -> Any:
    return F.ctc_loss(log_probs, *lengths, **settings)


LABELS = fixed(torch.tensor([[2, 2, 3, 1], [1, 3, -1, -1], [4, 4, 4, 4]]))
STEPS, COUNTS = fixed(torch.tensor([9, 7, 8])), fixed(torch.tensor([4, 2, 0]))
case("lengths", "CTC", aligned, (9, 3, 5), LABELS, STEPS, COUNTS)
case(
    "lengths",
    "CTC of labels in one row",
    lambda x, *given: aligned(x, *given, blank=4, reduction="none", zero_infinity=True),
    (9, 3, 5),
    fixed(torch.tensor([2, 2, 2, 2, 2, 1, 0])),
    fixed(torch.tensor([9, 6, 9])),
    fixed(torch.tensor([1, 4, 2])),
)
for how in ("sum", "mean", "max", "min", "prod"):
    case(
        "lengths",
        f"segment_reduce {how}",
        lambda x, n, how=how: torch.segment_reduce(x, how, lengths=n, axis=1, initial=1.5),
        spread(2, 7, 3),
        fixed(torch.tensor([[2, 0, 5], [1, 3, 3]])),
    )
case("lengths", "mode", lambda x: torch.mode(torch.cat([x, x[:2]]), 0, keepdim=True)[0], (5, 3))
case("lengths", "index_fill with a tensor", lambda x, v: x.index_fill(1, torch.tensor([0, 3]), v), (3, 5), ())
case("lengths", "values at a mask", lambda x, m, v: x.index_put((m,), v), (3, 5), mask(3), (5,))
case("lengths", "values for a mask", lambda x, v: setting(x * 1, x.detach()[..., 0] < 9, v), (3, 2, 5), (3, 5))


def setting(x: Leaf, where: Leaf, values: Leaf) -> Leaf:
    x[where] = torch.cat([values, values])
    return x


# ---- constants that decide


def decided(x: Leaf, edges: Leaf, start: Leaf) -> Leaf:
    """By numbers, truths and places that are known when the step is traced."""
    for n in torch.arange(2, 5).tolist():
        x = x * (1 + 0.1 * n)
    x = x + torch.linspace(0, 0.3, 4)[2].item() / torch.tensor(x.shape).prod().item()
    gaps = torch.zeros(6, dtype=torch.bool)
    gaps[1] = True
    gaps[3:5] = edges[0].max() > 4
    loops = edges[:, edges[0] != edges[1]]
    x = x + torch.zeros_like(x).index_add(1, loops[0], x[:, loops[1]]) if bool((edges >= 0).all()) else x * 7
    return torch.cat([x[:, gaps], x.narrow(1, start, 3), x.repeat_interleave(edges[0], 1), x[:, gaps].clone()], 1)


EDGES = fixed(torch.tensor([[0, 1, 2, 2, 4, 5], [1, 1, 0, 2, 3, 5]]))
case("constants", "decide", decided, (2, 6), EDGES, fixed(torch.tensor(1)))
case(
    "constants",
    "written into",
    lambda x, m: x.masked_select(m & (torch.arange(5) > 0)) * torch.unique(m).sum(),
    (5,),
    fixed(torch.tensor([True, True, False, True, False])),
)


# ---- functions of functions

case("functions", "cond", lambda x: torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a * 2, (x,)), (3, 5))
case(
    "functions", "cond otherwise", lambda x: torch.cond(x.sum() > 1e9, lambda a: a.sin(), lambda a: a * 2, (x,)), (3, 5)
)
case("functions", "vmap", lambda x, w: torch.vmap(lambda r: (w @ r).softmax(0) * r.sum())(x), (3, 5), (4, 5))
case("functions", "vmap of a gradient", lambda x: torch.vmap(torch.func.grad(lambda r: r.tanh().sum()))(x), (3, 5))


# ---- singular values and eigenvalues

cases(
    "eigen",
    {
        "nuclear norm": lambda a: torch.linalg.matrix_norm(a, "nuc"),
        "pseudo-inverse": lambda a: torch.pinverse(a) + torch.linalg.svd(a)[0].square().sum(),
        "eigenvectors": lambda a: torch.linalg.eigh(a @ a.mT)[1].abs(),
        "least squares": lambda a: torch.linalg.lstsq(a, a.sin() + 1)[0],
        "least squares, tall": lambda a: torch.linalg.lstsq(a.mT, a.mT.sin() + 1).solution,
    },
    (2, 3),
)
