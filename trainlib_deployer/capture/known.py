"""Tensors whose values are known while a step is traced: constants made in forward, buffers that no step changes, and
what is calculated from these alone. They may decide on branches, shapes and places: every step decides the same."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from golden.mode import Mode
from trainlib_deployer.capture.rewrites_packed import FORMS as PACKED
from trainlib_deployer.capture.selected import by_mask, places
from trainlib_deployer.capture.selected_functions import call, of_selected
from trainlib_deployer.errors import DeployError

Tensor = torch.Tensor
READS = frozenset("item tolist __bool__ __int__ __float__ __index__ numpy equal allclose is_nonzero".split())
INDEXING = (Tensor.__getitem__, Tensor.__setitem__)
COUNTS = (torch.bincount, Tensor.bincount)  # the largest value may decide how long the result is
UNKNOWN = object()
REPLACED = Tensor.data.__set__  # type: ignore[attr-defined]
STALE = -1  # no tensor's version
MOST = 1 << 22  # elements: beyond, nothing is calculated twice


class Chance(Exception):
    """A random number would be drawn."""


class Certain(Mode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise Chance
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Value:
    """What a traced tensor holds, as long as nobody has written to it."""

    traced: Tensor
    real: Tensor
    version: int
    made_of: frozenset[str]  # the model's own tensors that it is, or is calculated from


class Known:
    """Values of traced tensors, by their identity; the names of those of the model whose values have decided."""

    def __init__(self, given: Iterable[tuple[str, Tensor, Tensor]]) -> None:
        self.values: dict[int, Value] = {}
        self.decided: set[str] = set()
        for name, traced, real in given:
            self.learn(traced, real, frozenset({name}))

    def learn(self, traced: Tensor, real: Tensor, made_of: frozenset[str]) -> None:
        self.values[id(traced)] = Value(traced, real, traced._version, made_of)

    def made_of(self, given: Any) -> frozenset[str]:
        """What all these are calculated from."""
        values = (self.values.get(id(t)) for t in tensors_of(given))
        return frozenset[str]().union(*(v.made_of for v in values if v is not None))

    def read(self, tensor: Tensor) -> Tensor | None:
        """To decide about branches, shapes or places."""
        real = self.of(tensor)
        if real is not None:
            self.decided |= self.made_of(tensor)
        return real

    def of(self, tensor: Tensor) -> Tensor | None:
        found = self.values.get(id(tensor))
        if found is not None:
            return found.real if found.version == tensor._version else None
        plain = type(tensor) is Tensor and not tensor.requires_grad and not is_functorch_wrapped_tensor(tensor)
        return tensor if plain else None  # nobody has traced it

    def all_of(self, given: Any) -> Any:
        """The same arguments with real tensors; None if one is not known."""
        if any(self.of(t) is None for t in tensors_of(given)):
            return None
        return pytree.tree_map_only(Tensor, self.of, given)

    def call(self, func: Callable[..., Any], args: Any, kwargs: Any, traced: Callable[..., Any]) -> Any:
        """The result of `traced`, a form of `func` that may be traced, or what is known of it without."""
        if of_selected(args, kwargs):
            return call(func, args, kwargs, traced)
        mask = mask_of(func, args, kwargs)
        if mask is not None and self.of(mask) is None:
            return selection(func, mask, *args)
        real = self.all_of((args, kwargs))
        if real is not None and (found := self.untraced(func, args, kwargs, real)) is not UNKNOWN:
            return found
        given = tensors_of((args, kwargs))
        read, versions = [t for t in given if self.of(t) is not None], [t._version for t in given]
        try:
            result = traced(*args, **kwargs)
        except Exception as error:
            if isinstance(error, DeployError):
                raise
            found = self.otherwise(func, args, kwargs, real) if read else UNKNOWN
            if found is UNKNOWN and func == Tensor.__getitem__:
                found = at_places(*args)
            if found is UNKNOWN and func == Tensor.__setitem__:
                found = put_at_place(*args)
                self.forget([args[0]] if found is None else [])
            if found is UNKNOWN:
                raise
            return found
        if read and not static(result):
            found = self.otherwise(func, args, kwargs, real)
            return result if found is UNKNOWN else found
        replaced = [args[0]] if func == REPLACED else []
        written = replaced or [t for t, v in zip(given, versions, strict=True) if t._version != v]
        if real is None or replaced:
            self.forget(written)
        else:
            self.follow(func, real, result, written, self.made_of((args, kwargs)))
        return result

    def untraced(self, func: Callable[..., Any], args: Any, kwargs: Any, real: Any) -> Any:
        """What is calculated from the values alone, where all of them are known."""
        if getattr(func, "__name__", "") in READS:
            self.decided |= self.made_of((args, kwargs))
            return calculated(func, *real)
        if func == Tensor.scatter_ and not args[0].is_floating_point():
            return self.placed(args[0], real, self.made_of((args, kwargs)))
        return self.otherwise(func, args, kwargs, real) if func in COUNTS else UNKNOWN

    def forget(self, written: list[Tensor]) -> None:
        """What lies in the same memory has changed, whatever its own version says: that of `.data` is another one."""
        stores = {t.untyped_storage()._cdata for t in written}
        for key, value in self.values.items():
            if stores and value.traced.untyped_storage()._cdata in stores:
                self.values[key] = replace(value, version=STALE)
        self.values |= {id(t): Value(t, t, STALE, frozenset()) for t in written}

    def follow(
        self, func: Callable[..., Any], real: Any, result: Any, written: list[Tensor], made_of: frozenset[str]
    ) -> None:
        """Calculate with the values what was traced."""
        made = pytree.tree_leaves(result)
        if not written and not any(isinstance(t, Tensor) and t.numel() <= MOST for t in made):
            return
        if any(id(t) not in self.values for t in written):  # nothing was written to what nobody has traced
            self.values |= {id(t): Value(t, t, STALE, made_of) for t in written}
            return
        stores = {t.untyped_storage()._cdata for t in written}
        try:
            found = pytree.tree_leaves(calculated(func, *real))
        except Exception:
            return
        for value in [v for v in self.values.values() if v.traced.untyped_storage()._cdata in stores]:
            self.learn(value.traced, value.real, value.made_of | made_of)
        for traced, new in zip(made, found, strict=True):
            if isinstance(traced, Tensor) and isinstance(new, Tensor) and traced.shape == new.shape:
                self.learn(traced, new, made_of)

    def otherwise(self, func: Callable[..., Any], args: Any, kwargs: Any, real: Any) -> Any:
        """What cannot be traced as it is: all of it may be known, or what decides about shapes."""
        with contextlib.suppress(Exception):
            if real is not None:
                self.decided |= self.made_of((args, kwargs))
                return pytree.tree_map_only(Tensor, self.copied, calculated(func, *real))
            return spelled_out(self, func, args, kwargs)
        return UNKNOWN

    def placed(self, target: Tensor, real: Any, made_of: frozenset[str]) -> Tensor:
        """Integers go to places that are known, as those of a permutation that is turned around: no kernel does it."""
        found = calculated(Tensor.scatter, *real)
        self.decided |= made_of
        target.copy_(self.copied(found))
        self.forget([target])
        self.learn(target, found, made_of)
        return target

    def copied(self, real: Tensor) -> Tensor:
        """As a tensor that is traced: it may be written to."""
        traced: Tensor = torch.ops.aten.lift_fresh_copy.default(real)
        self.learn(traced, calculated(Tensor.clone, (real,), {}), frozenset())  # the graph keeps the other one as it is
        return traced


def calculated(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    with _disable_current_modes(), torch.no_grad(), Certain():
        return func(*args, **kwargs)


def tensors_of(values: Any) -> list[Tensor]:
    return [v for v in pytree.tree_leaves(values) if isinstance(v, Tensor)]


def static(result: Any) -> bool:
    """Are all extents numbers?"""
    return all(isinstance(n, int) for t in tensors_of(result) for n in t.shape)


# ---- where only the positions are known


def spelled_out(known: Known, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Masks as positions, tensors that stand for numbers as numbers."""
    if func in INDEXING:
        index = args[1] if isinstance(args[1], tuple) else (args[1],)
        places = [p for v in index for p in positions(known, v)]
        return func(args[0], tuple(places), *args[2:])
    if func in PACKED:
        found = PACKED[func](*(number(known, v) for v in args), **kwargs)
        return tuple(known.copied(calculated(torch.tensor, (v,), {})) if isinstance(v, list) else v for v in found)
    if func in (torch.masked_select, Tensor.masked_select):
        return selected(known, *args)
    if func in (torch.repeat_interleave, Tensor.repeat_interleave):
        return repeated(known, *args, **kwargs)
    return func(args[0], *(number(known, v) for v in args[1:]), **{k: number(known, v) for k, v in kwargs.items()})


