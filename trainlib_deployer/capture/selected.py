"""Rows that a mask of the step's own values selects, x[mask], while a step is traced. How many there are is not known
then: so all rows that might be among them are calculated with, and what comes of the others is left out of sums, means
and losses. Where it is not selected, an element is a number that nothing goes wrong with, whatever x holds there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import get_innermost_proxy_mode, get_proxy_slot
from torch.utils import _pytree as pytree

from trainlib_deployer.capture import remedies
from trainlib_deployer.errors import Unsupported

Tensor = torch.Tensor
DEEPEST = 12  # operations that make a mask, to see whether another one is made alike
UNSELECTED = 0.5  # is in the domain of all functions but acosh


@dataclass(frozen=True)
class Mask:
    """Which rows are selected; with `each`, every row is so many of another mask's."""

    given: Tensor
    version: int
    each: int = 1

    @classmethod
    def of(cls, given: Tensor) -> Mask:
        return cls(given, given._version)

    def rows(self, dims: int = 1) -> Tensor:
        """[M, 1, ...] of so many dimensions."""
        if self.given._version != self.version:
            raise refused("the mask is written to after it has selected")
        flat = self.given.reshape(-1)
        if self.each > 1:
            flat = flat.unsqueeze(1).expand(-1, self.each).reshape(-1)
        return flat.reshape(-1, *[1] * (dims - 1))

    def count(self) -> Tensor:
        return self.rows().sum() if self.each == 1 else self.given.sum() * self.each

    def selects_as(self, other: Mask) -> bool:
        if self.each != other.each or self.given.shape != other.given.shape:
            return False
        return self.given is other.given or made_alike(self.given, other.given)


class Selected(Tensor):
    """A selection has the shape of all rows that might be in it."""

    whole: Tensor  # [M, ...]
    mask: Mask
    along: int | None  # a dimension of the mask: these are the places in it that are selected
    origin: Any  # where it is made: namer's

    @staticmethod
    def __new__(cls, whole: Tensor, mask: Mask, along: int | None = None) -> Selected:
        made = Tensor._make_wrapper_subclass(cls, whole.shape, dtype=whole.dtype)
        made.whole, made.mask, made.along, made.origin = whole, mask, along, None
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise refused(f"'{func._schema.name.partition('::')[2]}'")

    def filled(self, value: float) -> Tensor:
        """With a value where nothing is selected."""
        return torch.where(self.mask.rows(self.whole.dim()), self.whole, value)

    def with_rows(self, whole: Tensor) -> Selected:
        return Selected(whole, self.mask)


def refused(what: str) -> Unsupported:
    return Unsupported(f"{what} of what a mask selects: {remedies.ON_SHAPES}", remedy=remedies.SHAPES)


def by_mask(x: Tensor, mask: Tensor, rest: Sequence[Any] = ()) -> Selected:
    """x[mask, *rest]."""
    chosen = Mask.of(mask)
    return of_mask(x.reshape(mask.numel(), *x.shape[mask.dim() :]), chosen, rest)


def of_mask(rows: Tensor, mask: Mask, rest: Sequence[Any]) -> Selected:
    """rows[:, *rest], with zeros where nothing is selected."""
    if rest:
        rows = rows[(slice(None), *rest)]
    found = Selected(rows, mask)
    return found if rows.dtype is torch.bool else found.with_rows(found.filled(0))


def places(mask: Tensor) -> tuple[Selected, ...]:
    """mask.nonzero(as_tuple=True)."""
    every = torch.arange(mask.numel())
    found, inner = [], mask.numel()
    for along, many in enumerate(mask.shape):
        inner //= max(many, 1)
        at = torch.div(every, max(inner, 1), rounding_mode="floor") % many
        found.append(Selected(at, Mask.of(mask), along))
    return tuple(found)


