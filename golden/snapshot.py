"""What some modules hold, all of it, and putting it back: the user's model is never left other than it was given.

Nothing is copied but contents. A walk over everything that can be reached (attributes, parameters, buffers, hooks,
gradients, plain containers, objects of the user's own classes) remembers, for each thing that can change, the thing
itself and what it holds; `restore` puts that into the same things again. So two names of one tensor stay two names of
it, and what nobody can copy (a lock, a file, a lambda) is in nobody's way. The random generators belong to it.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import itertools
import operator
import random
import sys
import types
from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch._C._functorch import is_functorch_wrapped_tensor

from golden.containers import (
    LENGTH,
    Cells,
    ClassData,
    Count,
    Slots,
    count_of,
    entries_of,
    function_in,
    is_bare,
    is_iterator,
    is_plain,
    names_of,
)

Undo = Callable[[], object]
LIBRARIES = frozenset({*sys.stdlib_module_names, "torch", "numpy"})  # of these, modules and containers alone are walked
CONTAINERS = (dict, list, set, deque)
COUNTED = 64  # numbers at the beginning of an array, which may be counters; in a table nothing counts
TABLES = ("_parameters", "_buffers", "_modules")
HOLDERS = (nn.Module, functools.partial, types.MethodType)  # in variables, whosever classes they are of


@dataclass(frozen=True)
class Place:
    """Where a tensor is held: an entry of a dict (of the attributes, say) or of a list."""

    path: str  # "stem.0.mem"
    container: Any
    key: Any

    def held(self) -> Any:
        """What is there now."""
        try:
            return self.container[self.key]
        except (KeyError, IndexError):
            return None


@dataclass(frozen=True)
class Plain:
    """A number, text, None or iterator in a dict or a list, or how long that is; a count as what it goes on with."""

    container: Any
    key: Any
    value: Any


class Snapshot:
    """What the given things, and everything in them, hold now."""

    def __init__(self, *roots: Any, like: Snapshot | None = None, skip: Iterable[Any] = ()) -> None:
        """Bytes that are those of another snapshot are shared with it; `skip` is left out, with what is in it alone."""
        self.things: dict[int, Any] = {id(thing): thing for thing in skip}  # kept alive, so that no id is used twice
        self.places: dict[int, list[Place]] = {}  # of each tensor, by its id
        self.plain: dict[str, Plain] = {}  # by path
        self.spaces: dict[int, dict[str, Any]] = {}  # the variables of files whose functions are called
        self.undo: list[Undo] = []
        self.undo_grads: list[Undo] = []  # last: a gradient must have its own type again, which module.double() changes
        self.bytes: dict[int, torch.Tensor] = {}  # by storage
        self.known = like.bytes if like is not None else {}
        self.classes: set[type] = set()
        todo = deque((root, f"({i})" if i else "") for i, root in enumerate(roots))
        while todo:
            thing, path = todo.popleft()
            if isinstance(thing, types.FunctionType):
                todo.extend((held, name) for name, held in self.variables(thing))
            elif id(thing) not in self.things and changeable(thing):
                self.things[id(thing)] = thing
                todo.extend((held, f"{path}.{name}".strip(".")) for name, held in self.visit(thing, path))
        self.undo += generators()

    @contextlib.contextmanager
    def undone(self) -> Iterator[None]:
        """Afterwards everything holds what it held then."""
        try:
            yield
        finally:
            self.restore()

    def restore(self) -> None:
        """Everything holds what it held then."""
        for undo in (*self.undo, *self.undo_grads):
            undo()

    def value(self, t: torch.Tensor) -> torch.Tensor:
        """What a tensor of these held, in the bytes that are remembered: not to be written to."""
        values = self.bytes.get(t.untyped_storage()._cdata) if plain_tensor(t) else None
        if values is None or t.is_conj() or t.is_neg():
            return t.detach().clone()
        place = (t.storage_offset(), t.shape, t.stride())
        return torch.empty(0, dtype=t.dtype).set_(values.untyped_storage(), *place)

    def put(self, others: Mapping[int, torch.Tensor]) -> None:
        """Another tensor wherever one of these ids is held."""
        for old, new in others.items():
            for place in self.places.get(old, ()):
                place.container[place.key] = new

    def visit(self, thing: Any, path: str) -> Iterable[tuple[str, Any]]:
        """Remember what this thing holds; what is to be visited in it."""
        if isinstance(thing, torch.Tensor):
            return self.tensor(thing)
        if isinstance(thing, CONTAINERS):
            self.plain[f"len({path})"] = Plain(thing, LENGTH, len(thing))
            return self.container(thing, path)
        if isinstance(thing, tuple | frozenset):
            return [(str(i), held) for i, held in enumerate(thing)]
        if isinstance(thing, functools.partial):
            return [("", thing.func), *arguments_of(thing)]
        if isinstance(thing, types.MethodType):
            return [("", thing.__self__)]
        if isinstance(thing, np.ndarray | array | bytearray):
            self.array(thing, path)
        elif (undo := own_generator(thing)) is not None:
            self.undo.append(undo)
        elif isinstance(thing, nn.Module) or not of_library(type(thing)) or is_bare(type(thing)):
            return self.attributes(thing, path)
        return ()

    def container(self, thing: Any, path: str) -> list[tuple[str, Any]]:
        """Its entries by name; where they are tensors or plain values, their places."""
        self.undo.append(undo_of(thing))
        entries = list(thing.items()) if isinstance(thing, dict) else list(enumerate(thing))
        if isinstance(thing, dict | list):
            for key, held in entries:
                self.place(f"{path}.{key}".strip("."), thing, key, held)
        return [(str(key), held) for key, held in entries]

    def array(self, thing: Any, path: str) -> None:
        """What it holds, and the first numbers in it as values of their own."""
        self.undo.append(functools.partial(put_array, thing, copy.copy(thing)))
        entries = entries_of(thing)
        for i, number in enumerate(itertools.islice(entries, COUNTED)):
            self.place(f"{path}.{i}".strip("."), entries, i, number)

    def place(self, path: str, container: Any, key: Any, held: Any) -> None:
        if isinstance(held, torch.Tensor) and (is_functorch_wrapped_tensor(held) or held.is_meta):
            return  # nothing can be read of what torch.vmap has left behind, and of what is a shape alone
        if isinstance(held, torch.Tensor):
            self.places.setdefault(id(held), []).append(Place(path, container, key))
        elif isinstance(held, itertools.count):
            count = count_of(held)
            self.plain[path] = Plain(container, key, count)
            self.undo.append(functools.partial(put_count, container, key, count))
        elif is_plain(held) or is_iterator(held):
            self.plain[path] = Plain(container, key, held)

    def attributes(self, thing: Any, path: str) -> Iterator[tuple[str, Any]]:
        """Of a module or an object of the user's. What is in a module's tables goes by its own name alone."""
        kinds = [kind for kind in type(thing).__mro__ if self.is_new(kind)]
        for kind in kinds:
            yield from self.read(ClassData(kind), kind.__name__)
            yield from (("", f) for f in map(function_in, vars(kind).values()) if f is not None)
        yield from ((name.removeprefix(f"{path}."), held) for name, held in self.read(Slots(thing), path))
        space = getattr(thing, "__dict__", {})
        tables = [space[name] for name in TABLES] if isinstance(thing, nn.Module) else []
        own = {id(table) for table in tables}
        for table in (*tables, space):
            self.things[id(table)] = table
            yield from (entry for entry in self.container(table, path) if id(entry[1]) not in own)

    def variables(self, function: types.FunctionType) -> Iterator[tuple[str, Any]]:
        """Tensors, containers and plain values outside of it that a function of the user's, or one that it calls,
        reads: in its file, around it, among its defaults and in attributes of its own."""
        if id(function) in self.things or root(function) in LIBRARIES:
            return
        self.things[id(function)] = function
        space = function.__globals__
        self.spaces[id(space)] = space
        if installed(function):
            return
        yield from self.read(space, "globals", names_of(function.__code__))
        yield from self.read(Cells(function), function.__name__)
        yield from ((function.__name__, held) for held in (function.__defaults__, function.__kwdefaults__) if held)
        if vars(function):
            yield function.__name__, vars(function)

    def read(self, space: Any, path: str, names: Iterable[str] | None = None) -> Iterator[tuple[str, Any]]:
        """Of variables, or of those with such names, what may change, and functions."""
        for name in list(space) if names is None else sorted(n for n in names if n in space):
            held = space[name]
            if isinstance(held, (torch.Tensor, *CONTAINERS)) or is_plain(held) or is_iterator(held):
                self.undo.append(functools.partial(space.__setitem__, name, held))
                self.place(f"{path}.{name}", space, name, held)
                yield f"{path}.{name}", held
            elif is_bare(type(held)) or is_own(type(held)) or isinstance(held, HOLDERS):
                yield f"{path}.{name}", held
            elif (function := function_in(held)) is not None:
                yield "", function

    def is_new(self, kind: type) -> bool:
        new = kind not in self.classes and not of_library(kind)
        self.classes.add(kind)
        return new

    def tensor(self, t: torch.Tensor) -> list[tuple[str, Any]]:
        """Where it lies and, once for all tensors that lie there, the bytes."""
        if not plain_tensor(t):
            return []
        storage = t.untyped_storage()
        if storage._cdata not in self.bytes:
            now, known = bytes_of(storage), self.known.get(storage._cdata)
            values = known if known is not None and torch.equal(known, now) else now.clone()
            self.bytes[storage._cdata] = values
            self.undo.append(functools.partial(put_bytes, storage, values))
        self.undo.append(functools.partial(put_tensor, t, t.detach(), t.requires_grad, t.is_leaf))
        if not t.is_leaf:
            return []
        self.undo_grads.append(functools.partial(setattr, t, "grad", t.grad))
        return [("grad", t.grad)]


# ---- what to walk


CODE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
STILL = (*CODE, str, bytes, int, float, complex, torch.dtype, torch.Size, type(None))


def arguments_of(call: functools.partial[Any]) -> list[tuple[str, Any]]:
    """What it is given already, by the names of the function's parameters."""
    names: list[str] = []
    with contextlib.suppress(TypeError, ValueError):
        names = list(inspect.signature(call.func).parameters)
    numbered = map(str, itertools.count(len(names)))
    return [*zip(itertools.chain(names, numbered), call.args, strict=False), *call.keywords.items()]


