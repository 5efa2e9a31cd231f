"""Operations: what is done with each element, reductions, products."""

# ruff: noqa: PLW0108, PLR0124 - lambdas keep a case on one line, and `x == x` is one
from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from tests.e2e.operation_case import (
    case,
    cases,
    fixed,
    integers,
    mask,
    module,
    positive,
    spread,
    uniform,
)

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
EQUAL = torch.tensor([2.0, 1.0, 1.0, 0.0, 3.0, 1.0])
case("reductions", "median_of_equal", lambda x, y: x * x.median() + y.nanmedian(), EQUAL, -EQUAL)
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

# ---- integers, on numbers of their own: drawn ones would be others for all that come later

signed, odd = fixed((torch.arange(21) * 8 % 19 - 9).reshape(3, 7)), fixed(torch.tensor([[-3, 4, -1, 5, 2, -5, 1]]))
cases(
    "integers",
    {
        "rounded_down": lambda i, j, x: (i // j, i // 3, -17 // j, i % j, i % -3, 17 % j, x * (1.7 % j)),
        "rounded_to_zero": lambda i, j, x: (
            *(torch.div(i, j, rounding_mode="trunc"), torch.div(i, -4, rounding_mode="trunc")),
            *(torch.fmod(i, j), torch.fmod(i, 4), x * torch.fmod(i, j)),
        ),
        "not_rounded": lambda i, j, x: x * torch.div(i, j, rounding_mode=None),
        "shifts": lambda i, j, x: (
            i << j.abs(),
            i >> j.abs(),
            i >> 2,
            1 << j.abs(),
            -99 >> j.abs(),
            i >> 40,
            x * (i << 3),
        ),
        "bits": lambda i, j, x: x[..., None] * (i[..., None] >> torch.arange(5) & 1),
        "mm": lambda i, j, x: (i @ i.T) @ i * x,
        "mv": lambda i, j, x: (i @ j[0], i[0] @ j[0], x),
        "addmm": lambda i, j, x: torch.addmm(i[:, :3], i, i.T, beta=2, alpha=-3).float() @ x,
        "baddbmm": lambda i, j, x: (
            torch.baddbmm(j[..., None], i[..., None], j[:, None, :1].expand(3, 1, 1)) + x[..., None]
        ),
        "linear": lambda i, j, x: F.linear(i, j, j[:, 0]) + x,
        "max_pool": lambda i, j, x: (*F.max_pool2d(i[None] - 9, 3, 2, 1, return_indices=True), x),
    },
    signed,
    odd,
    torch.linspace(-1.3, 2.1, 21).reshape(3, 7),
)
tenths = fixed(torch.arange(-31, 32) * 0.1)
case(
    "pairs",
    "floor_divide of tenths",
    lambda t, x: (t // 0.1, t // x.detach(), x * (t // 0.5)),
    tenths,
    torch.tensor(0.1),
)