def at_rows(x: Tensor, index: Sequence[Any]) -> Selected:
    """x[i, j, ...] of places that a mask selects."""
    chosen = [i for i in index if isinstance(i, Selected)]
    mask, many = one_mask(chosen), len(chosen)
    rest = index[many:]
    if any(isinstance(i, Tensor) for i in rest) or not all(isinstance(i, Selected) for i in index[:many]):
        raise refused("this index")
    every = many == 1 and is_row(chosen[0], x)
    return of_mask(x if every else x[tuple(i.whole for i in chosen)], mask, rest)


def is_row(place: Selected, x: Tensor) -> bool:
    """Is it the row's own number?"""
    return place.along == 0 and place.mask.given.dim() == 1 and place.mask.given.shape[0] == x.shape[0]


def put(x: Tensor, index: Any, value: Any) -> None:
    """x[mask] = value, x[places] = value: the rows that are selected become those of the value."""
    mask, along = (Mask.of(index), None) if not isinstance(index, Selected) else (index.mask, index.along)
    if isinstance(value, Selected) and not value.mask.selects_as(mask):
        raise refused("an assignment of rows that another mask selects")
    shape = mask.given.shape
    if not isinstance(index, Selected):
        rows = value.whole if isinstance(value, Selected) else value
        inner = x.dim() - len(shape)
        rows = rows.expand(mask.given.numel(), *x.shape[len(shape) :]).reshape(x.shape)
        x.copy_(torch.where(mask.rows().reshape(*shape, *[1] * inner), rows, x))
        return
    if along != 0 or mask.each > 1 or len(shape) > 2 or not isinstance(value, Selected) or len(x) != shape[0]:
        raise refused("an assignment to places")
    rows, chosen = value.whole.expand(-1, *x.shape[1:]), mask.rows()
    if len(shape) == 2:  # of several in a line, the last one stays
        number = torch.arange(1, shape[1] + 1)
        last = (mask.given * number).amax(1, keepdim=True)
        picked = (mask.given & (last == number)).reshape(*shape, *[1] * (x.dim() - 1))
        rows = torch.where(picked, rows.reshape(*shape, *x.shape[1:]), 0).sum(1)
        chosen = last.squeeze(1) > 0
    x.copy_(torch.where(chosen.reshape(-1, *[1] * (x.dim() - 1)), rows, x))


def added(x: Tensor, place: Selected, value: Tensor, alpha: float = 1) -> Tensor:
    """x.index_add(0, place, value)."""
    shape = place.mask.given.shape
    if place.along is None or not isinstance(value, Selected) or shape[place.along] != len(x):
        raise refused("an addition to places")
    one_mask([place, value])
    rows = value.filled(0).reshape(*shape, *x.shape[1:])
    others = [d for d in range(len(shape)) if d != place.along]
    return x + (rows.sum(others) if others else rows) * alpha


def one_mask(chosen: Sequence[Selected]) -> Mask:
    first = chosen[0].mask
    if not all(s.mask.selects_as(first) for s in chosen):
        raise refused("a combination with what another mask selects")
    return first


def made_alike(a: Tensor, b: Tensor) -> bool:
    """Are they the results of the same operations on the same operands?"""
    mode = get_innermost_proxy_mode()
    if mode is None:
        return False
    nodes = [get_proxy_slot(t, mode.tracer, None, lambda slot: slot.proxy.node) for t in (a, b)]
    return None not in nodes and alike(nodes[0], nodes[1], DEEPEST)


def alike(a: Any, b: Any, depth: int) -> bool:
    if a is b:
        return True
    if not isinstance(a, torch.fx.Node) or not isinstance(b, torch.fx.Node):
        return type(a) is type(b) and a == b
    if depth == 0 or a.op != "call_function" or b.op != a.op or a.target != b.target:
        return False
    (ours, one), (others, other) = (pytree.tree_flatten((n.args, n.kwargs)) for n in (a, b))
    return one == other and all(alike(x, y, depth - 1) for x, y in zip(ours, others, strict=True))


def reduced(s: Selected, whole: Tensor, reduction: str) -> Any:
    """Of a loss of each element."""
    found = s.with_rows(whole)
    if reduction == "none":
        return found
    total = found.filled(0).sum()
    return total if reduction == "sum" else total / (s.mask.count() * prod(whole.shape[1:]))