def changeable(thing: Any) -> bool:
    return not isinstance(thing, STILL)


def root(thing: Any) -> str:
    return str(thing.__module__).partition(".")[0]


def of_library(kind: type) -> bool:
    return root(kind) in LIBRARIES


def is_own(kind: type) -> bool:
    """Of the user's: not a library's, nor a package's."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return not of_library(kind) and file is not None and not in_packages(file)


def in_packages(file: str) -> bool:
    return "site-packages" in file or "dist-packages" in file


def installed(function: types.FunctionType) -> bool:
    """A package's, not the user's."""
    return in_packages(function.__code__.co_filename)


def plain_tensor(t: torch.Tensor) -> bool:
    """Bytes in memory, and nothing else."""
    usual = type(t).__torch_dispatch__ is torch.Tensor.__torch_dispatch__ and not is_functorch_wrapped_tensor(t)
    lazy = torch.nn.parameter.is_lazy(t)
    there = t.layout is torch.strided and t.device.type == "cpu" and not t._is_zerotensor()  # that has no memory
    return usual and not lazy and there and not t.is_quantized


# ---- how to put back


def undo_of(thing: Any) -> Undo:
    """For a container: the same entries in the same order, where they are not."""
    if isinstance(thing, dict):
        return functools.partial(put_entries, thing, dict(thing))
    return functools.partial(put_items, thing, list(thing))


def put_entries(thing: dict[Any, Any], entries: dict[Any, Any]) -> None:
    if not (same(thing, entries) and same(thing.values(), entries.values())):
        thing.clear()
        thing.update(entries)


def put_items(thing: Any, items: list[Any]) -> None:
    if not same(thing, items):
        thing.clear()
        (thing.update if isinstance(thing, set) else thing.extend)(items)


def same(now: Collection[Any], before: Collection[Any]) -> bool:
    """The very things, in the same order."""
    return len(now) == len(before) and all(map(operator.is_, now, before))


def put_count(container: Any, key: Any, count: Count) -> None:
    container[key] = itertools.count(count.next, count.step)


def put_array(array: Any, values: Any) -> None:
    if isinstance(array, np.ndarray):
        if array.flags.writeable:
            array[...] = values
    elif array != values:
        array[:] = values


def put_bytes(storage: Any, values: torch.Tensor) -> None:
    if storage.nbytes() != len(values):
        storage.resize_(len(values))
    now = bytes_of(storage)
    if not torch.equal(now, values):
        now.copy_(values)


def bytes_of(storage: Any) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(storage)


def put_tensor(t: torch.Tensor, before: torch.Tensor, trained: bool, leaf: bool) -> None:
    if leaf and not t.is_leaf and t._base is None:
        t.detach_()  # something with a gradient was written into it
    if where(t) != where(before):
        t.data = before
    if leaf and t.requires_grad != trained:
        t.requires_grad_(trained)


def where(t: torch.Tensor) -> tuple[Any, ...]:
    return t.untyped_storage()._cdata, t.storage_offset(), t.shape, t.stride(), t.dtype


def generators() -> list[Undo]:
    """Python's, numpy's and PyTorch's."""
    return [
        functools.partial(random.setstate, random.getstate()),
        functools.partial(np.random.set_state, np.random.get_state()),
        functools.partial(torch.random.set_rng_state, torch.random.get_rng_state()),
    ]


def own_generator(thing: Any) -> Undo | None:
    if isinstance(thing, torch.Generator):
        return functools.partial(thing.set_state, thing.get_state())
    if isinstance(thing, random.Random):
        return functools.partial(thing.setstate, thing.getstate())
    if isinstance(thing, np.random.RandomState):
        return functools.partial(thing.set_state, thing.get_state())
    if isinstance(thing, np.random.Generator):
        return functools.partial(setattr, thing.bit_generator, "state", thing.bit_generator.state)
    return None