def positions(known: Known, index: Any) -> list[Any]:
    """A mask as one list of places for each of its dimensions."""
    real = known.read(index) if isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) else None
    return [index] if real is None else list(calculated(torch.nonzero, (real,), {"as_tuple": True}))


def at_places(x: Tensor, index: Any) -> Any:
    """x[:, i] for a tensor i of one integer, which PyTorch reads: a row that is found as the step runs."""
    index = index if isinstance(index, tuple) else (index,)
    if not any(map(is_place, index)):
        return UNKNOWN
    dim, rest = 0, []
    for at, v in enumerate(index):
        if is_place(v):
            many = x.shape[dim]
            x = x.index_select(dim, torch.where(v < 0, v + many, v).reshape(1)).squeeze(dim)
            continue
        rest.append(v)
        dim = x.dim() - sum(map(dims_of, index[at + 1 :])) if v is Ellipsis else dim + dims_of(v)
    return x[tuple(rest)]


def put_at_place(x: Tensor, index: Any, value: Any) -> Any:
    """x[:, i] = value, for one such place and all of the other dimensions."""
    index = index if isinstance(index, tuple) else (index,)
    others = [v for v in index if not is_place(v)]
    if len(others) != len(index) - 1 or any(v is not Ellipsis and v != slice(None) for v in others):
        return UNKNOWN
    at = next(at for at, v in enumerate(index) if is_place(v))
    dim = at if Ellipsis not in index[:at] else x.dim() - len(index) + at
    place, shape = index[at], [-1 if d == dim else 1 for d in range(x.dim())]
    chosen = (torch.arange(x.shape[dim]) == torch.where(place < 0, place + x.shape[dim], place)).reshape(shape)
    if isinstance(value, Tensor):
        value = value.to(x.dtype).expand(x.select(dim, 0).shape).unsqueeze(dim)
    x.copy_(torch.where(chosen, value, x))
    return None


