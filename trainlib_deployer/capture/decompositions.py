"""What rare operations of ATen are made of: PyTorch's own answers, and ours where it has none."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import get_decompositions

from trainlib_deployer.capture import decompositions_eigen
from trainlib_deployer.capture.decompositions_linalg import TABLE as LINALG
from trainlib_deployer.capture.decompositions_reduce import TABLE as REDUCE
from trainlib_deployer.capture.decompositions_special import TABLE as SPECIAL

assert decompositions_eigen, "it adds to the table of linear algebra"
aten = torch.ops.aten
Tensor = torch.Tensor
OURS: dict[Any, Callable[..., Any]] = {}

THEIRS = (
    "_unsafe_masked_index _unsafe_masked_index_put_accumulate addmv addr alias_copy aminmax block_diag bucketize "
    "celu channel_shuffle count_nonzero deg2rad diag_embed diagonal_copy dist expand_copy fill "
    "frac glu glu_backward hardshrink heaviside index_add index_copy isin isneginf isposinf ldexp "
    "linalg_cross logaddexp logaddexp2 logit logit_backward multi_margin_loss multilabel_margin_loss_forward "
    "mvlgamma nan_to_num nansum narrow_copy native_dropout_backward norm permute_copy rad2deg renorm rot90 "
    "rrelu_with_noise_backward sinc soft_margin_loss softshrink special_entr special_ndtr "
    "special_xlog1py split_with_sizes_copy squeeze_copy std_mean t_copy take trace transpose_copy tril triu "
    "unbind_copy unfold_copy unsqueeze_copy view_copy xlogy zero"
)


def made_of(*targets: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        OURS.update(dict.fromkeys(targets, function))
        return function

    return register


@made_of(aten._efficientzerotensor.default)
def zero_tensor(size: Any, **_: Any) -> Tensor:
    return torch.zeros(size)


@made_of(aten.eye.default, aten.eye.m)
def eye(rows: int, columns: int | None = None, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    """Counting by 64 bits: PyTorch's own takes 16 where 8 are too few, of which it then has no range."""
    found = torch.arange(rows)[:, None] == torch.arange(rows if columns is None else columns)
    return found.to(torch.get_default_dtype() if dtype is None else dtype)


