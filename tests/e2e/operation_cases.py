"""The table of operations: each case is a function or a module, and the tensors it gets."""

# ruff: noqa: PLW0108 - lambdas keep a case on one line, and `x == x` is one
from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch.nn import functional as F

from tests.e2e.operation_case import (
    CASES,
    Case,
    Leaf,
    by_group,
    case,
    cases,
    fixed,
    integers,
    mask,
    module,
    normal,
    positive,
    spread,
    uniform,
)

__all__ = ["CASES", "Case", "by_group", "case", "cases", "fixed", "integers", "module", "spread"]
PARTS = ("elementwise", "layers", "shapes", "losses", "rare")

for part in PARTS:  # in this order: each draws its data behind the one before
    import_module(f"tests.e2e.operation_cases_{part}")

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
        "topk": with_gaps(lambda x: torch.topk(x[:2], 5, 1)),  # of two in a row PyTorch takes either first
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
    many = torch.ones(6)
    many[gaps] -= 0.5
    x = x * many
    x = x + torch.zeros_like(x).index_add(1, loops[0], x[:, loops[1]]) if bool((edges >= 0).all()) else x * 7
    return torch.cat([x[:, gaps], x.narrow(1, start, 3), x.repeat_interleave(edges[0], 1), x[:, gaps].clone()], 1)