def mask_of(func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor | None:
    """The mask that selects rows, or of which the places are asked for."""
    if func == Tensor.__getitem__:
        first, *rest = args[1] if isinstance(args[1], tuple) else args[1:]
        alone = isinstance(first, Tensor) and first.dtype is torch.bool and not any(map(torch.is_tensor, rest))
        return first if alone and first.dim() else None
    if func in (torch.masked_select, Tensor.masked_select):
        return args[1] if len(args) == 2 and args[0].shape == args[1].shape else None
    asked = kwargs.get("as_tuple") if func in (torch.nonzero, Tensor.nonzero) else func == torch.where
    return args[0] if asked and len(args) == 1 and args[0].dim() else None


def selection(func: Callable[..., Any], mask: Tensor, *args: Any) -> Any:
    """What a mask selects whose values are not known."""
    if func in (torch.nonzero, Tensor.nonzero, torch.where):
        return places(mask != 0)
    return by_mask(args[0], mask, args[1][1:] if isinstance(args[1], tuple) else ())


def is_place(v: Any) -> bool:
    return isinstance(v, Tensor) and not v.dim() and v.dtype in (torch.int64, torch.int32, torch.int16, torch.int8)


def dims_of(v: Any) -> int:
    """How many dimensions an entry of an index takes."""
    if isinstance(v, Tensor) and v.dtype in (torch.bool, torch.uint8):
        return v.dim()
    return 0 if v is None or isinstance(v, bool) else 1


def selected(known: Known, x: Tensor, mask: Tensor) -> Tensor:
    real = known.read(mask)
    if real is None:
        return torch.masked_select(x, mask)
    shape = torch.broadcast_shapes(x.shape, mask.shape) or (1,)  # type: ignore[no-untyped-call]
    return x.expand(shape)[tuple(calculated(lambda: real.expand(shape).nonzero(as_tuple=True), (), {}))]


def repeated(known: Known, x: Tensor, repeats: Tensor, dim: int | None = None, *, output_size: Any = None) -> Tensor:
    lines = x.flatten() if dim is None else x
    real = known.read(repeats)
    if real is None:
        return torch.repeat_interleave(x, repeats, dim)
    many = lines.shape[dim or 0]
    order = calculated(lambda: torch.arange(many).repeat_interleave(real.expand(many)), (), {})
    return lines.index_select(dim or 0, order)


def number(known: Known, value: Any) -> Any:
    real = known.read(value) if isinstance(value, Tensor) and not value.is_floating_point() else None
    return value if real is None or real.dim() > 1 else calculated(Tensor.tolist, (real,), {})
