"""Elements by rank or place, bags of rows, and how rows vary together."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

Tensor = torch.Tensor


def median(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower one of the two in the middle; one element that is no number suffices for none."""
    if dim is None:  # its gradient goes to all that are equal to it
        return NotImplemented
    if not x.dim():
        only = x.unsqueeze(0).sort(0)
        return torch.return_types.median((only[0].squeeze(0), only[1].squeeze(0)))
    middle = (x.shape[dim] - 1) // 2
    values, indices = (v.narrow(dim, middle, 1) for v in x.sort(dim))
    if x.is_floating_point():
        values = torch.where(x.isnan().any(dim, keepdim=True), torch.nan, values)
    return torch.return_types.median((values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim)))


def nanmedian(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """Of the numbers among them, which come first."""
    if dim is None:
        return NotImplemented
    if not x.dim():
        return torch.return_types.nanmedian(tuple(nanmedian(x.flatten(), 0)))
    numbers = (~x.isnan()).sum(dim, keepdim=True)
    ordered, order = torch.where(x.isnan(), torch.inf, x).sort(dim)
    middle = (numbers - 1).clamp(min=0) // 2
    value, place = torch.where(numbers == 0, torch.nan, ordered.gather(dim, middle)), order.gather(dim, middle)
    return torch.return_types.nanmedian((value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim)))


def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if not x.dim():
        return torch.return_types.kthvalue((x.clone(), torch.zeros_like(x, dtype=torch.int64)))
    value, place = (v.narrow(dim, k - 1, 1) for v in x.sort(dim))
    return torch.return_types.kthvalue((value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim)))


def index_fill(x: Tensor, dim: int, index: Tensor, value: Tensor | float) -> Any:
    """A value that is a tensor has a gradient."""
    if not isinstance(value, Tensor):
        return NotImplemented
    if not x.dim():
        return index_fill(x.reshape(1), 0, index, value).reshape(())
    shape = [1] * x.dim()
    shape[dim] = -1
    chosen = (torch.arange(x.shape[dim]) == index.reshape(-1, 1) % x.shape[dim]).any(0).reshape(shape)
    return torch.where(chosen, value, x)


def index_put(x: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Any:
    """Where a mask is set: the same values at each place, or one after the other."""
    given = [(at, v) for at, v in enumerate(indices) if v is not None]
    if len(given) != 1 or given[0][1].dtype is not torch.bool:
        return NotImplemented
    at, mask = given[0]
    inner = x.dim() - at - mask.dim()
    mask = mask.reshape(*mask.shape, *[1] * inner)
    if values.dim() > inner and values.shape[-inner - 1] == 1:
        values = values.squeeze(-inner - 1)
    if values.dim() <= inner:
        return x + torch.where(mask, values, 0) if accumulate else torch.where(mask, values, x)
    if at or accumulate:
        return NotImplemented
    return x.masked_scatter(mask, values.expand(-1, *x.shape[x.dim() - inner :]))


def set_item(x: Tensor, index: Any, value: Any) -> Any:
    """x[mask] = tensor."""
    if not isinstance(index, Tensor) or not isinstance(value, Tensor) or index.dtype is not torch.bool:
        return NotImplemented
    found = index_put(x, (index,), value)
    return found if found is NotImplemented else x.copy_(found)


def take(x: Tensor, index: Tensor) -> Tensor:
    return x.flatten().gather(0, index.flatten() % x.numel()).reshape(index.shape)


def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    places, flat = index.flatten() % x.numel(), x.flatten()
    put_into = flat.scatter_add if accumulate else flat.scatter
    found: Tensor = put_into(0, places, source.flatten())
    return found.reshape(x.shape)


def combinations(x: Tensor, r: int = 2, with_replacement: bool = False) -> Any:
    """Rows of r elements each."""
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = list(choose(range(len(x)), r))
    if not r or not places:
        return NotImplemented
    return x[torch.tensor(places)]


def cov(x: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Any:
    """Of rows, over columns that may count more or less."""
    if x.is_complex():
        return NotImplemented
    rows = x.reshape(1, -1) if x.dim() < 2 else x
    weights = torch.ones(rows.shape[1]) if fweights is None else fweights.to(x.dtype)
    if aweights is not None:
        weights = weights * aweights
    total = weights.sum()
    among = total - correction * ((weights * aweights).sum() / total if aweights is not None else 1)
    apart = rows - (rows * weights).sum(1, keepdim=True) / total
    found = (apart * weights) @ apart.mT / among.clamp(min=0)
    return found.reshape(()) if x.dim() < 2 else found


def corrcoef(x: Tensor) -> Any:
    if x.is_complex():
        return NotImplemented
    found = cov(x)
    if x.dim() < 2:
        return found / found
    spread = found.diagonal().sqrt()
    return (found / spread.unsqueeze(1) / spread).clamp(-1, 1)


def embedding_bag(
    tokens: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """An embedding, then a reduction over those tokens that are in a bag."""
    if max_norm is not None:
        return NotImplemented
    rows = F.embedding(tokens, weight, scale_grad_by_freq=scale_grad_by_freq)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    counted = torch.ones_like(tokens, dtype=torch.bool) if padding_idx is None else tokens != padding_idx % len(weight)
    if offsets is None:
        inside = counted
    else:
        bag = (torch.arange(len(tokens)).unsqueeze(-1) >= offsets).sum(1) - 1
        bags = len(offsets) - include_last_offset  # what begins at the last offset is in none
        inside = (torch.arange(bags).unsqueeze(-1) == bag) & counted
        rows = rows.expand(bags, *rows.shape)
    many = inside.sum(-1, keepdim=True)
    if mode == "max":
        largest = rows.masked_fill(~inside.unsqueeze(-1), float("-inf")).max(-2)[0]
        return largest.masked_fill(many == 0, 0.0)
    total = (rows * inside.unsqueeze(-1)).sum(-2)
    return total if mode == "sum" else total / many.clamp(min=1)


def where(condition: Tensor, *branches: Any, **how: Any) -> Any:
    """By bytes, as older code has its masks."""
    bytes_ = isinstance(condition, Tensor) and condition.dtype is torch.uint8
    return torch.where(condition != 0, *branches, **how) if bytes_ else NotImplemented


REWRITES: dict[Any, Callable[..., Any]] = {
    torch.where: where,
    torch.median: median,
    Tensor.median: median,
    torch.nanmedian: nanmedian,
    Tensor.nanmedian: nanmedian,
    torch.kthvalue: kthvalue,
    Tensor.kthvalue: kthvalue,
    torch.index_fill: index_fill,
    Tensor.index_fill: index_fill,
    torch.index_put: index_put,
    Tensor.index_put: index_put,
    Tensor.__setitem__: set_item,
    torch.take: take,
    Tensor.take: take,
    torch.put: put,
    Tensor.put: put,
    torch.combinations: combinations,
    torch.cov: cov,
    Tensor.cov: cov,
    torch.corrcoef: corrcoef,
    Tensor.corrcoef: corrcoef,
    F.embedding_bag: embedding_bag,
}