EDGES = fixed(torch.tensor([[0, 1, 2, 2, 4, 5], [1, 1, 0, 2, 3, 5]]))
case("constants", "decide", decided, (2, 6), EDGES, fixed(torch.tensor(1)))
case(
    "constants",
    "written into",
    lambda x, m: x.masked_select((m & (torch.arange(5) > 0)).expand(2, 5)) * torch.unique(m).sum(),
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


# ---- numbers that are drawn after a seed


def seeded(x: Leaf) -> Leaf:
    torch.manual_seed(42)
    return F.dropout(x, 0.4) + torch.rand(3, 5)


case("seeds", "in forward", seeded, (3, 5))
case(
    "seeds",
    "how often is known later",
    lambda x, n: torch.repeat_interleave(x, n + (x[:, 0].detach() > 9), 0, output_size=6) + seeded(x).sum(),
    (3, 5),
    fixed(torch.tensor([1, 3, 2])),
)


# ---- grids of numbers

case(
    "grids",
    "fake_quantize",
    lambda x, s: torch.fake_quantize_per_channel_affine(x * 3, s, torch.tensor([1, 0, -2]).int(), 0, -4, 3),
    (3, 5),
    fixed(positive(3)),
)
case("grids", "fake_quantize, one scale", lambda x: torch.fake_quantize_per_tensor_affine(x, 0.37, 1, -4, 3), (3, 5))
case(
    "grids",
    "searchsorted",
    lambda x, edges: x * torch.searchsorted(edges, x.detach(), right=True),
    (3, 5),
    fixed(uniform((3, 4), -2.0, 2.0).sort(1)[0]),
)


# ---- quantization as training sees it

case("grids", "of a tensor", lambda x: torch.fake_quantize_per_tensor_affine(x, 0.31, 2, -4, 5), spread(5, 7))


# ---- running sums in another type than their operand's

case("running", "counts of a mask", lambda x: x * (x.detach() > 0.2).cumsum(1), (3, 5))
case("running", "counts in floats", lambda x: x * (x.detach() > 0.2).cumsum(0, dtype=torch.float32), (3, 5))
case("running", "of what is cut to integers", lambda x: x * (x.detach() * 3).cumsum(0, dtype=torch.int64), (3, 5))
case("running", "products of a mask", lambda x: x * (x.detach() > -1.5).cumprod(1), (3, 5))


# ---- extremes of whole numbers


def largest_of_numbers(x: Leaf, n: Leaf) -> Leaf:
    return x * F.max_pool2d(n, 2, padding=1)


case(
    "integers",
    "max pooling",
    largest_of_numbers,
    (1, 3, 1, 1),
    fixed(torch.arange(-60, 66).reshape(2, 3, 7, 3) % 17 - 9),
)


# ---- mixtures of experts

ENDS = torch.tensor([3, 3, 8, 9], dtype=torch.int32)
case("experts", "rows in order", lambda x, w, ends: F.grouped_mm(x, w, offs=ends), (9, 4), (4, 4, 8), fixed(ENDS))
case("experts", "how many", lambda x: x * torch.histc(x.detach(), 5, -1, 0.7), (7, 5))
case("experts", "of each number", lambda x: x * torch.bincount((x > 0).sum(1), minlength=6)[1:], (7, 5))
case("experts", "of which kind", lambda x, n: x * torch.histc(n.float(), 5, 0, 4), (7, 5), fixed(torch.arange(9) % 5))


def in_places(x: Leaf, n: Leaf, order: Leaf) -> Leaf:
    """Whole numbers that no float holds, some of them replaced."""
    there = torch.arange(-3, 6) * 16777217
    there[order] = n
    return x * (there % 1009)


ORDER = torch.tensor([7, 2, 0, 5])
case("experts", "written to places", in_places, (3, 9), fixed(torch.tensor([-16777219, 16777217, 3, -1])), fixed(ORDER))


# ---- places in memory, of what lies in another order


def overlapping_windows(x: Leaf) -> Leaf:
    """As Longformer takes its keys: chunks that share half of their rows."""
    chunks = x.transpose(0, 1).unflatten(1, (4, 2))
    batch, first, row, column = chunks.stride()
    return chunks.as_strided((*chunks.shape[:1], 7, *chunks.shape[2:]), (batch, first // 2, row, column))


case("memory", "overlapping windows", overlapping_windows, (8, 3, 5))


# ---- products of reflections


def reflections(transpose: bool, left: bool) -> Any:
    return lambda a, tau, c: torch.ormqr(a, tau, c, left=left, transpose=transpose)


REFLECTORS = (2, 5, 3), (2, 3)
case("algebra", "ormqr", reflections(False, True), *REFLECTORS, (2, 5, 4))
case("algebra", "ormqr, transposed", reflections(True, True), *REFLECTORS, (2, 5, 4))
case("algebra", "ormqr from the right", reflections(False, False), *REFLECTORS, (2, 4, 5))
case("algebra", "ormqr from the right, transposed", reflections(True, False), *REFLECTORS, (2, 4, 5))


# ---- functions of whole numbers

NUMBERS = torch.tensor([[1, 4, 2], [7, 3, 5]])
WHOLE = {
    "digamma": torch.digamma,
    "polygamma": lambda n: torch.polygamma(1, n),
    "i0 of a mask": lambda n: torch.i0(n > 3),
    "log_ndtr": torch.special.log_ndtr,
    "searchsorted, one number": lambda n: torch.searchsorted(torch.tensor([1, 3, 7]), n[0, 1]),
}
for name, function in WHOLE.items():
    case("whole", name, lambda x, n, f=function: x * f(n), (2, 3), fixed(NUMBERS))

case("counts", "all, over dimensions", lambda x: x * (x.detach() > -1.2).all(dim=(0, 2), keepdim=True), (3, 4, 2))
case("counts", "copysign of a mask", lambda x: x * torch.copysign(x.detach() > 0, x.detach() - 0.5), (3, 5))
case(
    "counts",
    "searchsorted with an order",
    lambda x, edges, order: x * torch.searchsorted(edges, x.detach(), sorter=order),
    (3, 5),
    fixed(torch.tensor([0.7, -1.0, 0.1])),
    fixed(torch.tensor([1, 2, 0])),
)
case("special", "ndtri", torch.special.ndtri, torch.cat([uniform((7,), 0.0, 1.0), uniform((6,), 1e-7, 1e-3)]))


# ---- numbers by their bits


def put_together(x: Leaf) -> Leaf:
    mantissa, exponent = torch.frexp(x)
    return mantissa * (exponent + 0.5)


case("special", "frexp", put_together, torch.cat([uniform((7,), -9.0, 9.0), torch.tensor([0.0, 1.0, -0.5, 4096.0])]))
case("special", "nextafter", lambda x, toward: 3 * torch.nextafter(x, toward), (3, 5), (5,))