@made_of(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(x: Tensor, dim: int, index: Tensor, value: Tensor | float) -> Tensor:
    """Without a copy that keeps the strides of the tensor."""
    if not x.dim():
        filled = value.to(x.dtype) if isinstance(value, Tensor) else torch.full_like(x, value)
        return filled.clone() if index.numel() else x.clone()
    shape = [1] * x.dim()
    shape[dim] = -1
    chosen = (torch.arange(x.shape[dim]) == index.reshape(-1, 1) % x.shape[dim]).any(0).reshape(shape)
    return torch.where(chosen, torch.as_tensor(value, dtype=x.dtype), x)


@made_of(aten.signbit.default)
def signbit(x: Tensor) -> Tensor:
    """Of minus zero, too."""
    return (x < 0) | ((x == 0) & (1 / x < 0)) if x.is_floating_point() else x < 0


@made_of(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(x: Tensor, sign: Tensor | float) -> Tensor:
    x = x if x.is_floating_point() else x.to(torch.get_default_dtype())
    if not isinstance(sign, Tensor):
        return x.abs() * math.copysign(1.0, sign)
    return torch.where(signbit(sign), -x.abs(), x.abs())


@made_of(aten.round.decimals)
def round_decimals(x: Tensor, decimals: int) -> Tensor:
    scale = 10.0 ** abs(decimals)
    return (x * scale).round() / scale if decimals >= 0 else (x / scale).round() * scale


@made_of(aten.searchsorted.Tensor)
def searchsorted(
    edges: Tensor,
    x: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """How many edges lie below, of those that are in order, or that are brought into it."""
    edges = edges if sorter is None else edges.gather(-1, sorter)
    below = torch.le if right or side == "right" else torch.lt
    edges = edges.unsqueeze(-2) if edges.dim() > 1 else edges
    return below(edges, x.unsqueeze(-1)).sum(-1, dtype=torch.int32 if out_int32 else torch.int64)


@made_of(aten.fake_quantize_per_tensor_affine_cachemask.default)
def fake_quantize(x: Tensor, scale: Any, zero: Any, low: int, high: int) -> tuple[Tensor, Tensor]:
    """On the grid of whole numbers, and what of it had a place there."""
    at = (x * (1 / scale)).round() + zero
    return (at.clamp(low, high) - zero) * scale, (at >= low) & (at <= high)


@made_of(aten.fake_quantize_per_channel_affine_cachemask.default)
def fake_quantize_channels(
    x: Tensor, scale: Tensor, zero: Tensor, axis: int, low: int, high: int
) -> tuple[Tensor, Tensor]:
    shape = [1] * x.dim()
    shape[axis] = -1
    found: tuple[Tensor, Tensor] = fake_quantize(x, scale.reshape(shape), zero.reshape(shape), low, high)
    return found


@made_of(aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default)
def fake_quantize_if(
    x: Tensor, scale: Tensor, zero: Tensor, enabled: Tensor, low: int, high: int
) -> tuple[Tensor, Tensor]:
    found, inside = fake_quantize(x, scale, zero, low, high)
    on = enabled != 0
    return torch.where(on, found, x), inside | ~on


@made_of(aten.addbmm.default)
def addbmm(x: Tensor, first: Tensor, second: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    product = alpha * torch.bmm(first, second).sum(0)
    return product if beta == 0 else beta * x + product


@made_of(aten.as_strided.default, aten.as_strided_copy.default)
def as_strided(x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Any:
    """Elements by where they lie, of what lies without gaps, in whatever order of dimensions."""
    steps = x.stride()
    x = x.permute(sorted(range(x.dim()), key=lambda d: (-steps[d], x.shape[d])))
    first = 0 if storage_offset is None else storage_offset - int(x.storage_offset())
    last = first + sum((extent - 1) * step for extent, step in zip(size, stride, strict=True))
    if not x.is_contiguous() or first < 0 or (last >= x.numel() and 0 not in size):
        return NotImplemented
    return x.flatten()[places(size, stride, first).flatten()].reshape(tuple(size))


@made_of(aten.as_strided_scatter.default)
def as_strided_scatter(
    x: Tensor, source: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    if not in_order(x):
        return NotImplemented
    return put_at(x, source, places(size, stride, storage_offset))


@made_of(aten.diagonal_scatter.default)
def diagonal_scatter(x: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    strides = [math.prod(x.shape[d + 1 :]) for d in range(x.dim())]
    kept = [d for d in range(x.dim()) if d not in (dim1 % x.dim(), dim2 % x.dim())]
    along = [*(strides[d] for d in kept), strides[dim1] + strides[dim2]]
    first = max(offset, 0) * strides[dim2] + max(-offset, 0) * strides[dim1]
    return put_at(x, source, places(source.shape, along, first))


def put_at(x: Tensor, source: Tensor, where: Tensor) -> Tensor:
    """The elements of the source at those places of the flat tensor."""
    return x.flatten().scatter(0, where.flatten(), source.flatten()).reshape(x.shape)


def in_order(x: Tensor) -> bool:
    return x.is_contiguous() and not x.storage_offset()


def places(size: Sequence[int], stride: Sequence[int], offset: int | None) -> Tensor:
    where = torch.full((), offset or 0)
    for extent, step in zip(size, stride, strict=True):
        where = where.unsqueeze(-1) + torch.arange(extent) * step
    return where


@made_of(aten.masked_scatter.default)
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The elements of the source, one after the other, go where the mask is set."""
    shape = (x + mask).shape
    x, mask = x.expand(shape), mask.expand(shape)
    if isinstance(source.numel(), int) and not source.numel():  # it may depend on values
        return x.clone()
    return torch.where(mask, source.flatten()[turn(mask.flatten())].reshape(x.shape), x)


@made_of(aten.masked_scatter_backward.default)
def masked_scatter_backward(gradient: Tensor, mask: Tensor, sizes: Any) -> Tensor:
    mask = mask.expand(gradient.shape).flatten()
    flat = gradient.new_zeros(math.prod(sizes))
    return flat.scatter_add(0, turn(mask), gradient.flatten() * mask).reshape(sizes)


def turn(mask: Tensor) -> Tensor:
    """Which element of the source goes to each place that the mask sets."""
    return (mask.to(torch.int64).cumsum(0) - 1).clamp(min=0)


@made_of(aten.soft_margin_loss_backward.default)
def soft_margin_loss_backward(gradient: Tensor, x: Tensor, target: Tensor, reduction: int) -> Tensor:
    """Without the difference of a sigmoid and one."""
    share = 1 / x.numel() if reduction == 1 else 1.0
    return gradient * share * -target * torch.sigmoid(-target * x)


# ---- running results


def running(x: Tensor, dim: int, join: Callable[..., tuple[Tensor, ...]], *states: Tensor) -> tuple[Tensor, ...]:
    """Results over all elements up to each one, in as many rounds as the logarithm of their number."""
    extent, reach = x.shape[dim], 1
    while reach < extent:
        later = [s.narrow(dim, reach, extent - reach) for s in states]
        earlier = [s.narrow(dim, 0, extent - reach) for s in states]
        joined = join(*earlier, *later)
        states = tuple(torch.cat([s.narrow(dim, 0, reach), new], dim) for s, new in zip(states, joined, strict=True))
        reach *= 2
    return states


@made_of(aten.logcumsumexp.default)
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    if not x.dim():
        return x.clone()
    return running(x, dim, lambda old, new: (torch.logaddexp(old, new),), x)[0]


DECOMPOSED: dict[Any, Callable[..., Any]] = (
    get_decompositions([getattr(aten, n) for n in THEIRS.split()]) | OURS | LINALG | REDUCE | SPECIAL
)
