"""What rounding may do to a training step, found by doing it: every operation that PyTorch runs, of the forward pass,
the backward pass and the optimizer, rounds once more, by chance.

The model of an error is that of any correct implementation, whatever its order of summation. Moving and choosing
values is exact. An element computed from one element of each operand is off by ROUNDING of itself. A sum of n terms is
off by what sqrt(n) ROUNDING does to its terms and to itself: sums in float32 are that wrong where their errors fall at
random (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019). What PyTorch does in one
operation, but others in several (norms, softmax, losses), is taken apart first: the error of a mean is then the same
for all elements it is subtracted from, and does not average out as errors of single elements do.

Two kinds of runs tell how a tensor hangs on rounding, and nothing needs to be known of the network:

- `first_order`: float64 runs with errors SHRUNK times smaller, and their effect as many times larger again. What a
  cancelled sum keeps of its terms shows in full; no branch flips that real rounding would leave as it is.
- float32 runs (golden.reference.run with `noise`) with errors as large as they usually are, in which a ReLU or a
  maximum within reach of rounding takes the other branch.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch._decomp import get_decompositions
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import max_pool2d

from golden.experts import grouped_mm
from golden.mode import Mode, among_ourselves, leaves, mapped

Array = np.ndarray[Any, Any]
Key = tuple[int, str, str]  # step, kind, name

aten = torch.ops.aten
ROUNDING = 2.0**-24  # relative: the unit roundoff of float32; errors are spread evenly up to this
SHRUNK = 2.0**13
USUAL = 0.5  # in float32, whose own errors come on top
FEWEST = 16  # terms in float32: errors below its last bit would be rounded off again
STARTS = 1 << 16
WHOLE = {torch.float32: (torch.int32, 0xFFF), torch.float64: (torch.int64, 0xFFFFFFFF)}  # bits that masks, counts,
# powers of two and infinities do not have: these are exact

# Operations of several steps, run step by step.
COMPOSED = (
    "native_batch_norm native_batch_norm_backward _native_batch_norm_legit native_layer_norm "
    "native_layer_norm_backward native_group_norm native_group_norm_backward _softmax _softmax_backward_data "
    "_log_softmax _log_softmax_backward_data mse_loss mse_loss_backward nll_loss_forward nll_loss_backward "
    "nll_loss2d_forward nll_loss2d_backward smooth_l1_loss smooth_l1_loss_backward huber_loss huber_loss_backward "
    "binary_cross_entropy binary_cross_entropy_backward"
).split()

# What moves, chooses or writes values without arithmetic.
EXACT = frozenset(
    (
        "clone copy copy_ _to_copy cat stack index index_select gather embedding select_backward slice_backward "
        "_unsafe_view _reshape_copy constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d "
        "replication_pad1d replication_pad2d replication_pad3d flip roll repeat where masked_fill masked_fill_ "
        "masked_select fill_ zero_ full_like zeros_like ones_like empty_like new_zeros new_ones new_full new_empty "
        "new_empty_strided relu relu_ neg neg_ abs sign sgn max min amax amin maximum minimum clamp clamp_ clamp_min "
        "clamp_max clamp_min_ threshold_backward max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d "
        "max_pool2d_with_indices_backward topk sort kthvalue median nanmedian aminmax cummax cummin fmax fmin "
        "tril triu diag_embed floor ceil round trunc bernoulli_ im2col unfold_backward scatter index_fill zeros ones "
        "full empty arange resize_ set_ lift_fresh lift_fresh_copy hardtanh hardtanh_ hardtanh_backward "
        "upsample_nearest1d upsample_nearest2d upsample_nearest3d unsqueeze_copy expand_copy permute_copy "
        "_local_scalar_dense isnan isinf eq ne lt le gt ge logical_not argmax argmin _conj _conj_physical "
        "conj_physical resolve_conj resolve_neg complex"
    ).split()
)

NORM = "linalg_vector_norm"
EXTREMES = frozenset(("amax", "amin", float("inf"), float("-inf")))  # as reductions are told which they are
TOLD = frozenset(("index_reduce", "index_reduce_", "scatter_reduce", "scatter_reduce_", NORM))

# Operations of one element of each operand that PyTorch does not tag as such.
POINTWISE = frozenset(
    ("elu_backward leaky_relu_backward softplus_backward hardsigmoid_backward glu glu_backward").split()
)

# How many terms a sum has where the sizes of operands and result do not tell.
PRODUCTS: dict[str, Callable[..., int]] = {
    "mm": lambda a, b: a.shape[-1],
    "bmm": lambda a, b: a.shape[-1],
    "mv": lambda a, b: a.shape[-1],
    "dot": lambda a, b: a.shape[-1],
    "addmm": lambda c, a, b: a.shape[-1] + 1,
    "addmv": lambda c, a, b: a.shape[-1] + 1,
    "baddbmm": lambda c, a, b: a.shape[-1] + 1,
    "convolution": lambda x, w, bias, stride, padding, dilation, transposed, *rest: (
        w.numel() // max(1, w.shape[1] * rest[-1] if transposed else w.shape[0])
    ),
}


@contextlib.contextmanager
def otherwise(seed: int, dtype: torch.dtype, winograd: bool = False) -> Iterator[None]:
    """PyTorch computes as another correct implementation might, to first order if in float64. Attention is taken apart
    as well."""
    with sdpa_kernel(SDPBackend.MATH), Rounding(seed, dtype, winograd):
        yield


def first_order(exact: Mapping[Key, Array], shaken: Mapping[Key, Array]) -> dict[Key, Array]:
    """What float32 may make of `exact`, from a float64 run with shrunken errors."""
    found = {k: (v, shaken[k]) for k, v in exact.items()}
    return {k: v + SHRUNK * (w - v) if w.dtype == np.float64 else w for k, (v, w) in found.items()}


class Rounding(Mode):
    """Everything that PyTorch computes in `dtype` while this is on carries rounding errors of the given seed."""

    def __init__(self, seed: int, dtype: torch.dtype, winograd: bool = False) -> None:
        super().__init__()
        self.dtype, self.winograd = dtype, winograd
        self.size, self.fewest = (ROUNDING / SHRUNK, 1) if dtype is torch.float64 else (ROUNDING * USUAL, FEWEST)
        self.chance = torch.Generator().manual_seed(seed)
        self.drawn = torch.empty(0, dtype=dtype)
        names = [getattr(aten, n) for n in COMPOSED if hasattr(aten, n)]
        self.steps = {**get_decompositions(names), aten._grouped_mm.default: grouped_mm}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in self.steps:
            with self:
                return self.steps[func](*args, **kwargs)
        name = func._schema.name.partition("::")[2]
        moves = name in EXACT or torch.Tag.inplace_view in func.tags or torch.Tag.nondeterministic_seeded in func.tags
        if moves or is_choice(name, args) or not any(map(self.is_rounded, leaves((*args, *kwargs.values())))):
            return func(*args, **kwargs)
        if func is aten.convolution_backward.default:
            return self.of_convolution(*args, **kwargs)
        if func is aten.convolution.default and self.in_tiles(args[1], args[3:]):
            x, w, bias, *rest = args
            many = PRODUCTS["convolution"](*args)
            found = aten.convolution.default(*self.spoiled((x, w, bias), many), *rest)
            return self.shared(self.noisy(found, many), aten.convolution.default(x * x, w * w, None, *rest), many)
        written = list(written_to(func, args, kwargs))
        alone = name in POINTWISE or torch.Tag.pointwise in func.tags
        if written or name in PRODUCTS or alone:
            many = PRODUCTS[name](*args) if name in PRODUCTS else 1
            out = func(*self.spoiled(args, many), **kwargs) if many > 1 else func(*args, **kwargs)
        else:
            out = func(*args, **kwargs)
            if views(func):
                return out
            many = terms(self.rounded(args), self.rounded(out))
            out = func(*self.spoiled(args, many), **kwargs)
        for t in self.rounded(written):
            t.copy_(self.noisy(t, many))
        return out if written else self.spoiled(out, many)

    def of_convolution(self, dy: Any, x: Any, w: Any, bias: Any, *rest: Any) -> tuple[Any, ...]:
        """The three gradients one by one: they are sums of different lengths."""
        transposed, groups, wanted = rest[3], rest[5], rest[6]
        at_each = dy.numel() // dy.shape[1]  # positions of the output
        inner = w.numel() // max(1, w.shape[0] if transposed else w.shape[1] * groups)
        out: list[Any] = []
        for i, many in enumerate((inner, max(at_each, x.numel() // x.shape[1]), at_each)):
            if not wanted[i]:
                out.append(None)
                continue
            given = self.spoiled((dy, x, w), many)
            found = aten.convolution_backward.default(*given, bias, *rest[:6], [i == 0, i == 1, i == 2])
            out.append(self.noisy(found[i], many))
            if i < 2 and self.in_tiles(w, rest):
                squares = [v * v for v in (dy, x, w)]
                mask = [i == 0, i == 1, False]
                sums = aten.convolution_backward.default(*squares, None, *rest[:6], mask)[i]
                out[i] = self.shared(out[i], sums, many)
        return tuple(out)

    def in_tiles(self, w: torch.Tensor, rest: Any) -> bool:
        """Whether Winograd's algorithm may compute this: stride, padding, dilation, transposed."""
        stride, _, dilation, transposed = rest[:4]
        alone = all(n == 1 for n in (*stride, *dilation))
        return self.winograd and w.shape[2:] == (3, 3) and alone and not transposed

    def shared(self, v: torch.Tensor, squares: torch.Tensor, many: int) -> torch.Tensor:
        """What one element of a tile is off by, its neighbours are: a sum of zeros beside large terms is no zero.
        `squares` are the sums of the squared terms; weights are a tile of their own."""
        beside = squares.amax((2, 3), keepdim=True) if v.shape[2:] == (3, 3) else max_pool2d(squares, 3, 1, 1)
        scale = beside.clamp(min=0).sqrt() * self.size * math.sqrt(max(many, self.fewest))
        return v + scale * self.draw(v.shape)

    def spoiled(self, values: Any, many: int) -> Any:
        def change(v: Any) -> Any:
            return self.noisy(v, many) if self.is_rounded(v) else v

        return mapped(change, values)

    def noisy(self, v: torch.Tensor, many: int) -> torch.Tensor:
        """As far off as a sum of so many terms may be. Of a complex number each part is, by its absolute value."""
        with among_ourselves():
            if v.is_complex():
                parts, scale = torch.view_as_real(v.resolve_conj()), v.abs().unsqueeze(-1)
                return torch.view_as_complex(self.noisy_by(parts.contiguous(), scale.expand_as(parts), many))
            return self.noisy_by(v, v, many)

    def noisy_by(self, v: torch.Tensor, scale: torch.Tensor, many: int) -> torch.Tensor:
        found = torch.addcmul(v, scale, self.draw(v.shape), value=self.size * math.sqrt(max(many, self.fewest)))
        integers, bits = WHOLE[self.dtype]
        return torch.where((v.contiguous().view(integers) & bits) == 0, v, found)

    def rounded(self, values: Any) -> list[torch.Tensor]:
        return [v for v in leaves((values,)) if self.is_rounded(v)]

    def is_rounded(self, value: Any) -> bool:
        numbers = isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_meta
        return numbers and value.dtype in (self.dtype, self.dtype.to_complex())

    def draw(self, shape: torch.Size) -> torch.Tensor:
        """Between -1 and 1. A stretch of numbers drawn before, from anywhere: drawing takes longer than the rest."""
        count = shape.numel()
        if len(self.drawn) < count + STARTS:
            self.drawn = torch.rand(count + STARTS, generator=self.chance, dtype=self.dtype).mul_(2).sub_(1)
        start = int(torch.randint(STARTS, (), generator=self.chance))
        return self.drawn[start : start + count].view(shape)


def is_choice(name: str, args: tuple[Any, ...]) -> bool:
    """Whether it takes one of what it reads by its size, and autograd looks where that was."""
    if name in ("max", "min", "median", "nanmedian", "aminmax"):  # along a dimension most of them tell where
        return len(args) == 1
    if name not in TOLD:
        return name in EXTREMES
    told = {a for a in args if isinstance(a, str | float)}
    return bool(told) and told <= EXTREMES


def written_to(func: Any, args: Any, kwargs: Any) -> Iterator[Any]:
    """The arguments which this operation changes in place."""
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield args[place] if place < len(args) else kwargs.get(argument.name)


def views(func: Any) -> bool:
    return any(r.alias_info is not None for r in func._schema.returns)


def terms(operands: list[torch.Tensor], results: list[torch.Tensor]) -> int:
    """Of a sum of unknown extent: as many as fall to one element of the result, and no fewer than the longest row."""
    if not operands or not results:
        return 1
    share = max(t.numel() for t in operands) // max(1, *(t.numel() for t in results))
    return max(1, share, *(max(t.shape, default=1) for t in operands))
